use proptest::{collection::vec, prelude::*};

use super::*;

#[test]
fn each_wrong_header_field_about_the_body_has_its_error() {
    let chain = RawChain::new();
    let transactions_root = |good: &RawBlock, changed: &RawBlock| VerifyError::TransactionsRoot {
        expected: proofs::calculate_transaction_root(&changed.body.transactions),
        found: good.header.transactions_root,
    };
    chain.check(
        "one transaction missing",
        40,
        |block| drop(block.body.transactions.pop()),
        transactions_root,
    );
    chain.check(
        "transactions swapped",
        40,
        |block| block.body.transactions.swap(0, 1),
        transactions_root,
    );
    chain.check(
        "all transactions missing",
        40,
        |block| block.body.transactions.clear(),
        |good, _| VerifyError::TransactionsRoot {
            expected: EMPTY_ROOT_HASH,
            found: good.header.transactions_root,
        },
    );
    chain.check(
        "the ommer missing",
        25,
        |block| block.body.ommers.clear(),
        |good, _| VerifyError::OmmersHash {
            expected: EMPTY_OMMER_ROOT_HASH,
            found: good.header.ommers_hash,
        },
    );
    let amount = |block: &mut RawBlock| {
        let list = block.body.withdrawals.as_mut().unwrap();
        list.0[0].amount += 1;
    };
    chain.check("a withdrawal's amount", 40, amount, |good, changed| {
        VerifyError::WithdrawalsRoot {
            expected: changed.body.calculate_withdrawals_root(),
            found: good.header.withdrawals_root,
        }
    });
    chain.check(
        "blob gas used",
        43,
        |block| block.header.blob_gas_used = Some(0),
        |_, _| VerifyError::BlobGasUsed {
            expected: Some(131_072),
            found: Some(0),
        },
    );
    // Most blobs in a block: 6 from Cancun, 9 from Prague and Osaka, 15 from BPO1, 21 from BPO2.
    for (number, max) in [(42, 6), (44, 6), (45, 9), (48, 9), (51, 15), (54, 21)] {
        let (max, found) = (max * 131_072, (max + 1) * 131_072);
        chain.check(
            "blob gas limit",
            number,
            |block| block.header.blob_gas_used = Some(found),
            |_, _| VerifyError::BlobGasAboveLimit { max, found },
        );
    }
    chain.check(
        "excess blob gas",
        43,
        |block| block.header.excess_blob_gas = Some(1),
        |_, _| VerifyError::ExcessBlobGas {
            expected: Some(0),
            found: Some(1),
        },
    );
    let mut large = chain.blocks[48].clone();
    let padding = TxLegacy {
        input: Bytes::from(vec![0; 8 << 20]),
        ..TxLegacy::default()
    };
    let padding = Signed::new_unhashed(padding, Signature::test_signature());
    large.body.transactions.push(Transaction::Legacy(padding));
    let length = alloy_rlp::encode(&large).len();
    let too_large = VerifyError::BlockSize {
        max: 8 << 20,
        found: length,
    };
    assert_eq!(
        chain.verify(48, &large),
        Err(too_large),
        "limited from Osaka on"
    );
    large.header = chain.blocks[47].header.clone();
    assert!(
        matches!(
            chain.verify(47, &large),
            Err(VerifyError::TransactionsRoot { .. })
        ),
        "not limited before"
    );
}

/// Transactions with these nonces; those with the same nonce are the same.
fn transactions(nonces: &[u8]) -> Vec<Transaction> {
    let transaction = |nonce: &u8| TxLegacy {
        nonce: u64::from(*nonce),
        ..TxLegacy::default()
    };
    let signed = |transaction| Signed::new_unhashed(transaction, Signature::test_signature());
    let transactions = nonces.iter().map(transaction);
    transactions.map(signed).map(Transaction::Legacy).collect()
}

#[test]
fn a_repeated_transaction_is_named() {
    for (nonces, repeated) in [
        (&[][..], None),
        (&[7][..], None),
        (&[7, 8, 9][..], None),
        (&[7, 7][..], Some(1)),
        (&[7, 8, 9, 7][..], Some(3)),
        (&[1, 2, 3, 4, 4, 5][..], Some(4)),
    ] {
        let transactions = transactions(nonces);
        let expected = repeated.map_or(Ok(()), |index| {
            let hash = *transactions[index].tx_hash();
            Err(VerifyError::DuplicateTransaction { index, hash })
        });
        assert_eq!(check_distinct(&transactions), expected, "{nonces:?}");
    }
}

proptest! {
    #[test]
    fn random_repeats_are_found(nonces in vec(0..40_u8, 0..16)) {
        let is_repeated = |index: usize| nonces[..index].contains(&nonces[index]);
        match check_distinct(&transactions(&nonces)) {
            Ok(()) => prop_assert!(!(0..nonces.len()).any(is_repeated)),
            Err(VerifyError::DuplicateTransaction { index, .. }) => {
                prop_assert!(is_repeated(index));
            }
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        }
    }
}
