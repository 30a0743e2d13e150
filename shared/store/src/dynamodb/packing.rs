//! Compression of bodies where that makes an item cheaper: `DynamoDB` bills each started KiB of an item for every write, and
//! storage by the month.
//!
//! A packed body is one byte with the version of its dictionary, followed by the body deflated (RFC 1951) with that dictionary. The
//! dictionary contains common names and values, so that even a body of a few hundred bytes shrinks: a session with 2 KB of JSON
//! fits into one unit with all its keys.
//!
//! A dictionary must never change, because bodies that were packed with it could no longer be read. A new dictionary gets a new
//! version. Deploy it once before bodies are packed with it: functions are replaced one by one, and old ones read what new ones
//! write.

mod deflate;

use std::string::FromUtf8Error;

use crate::table::MAX_ITEM_BYTES;

/// Smaller bodies stay unpacked: they fit into a single unit, and are readable in the console.
const MIN_PACKED_BYTES: usize = 256;
const DICTIONARY: (u8, &[u8]) = (1, include_bytes!("packing/dictionary-1.txt"));
const DICTIONARIES: [(u8, &[u8]); 1] = [DICTIONARY];

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum UnpackError {
    #[error("a packed body is damaged")]
    Damaged,
    #[error("a packed body is larger than {MAX_ITEM_BYTES} bytes")]
    TooLarge,
    /// The body was packed by a later version of this program.
    #[error("a body is packed with dictionary {0}, which this program does not have")]
    UnknownDictionary(u8),
    #[error("a packed body is not UTF-8")]
    NoText(#[source] FromUtf8Error),
}

/// Packs a body if that makes it smaller.
pub(super) fn pack(body: &str) -> Option<Vec<u8>> {
    if body.len() < MIN_PACKED_BYTES {
        return None;
    }
    let (version, dictionary) = DICTIONARY;
    let packed = deflate::deflate(vec![version], dictionary, body.as_bytes())?;
    (packed.len() < body.len()).then_some(packed)
}

pub(super) fn unpack(packed: &[u8]) -> Result<String, UnpackError> {
    let (version, deflated) = packed.split_first().ok_or(UnpackError::Damaged)?;
    let (_, dictionary) = DICTIONARIES
        .iter()
        .find(|(known, _)| known == version)
        .ok_or(UnpackError::UnknownDictionary(*version))?;
    inflate(dictionary, deflated)
}

/// Unpacks a body that was deflated without a dictionary, in the former format.
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
    use miniz_oxide::deflate::compress_to_vec;
    use pilothouse_wire::keys::sha256_hex;
    use proptest::prelude::*;

    use super::*;

    /// Hashes of the dictionaries, which never change.
    const KNOWN: [(u8, &str); 1] = [(1, "28d0bbd0f5289ea5537cc664c08514fc7116d571eae5241f9f94cf26549647d9")];

    #[test]
    fn no_dictionary_ever_changes() {
        let found = DICTIONARIES.map(|(version, dictionary)| (version, sha256_hex(dictionary)));
        assert_eq!(found, KNOWN.map(|(version, hash)| (version, hash.to_owned())));
        // Deflate refers back at most this far.
        assert!(DICTIONARIES.iter().all(|(_, dictionary)| dictionary.len() <= 32 * 1024));
    }

    #[test]
    fn typical_body_shrinks_to_a_third() {
        let body = r#"{"id":"01922222-3333-7444-8555-666677778888","sessionId":"01922222-3333-7444-8555-666677778889","ownerId":"ann","sequence":17,"at":"2026-11-22T05:06:07.089Z","cause":{"by":"owner","function":"sessions-budget"},"events":[{"type":"SessionBudgetChangedEvent","capUsd":"12"}],"status":"Running","activity":[{"type":"Notice","summary":"The cap is 12 dollars now","at":"2026-11-22T05:06:07.089Z"}]}"#;
        let packed = pack(body).unwrap();
        assert!(packed.len() * 3 < body.len(), "{} of {} bytes", packed.len(), body.len());
        assert_eq!(packed[0], DICTIONARY.0);
        assert_eq!(unpack(&packed).unwrap(), body);
    }

    #[test]
    fn body_packed_without_a_dictionary_is_read() {
        let body = format!("{{\"text\":\"{}\"}}", "naïve ".repeat(500));
        assert_eq!(unpack_plain(&compress_to_vec(body.as_bytes(), 6)).unwrap(), body);
    }

    #[test]
    fn small_bodies_stay_text() {
        assert_eq!(pack(&"a".repeat(MIN_PACKED_BYTES - 1)), None);
        assert!(pack(&"a".repeat(MIN_PACKED_BYTES)).is_some());
    }

    #[test]
    fn unreadable_body_error_gives_the_reason() {
        let packed = pack(&"abc ".repeat(1000)).unwrap();
        assert_eq!(unpack(&[]), Err(UnpackError::Damaged));
        assert_eq!(unpack(&packed[..packed.len() - 1]), Err(UnpackError::Damaged));
        assert_eq!(unpack(&[&packed[..], b"more"].concat()), Err(UnpackError::Damaged));
        assert_eq!(unpack(&[&[9], &packed[1..]].concat()), Err(UnpackError::UnknownDictionary(9)));
        let no_text = deflate::deflate(vec![1], DICTIONARY.1, &[0xff; 300]).unwrap();
        assert!(matches!(unpack(&no_text), Err(UnpackError::NoText(_))));
    }

    #[test]
    fn unpacking_is_limited_to_the_size_of_an_item() {
        let of = |bytes: usize| deflate::deflate(vec![1], DICTIONARY.1, &vec![b' '; bytes]).unwrap();
        assert_eq!(unpack(&of(MAX_ITEM_BYTES)).unwrap().len(), MAX_ITEM_BYTES);
        assert_eq!(unpack(&of(MAX_ITEM_BYTES + 1)), Err(UnpackError::TooLarge));
        let bomb = compress_to_vec(&vec![b' '; 1 << 24], 6);
        assert_eq!(unpack_plain(&bomb), Err(UnpackError::TooLarge));
    }

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
        fn every_body_round_trips(body in body()) {
            if let Some(packed) = pack(&body) {
                prop_assert!(packed.len() < body.len());
                prop_assert_eq!(unpack(&packed).unwrap(), body);
            }
        }

        #[test]
        fn damaged_body_does_not_panic(body in body(), at in any::<prop::sample::Index>(), bits in 1..=255u8) {
            if let Some(mut packed) = pack(&body) {
                let at = at.index(packed.len());
                packed[at] ^= bits;
                // Some damage still yields a text, as there is no checksum.
                let _ = unpack(&packed);
            }
        }

        #[test]
        fn arbitrary_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let _ = (unpack(&bytes), unpack(&[&[1], &bytes[..]].concat()), unpack_plain(&bytes));
        }
    }
}
