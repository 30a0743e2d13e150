//! Bodies are packed where that makes an item cheaper: `DynamoDB` bills each KiB that an item begins, at every write, and
//! what is stored by the month.
//!
//! A packed body is one byte, the version of its dictionary, and the body deflated (RFC 1951) as if the dictionary had
//! gone before it. Names and usual values of what is stored stand in the dictionary, so that even a body of a few hundred
//! bytes shrinks: a session of 2 KB of JSON fits one unit with all its keys.
//!
//! A dictionary never changes: what was packed with it could not be read any more. A new one gets a version of its own. It
//! is deployed once where nothing is packed with it yet, because functions are replaced one by one, and those that are
//! still the old ones read what the new ones write.

mod deflate;

use std::string::FromUtf8Error;

use crate::table::MAX_ITEM_BYTES;

/// Below this there is nothing to gain: keys and body fit a single unit, and a person can read the body in the console.
const WORTH_IT: usize = 256;
/// What bodies are packed with, and its version.
const DICTIONARY: (u8, &[u8]) = (1, include_bytes!("packing/dictionary-1.txt"));
/// The dictionaries that bodies may be packed with, by version.
const DICTIONARIES: [(u8, &[u8]); 1] = [DICTIONARY];

/// A packed body that cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum UnpackError {
    /// Not what [`pack`] makes.
    #[error("a packed body is damaged")]
    Damaged,
    /// Unpacked, it is larger than any item.
    #[error("a packed body is larger than {MAX_ITEM_BYTES} bytes")]
    TooLarge,
    /// It was packed by a later version of this program.
    #[error("a body is packed with dictionary {0}, which this program does not know")]
    UnknownDictionary(u8),
    /// Unpacked, it is no text.
    #[error("a packed body is no text")]
    NoText(#[source] FromUtf8Error),
}

/// The body, packed, where that is worth it.
pub(super) fn pack(body: &str) -> Option<Vec<u8>> {
    if body.len() < WORTH_IT {
        return None;
    }
    let (version, dictionary) = DICTIONARY;
    let packed = deflate::deflate(vec![version], dictionary, body.as_bytes())?;
    (packed.len() < body.len()).then_some(packed)
}

/// The body that was packed.
pub(super) fn unpack(packed: &[u8]) -> Result<String, UnpackError> {
    let (version, deflated) = packed.split_first().ok_or(UnpackError::Damaged)?;
    let (_, dictionary) = DICTIONARIES
        .iter()
        .find(|(known, _)| known == version)
        .ok_or(UnpackError::UnknownDictionary(*version))?;
    inflate(dictionary, deflated)
}

/// A body that was deflated without a dictionary, as it was done before there were any.
pub(super) fn unpack_plain(deflated: &[u8]) -> Result<String, UnpackError> {
    inflate(&[], deflated)
}

