//! A receipt of any type.

use alloy_consensus::{Eip658Value, Receipt as PlainReceipt, ReceiptWithBloom, TxReceipt};
use alloy_eips::{Encodable2718, Typed2718};
use alloy_primitives::{B256, Bloom, Log, keccak256};
use alloy_rlp::{BufMut, Decodable, EMPTY_LIST_CODE, Encodable, Error, Header};

use super::TxType;
use crate::remote::{
    fault::MemberError,
    json::Value,
    reader::{Reader, u8, u64},
};

/// The members of receipts of every type that hold a number.
pub(crate) const QUANTITIES: &[&str] = &[
    "blockNumber",
    "cumulativeGasUsed",
    "effectiveGasPrice",
    "gasUsed",
    "status",
    "transactionIndex",
    "type",
];

/// Most topics that a log may have (LOG4).
pub(crate) const TOPICS_MAX: usize = 4;

/// A receipt of any type, with its bloom; its status is a state root before Byzantium (EIP-658).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    tx_type: TxType,
    plain: ReceiptWithBloom<PlainReceipt>,
    /// The type's own members, which follow the logs in RLP.
    own_members: Vec<u64>,
}

/// The receipt of a transaction of this type, with the bloom of its logs (yellow paper, 4.3.1).
///
/// Logs repeat contracts, events and accounts, so most of the hashes are cached.
#[must_use]
pub fn with_bloom(tx_type: TxType, receipt: PlainReceipt) -> Receipt {
    let mut logs_bloom = Bloom::ZERO;
    for log in &receipt.logs {
        logs_bloom.m3_2048_hashed(&keccak256(log.address));
        for topic in log.topics() {
            logs_bloom.m3_2048_hashed(&keccak256(topic));
        }
    }
    let receipt = ReceiptWithBloom {
        receipt,
        logs_bloom,
    };
    Receipt::from_typed(tx_type, receipt)
}

impl Receipt {
    /// The receipt of a transaction of this type, without members of its own.
    pub fn from_typed(tx_type: TxType, receipt: impl Into<ReceiptWithBloom<PlainReceipt>>) -> Self {
        Self {
            tx_type,
            plain: receipt.into(),
            own_members: Vec::new(),
        }
    }

    /// The same receipt with its type's own members.
    #[must_use]
    pub(crate) fn with_own_members(self, own_members: Vec<u64>) -> Self {
        Self {
            own_members,
            ..self
        }
    }

    /// The type of the transaction.
    #[must_use]
    pub const fn tx_type(&self) -> TxType {
        self.tx_type
    }

    /// Gas used by the block's transactions up to this one.
    #[must_use]
    pub const fn cumulative_gas_used(&self) -> u64 {
        self.plain.receipt.cumulative_gas_used
    }

    /// The logs.
    #[must_use]
    pub fn logs(&self) -> &[Log] {
        &self.plain.receipt.logs
    }

    /// The bloom of the logs.
    #[must_use]
    pub const fn logs_bloom(&self) -> &Bloom {
        &self.plain.logs_bloom
    }

    /// The type's own members.
    pub(crate) fn own_members(&self) -> &[u64] {
        &self.own_members
    }

    /// Replaces the status with the state root after the transaction, as before Byzantium.
    pub(crate) const fn set_post_state(&mut self, root: B256) {
        self.plain.receipt.status = Eip658Value::PostState(root);
    }

    /// The receipt with this EIP-2718 encoding. Whether the bloom is that of the logs is not
    /// checked: a receipts root covers both.
    pub(crate) fn decode(mut encoded: &[u8]) -> alloy_rlp::Result<Self> {
        let tx_type = match encoded.first() {
            // A legacy receipt is a list.
            None | Some(EMPTY_LIST_CODE..) => TxType::Legacy,
            Some(&flag) => {
                encoded = &encoded[1..];
                TxType::try_from(flag).map_err(|_| Error::Custom("an unknown type"))?
            }
        };
        let mut members = Header::decode_bytes(&mut encoded, true)?;
        let plain = PlainReceipt::rlp_decode_fields_with_bloom(&mut members)?;
        let mut own_members = Vec::new();
        while !members.is_empty() && own_members.len() < tx_type.receipt_members().len() {
            own_members.push(u64::decode(&mut members)?);
        }
        let has_topics = |log: &Log| log.topics().len() <= TOPICS_MAX;
        if !encoded.is_empty() || !members.is_empty() || !plain.receipt.logs.iter().all(has_topics)
        {
            return Err(Error::UnexpectedLength);
        }
        Ok(Self::from_typed(tx_type, plain).with_own_members(own_members))
    }

    fn rlp_header(&self) -> Header {
        let ReceiptWithBloom {
            receipt,
            logs_bloom,
        } = &self.plain;
        let own = self
            .own_members
            .iter()
            .map(Encodable::length)
            .sum::<usize>();
        Header {
            list: true,
            payload_length: receipt.rlp_encoded_fields_length_with_bloom(logs_bloom) + own,
        }
    }
}

impl TxReceipt for Receipt {
    type Log = Log;

