//! Bodies are packed where that makes an item cheaper: `DynamoDB` bills each KiB that an item begins, at every write.
//!
//! A session of 2 to 5 KB packs into 1 or 2 units. What is small already stays text, which a person can read in the
//! console.

use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::{DecompressError, decompress_to_vec_with_limit};

use crate::table::MAX_ITEM_BYTES;

/// Below this, keys and body fit a single unit anyway.
const WORTH_IT: usize = 768;
/// Fast and nearly as small as the best for bodies of a few KB.
const LEVEL: u8 = 6;

/// A packed body that cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnpackError {
    /// Not what [`pack`] makes.
    #[error("a packed body is damaged: {0}")]
    Damaged(DecompressError),
    /// Unpacked, it is no text.
    #[error("a packed body is no text")]
    NoText(#[source] std::string::FromUtf8Error),
}

/// The body, deflated, where that is worth it.
pub(super) fn pack(body: &str) -> Option<Vec<u8>> {
    if body.len() < WORTH_IT {
        return None;
    }
    let packed = compress_to_vec(body.as_bytes(), LEVEL);
    (packed.len() < body.len()).then_some(packed)
}

/// The body that was packed.
pub(super) fn unpack(packed: &[u8]) -> Result<String, UnpackError> {
    let bytes = decompress_to_vec_with_limit(packed, MAX_ITEM_BYTES).map_err(UnpackError::Damaged)?;
    String::from_utf8(bytes).map_err(UnpackError::NoText)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_comes_back() {
        let body = format!("{{\"text\":\"{}\"}}", "naïve ".repeat(500));
        let packed = pack(&body).unwrap();
        assert!(packed.len() * 10 < body.len());
        assert_eq!(unpack(&packed).unwrap(), body);
    }

    #[test]
    fn what_is_small_or_does_not_shrink_stays_text() {
        assert_eq!(pack(&"a".repeat(WORTH_IT - 1)), None);
        let noise: String = (0..2000u32)
            .map(|n| char::from_u32(0x4e00 + n.wrapping_mul(2_654_435_761) % 20_000).unwrap_or('x'))
            .collect();
        assert!(pack(&noise).is_none_or(|packed| packed.len() < noise.len()));
    }

    #[test]
    fn damage_is_an_error_and_a_bomb_is_not_unpacked() {
        let packed = pack(&"abc ".repeat(1000)).unwrap();
        assert!(matches!(unpack(&packed[..packed.len() / 2]), Err(UnpackError::Damaged(_))));
        let bomb = compress_to_vec(&vec![b' '; MAX_ITEM_BYTES + 1], LEVEL);
        assert!(matches!(unpack(&bomb), Err(UnpackError::Damaged(_))));
    }
}
