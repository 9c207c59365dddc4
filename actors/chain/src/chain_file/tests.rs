#![expect(clippy::unwrap_used, reason = "tests")]

use flate2::{Compression, write::GzEncoder};

use super::*;
#[cfg(feature = "all-tests")]
use crate::fixture;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Reads a few bytes at a time, as from a pipe.
#[cfg(feature = "all-tests")]
struct Slow<'a>(&'a [u8]);

#[cfg(feature = "all-tests")]
impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(7);
        self.0.read(&mut buffer[..length])
    }
}

/// Reads `bytes` plain, slowly and as gzip; the number of blocks and the error must be equal.
#[track_caller]
#[cfg(feature = "all-tests")]
fn check(name: &str, bytes: &[u8], blocks: usize, error: Option<&str>) {
    fn read(input: impl Read) -> (usize, Option<String>) {
        let mut count = 0;
        for block in ChainReader::new(input).unwrap() {
            match block {
                Ok(_) => count += 1,
                Err(error) => return (count, Some(error.to_string())),
            }
        }
        (count, None)
    }
    let expected = (blocks, error.map(str::to_owned));
    assert_eq!(read(bytes), expected, "{name}, plain");
    assert_eq!(read(Slow(bytes)), expected, "{name}, slow");
    assert_eq!(read(gzip(bytes).as_slice()), expected, "{name}, gzip");
}

#[cfg(feature = "all-tests")]
#[test]
fn a_chain_file_is_read_to_its_end_or_its_first_error() {
    let chain = fixture::file("chain.rlp");
    let first = alloy_rlp::encode(&fixture::blocks()[0]);
    let length = first.len();
    let after = |bytes: &[u8]| [first.as_slice(), bytes].concat();
    check("whole", &chain, 54, None);
    check("empty", &[], 0, None);
    check("two files in one", &after(&chain), 55, None);
    check(
        "last byte missing",
        &first[..length - 1],
        0,
        Some(&format!(
            "item 0 at byte 0 is truncated: expected {length} bytes, found {}",
            length - 1
        )),
    );
    check(
        "one byte of a second",
        &after(&[0xf9]),
        1,
        Some(&format!(
            "item 1 at byte {length} is truncated: expected 3 bytes, found 1"
        )),
    );
    check(
        "trailing text",
        &after(b"\n"),
        1,
        Some(&format!(
            "item 1 at byte {length}: expected an RLP list, found byte 0x0a"
        )),
    );
    check(
        "a string, not a list",
        &after(&[0x80]),
        1,
        Some(&format!(
            "item 1 at byte {length}: expected an RLP list, found byte 0x80"
        )),
    );
    check(
        "an empty list",
        &after(&[0xc0]),
        1,
        Some(&format!(
            "item 1 at byte {length} is malformed: input too short"
        )),
    );
    check(
        "a stated length of 2^64 - 1 bytes",
        &[0xff; 9],
        0,
        Some(&format!(
            "item 0 at byte 0: expected at most {BLOCK_RLP_BYTES_MAX} bytes, found {}",
            u64::MAX
        )),
    );
    check(
        "a stated length just within the bound",
        &[0xfa, 0x9f, 0xff, 0xfc],
        0,
        Some(&format!(
            "item 0 at byte 0 is truncated: expected {BLOCK_RLP_BYTES_MAX} bytes, found 4"
        )),
    );
    check(
        "a length that is not minimal",
        &[0xf8, 0x01, 0xc0],
        0,
        Some("item 0 at byte 0 is malformed: non-canonical size"),
    );
    check(
        "the most transactions",
        &of_transactions(BLOCK_TRANSACTIONS_MAX),
        1,
        None,
    );
    check(
        "one transaction more",
        &of_transactions(BLOCK_TRANSACTIONS_MAX + 1),
        0,
        Some("item 0 at byte 0: expected at most 163840 transactions, found more"),
    );
}

/// A block of the smallest transactions that can be decoded: 10 bytes each, every field empty
/// except v.
#[cfg(feature = "all-tests")]
fn of_transactions(count: usize) -> Vec<u8> {
    const SMALLEST: [u8; 10] = [0xc9, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 27, 0x80, 0x80];
    let list = |payload: &[u8]| {
        let mut rlp = Vec::new();
        alloy_rlp::Header {
            list: true,
            payload_length: payload.len(),
        }
        .encode(&mut rlp);
        [rlp.as_slice(), payload].concat()
    };
    let header = alloy_rlp::encode(&fixture::blocks()[0].header);
    list(&[header, list(&SMALLEST.repeat(count)), list(&[])].concat())
}