    fn status_or_post_state(&self) -> Eip658Value {
        self.plain.receipt.status
    }

    fn status(&self) -> bool {
        self.plain.receipt.status.coerce_status()
    }

    fn bloom(&self) -> Bloom {
        self.plain.logs_bloom
    }

    fn cumulative_gas_used(&self) -> u64 {
        self.plain.receipt.cumulative_gas_used
    }

    fn logs(&self) -> &[Log] {
        &self.plain.receipt.logs
    }
}

impl Typed2718 for Receipt {
    fn ty(&self) -> u8 {
        self.tx_type.into()
    }
}

impl Encodable2718 for Receipt {
    fn encode_2718_len(&self) -> usize {
        usize::from(!self.is_legacy()) + self.rlp_header().length_with_payload()
    }

    fn encode_2718(&self, out: &mut dyn BufMut) {
        if let Some(flag) = self.type_flag() {
            out.put_u8(flag);
        }
        self.rlp_header().encode(out);
        let ReceiptWithBloom {
            receipt,
            logs_bloom,
        } = &self.plain;
        receipt.rlp_encode_fields_with_bloom(logs_bloom, out);
        for member in &self.own_members {
            member.encode(out);
        }
    }
}

/// Reads the type of a receipt.
pub(crate) fn read_type(value: &Value<'_>) -> Result<TxType, MemberError> {
    TxType::try_from(u8(value)?).map_err(|_| MemberError::shape("a type of transaction"))
}

/// Reads the members that this type adds to what the receipts root covers.
pub(crate) fn read_own_members(
    tx_type: TxType,
    receipt: Reader<'_, '_>,
) -> Result<Vec<u64>, MemberError> {
    let names = tx_type.receipt_members().iter();
    names
        .map_while(|name| receipt.find(name, u64).transpose())
        .collect()
}

#[cfg(test)]
mod tests {
    use alloy_consensus::ReceiptEnvelope;
    use alloy_primitives::{Address, Bytes};

    use super::*;

    #[test]
    fn receipts_are_encoded_as_in_ethereum() {
        let log = Log::new_unchecked(
            Address::repeat_byte(1),
            vec![B256::ZERO],
            vec![7; 60].into(),
        );
        let plain = PlainReceipt {
            status: Eip658Value::Eip658(true),
            cumulative_gas_used: 21_000,
            logs: vec![log],
        };
        for (tx_type, theirs) in [
            (TxType::Legacy, alloy_consensus::TxType::Legacy),
            (TxType::Eip2930, alloy_consensus::TxType::Eip2930),
            (TxType::Eip1559, alloy_consensus::TxType::Eip1559),
            (TxType::Eip4844, alloy_consensus::TxType::Eip4844),
            (TxType::Eip7702, alloy_consensus::TxType::Eip7702),
        ] {
            let receipt = with_bloom(tx_type, plain.clone());
            let expected = ReceiptEnvelope::from_typed(theirs, plain.clone());
            assert_eq!(receipt.encoded_2718(), expected.encoded_2718());
            assert_eq!(receipt.encode_2718_len(), expected.encode_2718_len());
            assert_eq!(Receipt::decode(&receipt.encoded_2718()), Ok(receipt));
        }
    }

    #[test]
    fn own_members_follow_the_logs() {
        let plain = with_bloom(TxType::Eip1559, PlainReceipt::default());
        let own = plain.clone().with_own_members(vec![300, 1]);
        let [plain, encoded] = [&plain, &own].map(Encodable2718::encoded_2718);
        assert_eq!(own.encode_2718_len(), encoded.len());
        let mut rest = &encoded[1..];
        let length = Header::decode(&mut rest).map(|header| header.payload_length);
        assert_eq!(length, Ok(rest.len()));
        // The type, the list's prefix of three bytes, and the same members.
        assert_eq!(rest[..plain.len() - 4], plain[4..]);
        assert_eq!(rest[plain.len() - 4..], [0x82, 1, 44, 1]);
        // No type of Ethereum has any.
        assert_eq!(Receipt::decode(&encoded), Err(Error::UnexpectedLength));
    }

    #[test]
    fn what_is_no_receipt_is_refused() {
        let log = Log::new_unchecked(Address::ZERO, vec![B256::ZERO; 5], Bytes::new());
        let plain = PlainReceipt {
            logs: vec![log],
            ..PlainReceipt::default()
        };
        let five_topics = with_bloom(TxType::Legacy, plain).encoded_2718();
        let receipt = with_bloom(TxType::Eip1559, PlainReceipt::default()).encoded_2718();
        let [mut unknown, mut longer] = [receipt.clone(), receipt.clone()];
        unknown[0] = 0x7f;
        longer.push(0);
        let cut = receipt[..receipt.len() - 1].to_vec();
        for encoded in [
            five_topics,
            unknown,
            longer,
            cut,
            Vec::new(),
            vec![2],
            vec![0x80],
        ] {
            assert!(Receipt::decode(&encoded).is_err(), "{encoded:?}");
        }
    }
}
