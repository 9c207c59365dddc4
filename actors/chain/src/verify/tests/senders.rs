use super::*;

#[test]
fn each_invalid_signature_has_its_error() {
    const ORDER: U256 =
        uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);
    let chain = RawChain::new();
    let mirrored = |signature: &Signature| {
        Signature::new(signature.r(), ORDER - signature.s(), !signature.v())
    };
    let index = 0;
    chain.check_transaction(
        "a high s",
        9,
        |tx, signature| (tx.clone(), mirrored(signature)),
        |hash| VerifyError::SignatureMalleable { index, hash },
    );
    chain.check_transaction(
        "r of zero",
        9,
        |tx, signature| {
            (
                tx.clone(),
                Signature::new(U256::ZERO, signature.s(), signature.v()),
            )
        },
        |hash| VerifyError::Signature { index, hash },
    );
    let expected = chain.spec.chain_id();
    chain.check_transaction(
        "another chain",
        9,
        |tx, signature| {
            (
                TxLegacy {
                    chain_id: Some(1),
                    ..tx.clone()
                },
                *signature,
            )
        },
        |hash| VerifyError::ChainId {
            index,
            hash,
            expected,
            found: 1,
        },
    );
    chain.check_transaction(
        "a chain id before EIP-155",
        5,
        |tx, signature| {
            (
                TxLegacy {
                    chain_id: Some(expected),
                    ..tx.clone()
                },
                *signature,
            )
        },
        |hash| VerifyError::ReplayProtection { index, hash },
    );
    // Before Homestead a high s was valid and recovers to the same sender.
    let frontier = RawChain::with_rules(|genesis| {
        genesis.config.homestead_block = Some(2);
    });
    let Transaction::Legacy(signed) = &frontier.blocks[1].body.transactions[0] else {
        panic!("not a legacy transaction")
    };
    let high = Transaction::Legacy(Signed::new_unhashed(
        signed.tx().clone(),
        mirrored(signed.signature()),
    ));
    let rules = frontier.rules(1, 10);
    let low = frontier.blocks[1].body.transactions[0].clone();
    assert_eq!(
        recover_senders(&rules, &[high]),
        recover_senders(&rules, &[low])
    );
}

#[test]
fn many_signatures_are_recovered_in_the_order_of_their_transactions() {
    let chain = RawChain::new();
    let chain_id = chain.spec.chain_id();
    let all: Vec<_> = chain
        .blocks
        .iter()
        .flat_map(|block| block.body.transactions.clone())
        .cycle()
        .take(1_000)
        .collect();
    for count in [0, 1, 31, 32, 63, 64, 65, 127, 999, 1_000] {
        let each = all[..count]
            .iter()
            .flat_map(|one| recover_senders_of(chain_id, std::slice::from_ref(one)).unwrap());
        let expected: Vec<_> = each.collect();
        assert_eq!(
            recover_senders_of(chain_id, &all[..count]),
            Ok(expected),
            "{count}"
        );
    }
    // The error names the first invalid signature, even if a thread finds a later one sooner.
    let mut invalid = all;
    for index in [998, 400] {
        let Transaction::Legacy(signed) = &invalid[index] else {
            panic!("not a legacy transaction")
        };
        let none = Signature::new(U256::ZERO, signed.signature().s(), false);
        invalid[index] = Transaction::Legacy(Signed::new_unhashed(signed.tx().clone(), none));
    }
    let (index, hash) = (400, *invalid[400].tx_hash());
    let refused = Err(VerifyError::Signature { index, hash });
    assert_eq!(recover_senders_of(chain_id, &invalid), refused);
}