#[cfg(feature = "all-tests")]
#[test]
fn reading_ends_at_the_first_error() {
    let bytes = [&[0x80], fixture::file("chain.rlp").as_slice()].concat();
    let mut reader = ChainReader::new(bytes.as_slice()).unwrap();
    assert!(matches!(
        reader.next(),
        Some(Err(ChainFileError::NotABlock { .. }))
    ));
    assert!(reader.next().is_none());
}

#[cfg(feature = "all-tests")]
#[test]
fn damaged_gzip_is_an_error() {
    let bytes = gzip(&fixture::file("chain.rlp"));
    for (name, damaged) in [
        ("truncated", bytes[..bytes.len() / 2].to_vec()),
        ("garbage after", [&bytes, b"x".as_slice()].concat()),
    ] {
        let last = ChainReader::new(damaged.as_slice()).unwrap().last();
        assert!(
            matches!(last, Some(Err(ChainFileError::Io { .. }))),
            "{name}: {last:?}"
        );
    }
}

#[cfg(feature = "all-tests")]
#[test]
fn a_leading_genesis_is_skipped() {
    let chain = fixture::file("chain.rlp");
    let header = fixture::genesis_header(&fixture::genesis());
    let hash = header.hash_slow();
    let mut exported = Vec::new();
    write_block(
        &mut exported,
        &RawBlock {
            header,
            body: Default::default(),
        },
    )
    .unwrap();
    exported.extend_from_slice(&chain);
    for bytes in [&chain, &exported] {
        let blocks: Vec<_> = ChainReader::new(bytes.as_slice())
            .unwrap()
            .after_genesis(hash)
            .map(Result::unwrap)
            .collect();
        assert_eq!(blocks, fixture::blocks());
    }
    let other = B256::repeat_byte(1);
    let first = ChainReader::new(exported.as_slice())
        .unwrap()
        .after_genesis(other)
        .next();
    assert!(matches!(
        first,
        Some(Err(ChainFileError::Genesis { expected, found }))
            if (expected, found) == (other, hash)
    ));
}

#[cfg(feature = "all-tests")]
#[test]
fn written_blocks_read_back_equal() {
    let mut written = Vec::new();
    for block in fixture::blocks() {
        write_block(&mut written, &block).unwrap();
    }
    assert_eq!(written, fixture::file("chain.rlp"));

    let genesis = fixture::genesis();
    let written = serde_json::to_vec(&genesis).unwrap();
    assert_eq!(read_genesis(&written).unwrap(), genesis);
    assert_eq!(read_genesis(&gzip(&written)).unwrap(), genesis);
}

#[test]
fn a_genesis_is_bounded_after_decompression() {
    let json = br#"{"config":{"chainId":7},"difficulty":"1","gasLimit":"1","alloc":{}}"#;
    let length = json.len() as u64;
    // Spaces after the value, which gzip shrinks to a thousandth.
    let bomb = [json.as_slice(), &[b' '; 1 << 20]].concat();
    for (name, bytes) in [("plain", bomb.clone()), ("gzip", gzip(&bomb))] {
        let refused = read_genesis_within(length, &bytes);
        assert!(
            matches!(refused, Err(ChainFileError::GenesisTooLarge { max }) if max == length),
            "{name}"
        );
        assert!(
            read_genesis_within(bomb.len() as u64, &bytes).is_ok(),
            "{name}"
        );
    }
    for bytes in [json.to_vec(), gzip(json)] {
        assert!(read_genesis_within(length, &bytes).is_ok());
    }
}

#[test]
fn a_genesis_may_omit_fields_that_are_optional_in_geth() {
    let genesis = read_genesis(br#"{"config":{"chainId":7},"difficulty":"1","gasLimit":"0x1388","alloc":{"00000000000000000000000000000000000000aa":{"balance":"12"}}}"#).unwrap();
    assert_eq!(
        (
            genesis.config.chain_id,
            genesis.gas_limit,
            genesis.alloc.len()
        ),
        (7, 5_000, 1)
    );
    let error = read_genesis(b"{\"config\":\n[]}").unwrap_err().to_string();
    assert!(error.contains("line 2"), "{error}");
    assert!(matches!(
        read_genesis(&GZIP_MAGIC),
        Err(ChainFileError::GenesisGzip(_))
    ));
}
