//! Identifies a content of the blob store.

use serde::{Deserialize, Serialize};

use crate::string_value::string_value;

/// SHA-256 of a content, in lowercase hex.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContentHash(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a SHA-256 in lowercase hex: 64 characters")]
pub struct InvalidContentHash;

impl ContentHash {
    pub fn parse(text: impl Into<String>) -> Result<Self, InvalidContentHash> {
        let text = text.into();
        let is_hex = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
        if text.len() == 64 && text.bytes().all(is_hex) { Ok(Self(text)) } else { Err(InvalidContentHash) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

string_value!(ContentHash.0, InvalidContentHash, Self::parse, { "type": "string", "pattern": "^[0-9a-f]{64}$" });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_a_sha256_in_lowercase() {
        assert!(ContentHash::parse("0a".repeat(32)).is_ok());
        for wrong in ["", "0A", &"0A".repeat(32), &"0a".repeat(33)] {
            assert!(ContentHash::parse(wrong).is_err(), "{wrong}");
        }
    }
}
