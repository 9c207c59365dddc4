//! A small assembler, so that the sample contracts are readable.
//!
//! White space separates words; a `;` begins a comment up to the end of the line.
//!
//! | word | becomes |
//! |---|---|
//! | `SSTORE` | that opcode |
//! | `32`, `0xff` | the shortest PUSH of the number |
//! | `name:` | JUMPDEST |
//! | `@name` | PUSH2 of the offset of `name:` |
//! | `event:Stored(uint256,uint256)` | PUSH32 of the event's first topic |
//! | `selector:transfer(address,uint256)` | PUSH4 of the function's selector |

use std::collections::HashMap;

use alloy_primitives::{Bytes, U256, keccak256};
use revm::bytecode::opcode::{JUMPDEST, OpCode, PUSH0, PUSH2};

/// Why a program cannot be assembled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssembleError {
    /// A word is neither an opcode nor a number nor a label.
    #[error("unknown word `{0}`")]
    UnknownWord(String),
    /// A jump to a label that is not defined.
    #[error("unknown label `{0}`")]
    UnknownLabel(String),
    /// A label above offset 65,535, which PUSH2 cannot push.
    #[error("label `{0}` is out of reach")]
    OutOfReach(String),
}

/// Assembles `source`.
pub(super) fn assemble(source: &str) -> Result<Bytes, AssembleError> {
    let mut code = Vec::new();
    let mut labels = HashMap::new();
    let mut jumps = Vec::new();
    let words = source.lines().flat_map(|line| {
        line.split(';')
            .next()
            .unwrap_or_default()
            .split_whitespace()
    });
    for word in words {
        if let Some(label) = word.strip_suffix(':') {
            labels.insert(label, code.len());
            code.push(JUMPDEST);
        } else if let Some(label) = word.strip_prefix('@') {
            jumps.push((label, code.len() + 1));
            code.extend_from_slice(&[PUSH2, 0, 0]);
        } else if let Some(signature) = word.strip_prefix("event:") {
            push(&mut code, keccak256(signature).as_slice());
        } else if let Some(signature) = word.strip_prefix("selector:") {
            push(&mut code, &keccak256(signature)[..4]);
        } else if let Ok(number) = word.parse::<U256>() {
            push(&mut code, &number.to_be_bytes_trimmed_vec());
        } else {
            code.push(opcode(word).ok_or_else(|| AssembleError::UnknownWord(word.to_owned()))?);
        }
    }
    for (label, at) in jumps {
        let target = *labels
            .get(label)
            .ok_or_else(|| AssembleError::UnknownLabel(label.to_owned()))?;
        let target =
            u16::try_from(target).map_err(|_| AssembleError::OutOfReach(label.to_owned()))?;
        code[at..at + 2].copy_from_slice(&target.to_be_bytes());
    }
    Ok(code.into())
}

/// PUSH of up to 32 bytes.
fn push(code: &mut Vec<u8>, bytes: &[u8]) {
    code.push(PUSH0 + bytes.len() as u8);
    code.extend_from_slice(bytes);
}

fn opcode(name: &str) -> Option<u8> {
    (0..=u8::MAX).find(|&byte| OpCode::new(byte).is_some_and(|known| known.as_str() == name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use alloy_primitives::{bytes, hex};

    #[test]
    fn words_become_bytes() {
        for (source, code) in [
            ("", "".to_owned()),
            ("STOP ; the end SSTORE", "00".to_owned()),
            (
                "0 1 255 256 0xffffff",
                "5f600160ff61010062ffffff".to_owned(),
            ),
            ("loop: @loop JUMP", "5b61000056".to_owned()),
            ("@end\n1 end:", "6100055b".replace("5b", "60015b")),
            (
                "selector:transfer(address,uint256)",
                "63a9059cbb".to_owned(),
            ),
            (
                "event:Transfer(address,address,uint256)",
                format!(
                    "7f{}",
                    hex::encode(keccak256("Transfer(address,address,uint256)"))
                ),
            ),
        ] {
            assert_eq!(hex::encode(assemble(source).unwrap()), code, "{source}");
        }
        // The bursting contract of execution-apis' genesis.
        assert_eq!(assemble("0x02e630 0 LOG0").unwrap(), bytes!("6202e6305fa0"));
    }

    #[test]
    fn errors_name_the_offending_word() {
        assert_eq!(
            assemble("SSTROE"),
            Err(AssembleError::UnknownWord("SSTROE".into()))
        );
        assert_eq!(
            assemble("@gone"),
            Err(AssembleError::UnknownLabel("gone".into()))
        );
        let far = format!("@far {} far:", "STOP ".repeat(70_000));
        assert_eq!(assemble(&far), Err(AssembleError::OutOfReach("far".into())));
    }
}