fn inflate(dictionary: &[u8], deflated: &[u8]) -> Result<String, UnpackError> {
    let bytes = deflate::inflate(dictionary, deflated, MAX_ITEM_BYTES)?;
    String::from_utf8(bytes).map_err(UnpackError::NoText)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fmt::Write as _;

    use miniz_oxide::deflate::compress_to_vec;
    use proptest::prelude::*;
    use sha2::{Digest as _, Sha256};

    use super::*;

    /// What each dictionary is, for ever.
    const KNOWN: [(u8, &str); 1] = [(1, "28d0bbd0f5289ea5537cc664c08514fc7116d571eae5241f9f94cf26549647d9")];

    #[test]
    fn no_dictionary_ever_changes() {
        let found = DICTIONARIES.map(|(version, dictionary)| {
            let hash = Sha256::digest(dictionary).iter().fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            });
            (version, hash)
        });
        assert_eq!(found, KNOWN.map(|(version, hash)| (version, hash.to_owned())));
        // A stream looks back no further than this.
        assert!(DICTIONARIES.iter().all(|(_, dictionary)| dictionary.len() <= 32 * 1024));
    }

    #[test]
    fn what_is_usual_takes_a_fraction() {
        let body = r#"{"id":"01922222-3333-7444-8555-666677778888","sessionId":"01922222-3333-7444-8555-666677778889","ownerId":"ann","sequence":17,"at":"2026-11-22T05:06:07.089Z","cause":{"by":"owner","function":"sessions-budget"},"events":[{"type":"SessionBudgetChangedEvent","capUsd":"12"}],"status":"Running","activity":[{"type":"Notice","summary":"The cap is 12 dollars now","at":"2026-11-22T05:06:07.089Z"}]}"#;
        let packed = pack(body).unwrap();
        assert!(packed.len() * 3 < body.len(), "{} of {} bytes", packed.len(), body.len());
        assert_eq!(packed[0], DICTIONARY.0);
        assert_eq!(unpack(&packed).unwrap(), body);
    }

    #[test]
    fn what_was_packed_without_a_dictionary_is_read() {
        let body = format!("{{\"text\":\"{}\"}}", "naïve ".repeat(500));
        assert_eq!(unpack_plain(&compress_to_vec(body.as_bytes(), 6)).unwrap(), body);
    }

    #[test]
    fn what_is_small_stays_text() {
        assert_eq!(pack(&"a".repeat(WORTH_IT - 1)), None);
        assert!(pack(&"a".repeat(WORTH_IT)).is_some());
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let packed = pack(&"abc ".repeat(1000)).unwrap();
        assert_eq!(unpack(&[]), Err(UnpackError::Damaged));
        assert_eq!(unpack(&packed[..packed.len() - 1]), Err(UnpackError::Damaged));
        assert_eq!(unpack(&[&packed[..], b"more"].concat()), Err(UnpackError::Damaged));
        assert_eq!(unpack(&[&[9], &packed[1..]].concat()), Err(UnpackError::UnknownDictionary(9)));
        let no_text = deflate::deflate(vec![1], DICTIONARY.1, &[0xff; 300]).unwrap();
        assert!(matches!(unpack(&no_text), Err(UnpackError::NoText(_))));
    }

    #[test]
    fn no_more_than_an_item_is_unpacked() {
        let of = |bytes: usize| deflate::deflate(vec![1], DICTIONARY.1, &vec![b' '; bytes]).unwrap();
        assert_eq!(unpack(&of(MAX_ITEM_BYTES)).unwrap().len(), MAX_ITEM_BYTES);
        assert_eq!(unpack(&of(MAX_ITEM_BYTES + 1)), Err(UnpackError::TooLarge));
        let bomb = compress_to_vec(&vec![b' '; 1 << 24], 6);
        assert_eq!(unpack_plain(&bomb), Err(UnpackError::TooLarge));
    }

    /// Texts of words that stand in the dictionary and of some that do not.
    fn body() -> impl Strategy<Value = String> {
        let usual = std::str::from_utf8(DICTIONARY.1).unwrap();
        let known = (0..usual.len() - 400, 1..400usize).prop_map(|(from, length)| {
            let ends = |at: usize| (at..usual.len()).find(|at| usual.is_char_boundary(*at)).unwrap();
            usual[ends(from)..ends(from + length)].to_owned()
        });
        proptest::collection::vec(prop_oneof![known, ".{0,80}"], 0..40).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn every_body_comes_back(body in body()) {
            if let Some(packed) = pack(&body) {
                prop_assert!(packed.len() < body.len());
                prop_assert_eq!(unpack(&packed).unwrap(), body);
            }
        }

        #[test]
        fn damage_is_no_panic(body in body(), at in any::<prop::sample::Index>(), bits in 1..=255u8) {
            if let Some(mut packed) = pack(&body) {
                let at = at.index(packed.len());
                packed[at] ^= bits;
                // Some damage still makes a text: there is no checksum.
                let _ = unpack(&packed);
            }
        }

        #[test]
        fn anything_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let _ = (unpack(&bytes), unpack(&[&[1], &bytes[..]].concat()), unpack_plain(&bytes));
        }
    }
}
