//! The blob port: contents that are too large for an item, stored once under their hash.

#[cfg(feature = "contract")]
pub mod contract;
mod files;
#[cfg(feature = "s3")]
mod s3;

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use pilothouse_wire::keys::sha256_hex;

pub use files::FileBlobs;
#[cfg(feature = "s3")]
pub use s3::S3Blobs;

const MAX_SEGMENTS: usize = 4;
const MAX_SEGMENT_CHARS: usize = 64;

/// Key of a blob: a prefix that names its owner, and the SHA-256 of its content in lowercase hex.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BlobKey(String);

impl BlobKey {
    /// Makes the key of a content. The prefix has 1 to 4 segments, separated by slashes. A segment consists of lowercase letters,
    /// digits, `-` and `_`, and begins with a letter or digit.
    pub fn of(prefix: &str, content: &[u8]) -> Result<Self, BlobError> {
        if !is_prefix(prefix) {
            return Err(BlobError::InvalidKey);
        }
        Ok(Self(format!("{prefix}/{}", sha256_hex(content))))
    }

    /// The key of a content with a known hash.
    pub fn with_digest(prefix: &str, digest: &str) -> Result<Self, BlobError> {
        Self::parse(&format!("{prefix}/{digest}"))
    }

    /// Parses the output of [`Self::as_str`].
    pub fn parse(key: &str) -> Result<Self, BlobError> {
        let is_digest =
            |s: &str| s.len() == 64 && s.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'));
        match key.rsplit_once('/') {
            Some((prefix, digest)) if is_prefix(prefix) && is_digest(digest) => Ok(Self(key.to_owned())),
            Some(_) | None => Err(BlobError::InvalidKey),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn prefix(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(prefix, _)| prefix)
    }

    pub fn digest(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(_, digest)| digest)
    }
}

fn is_prefix(prefix: &str) -> bool {
    let fits = |segment: &str| {
        (1..=MAX_SEGMENT_CHARS).contains(&segment.len())
            && segment.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && segment
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'))
    };
    prefix.split('/').count() <= MAX_SEGMENTS && prefix.split('/').all(fits)
}

#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// The key is not a prefix with a SHA-256.
    #[error("not a key of a blob")]
    InvalidKey,
    /// The content does not match the hash in the key.
    #[error("the content does not have the hash of its key")]
    WrongContent,
    /// The engine failed; a retry may succeed.
    #[error("the blob store failed")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// An address to which anybody can send one content until it expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadLink {
    pub url: String,
    /// Headers that the request must have. They contain the checksum, which the engine verifies.
    pub headers: Vec<(String, String)>,
}

#[async_trait]
pub trait Blobs: Send + Sync + 'static {
    /// Stores a content durably. Does nothing if it exists.
    async fn put(&self, key: &BlobKey, content: Bytes) -> Result<(), BlobError>;

    async fn get(&self, key: &BlobKey) -> Result<Option<Bytes>, BlobError>;

    /// Size in bytes of a stored content.
    async fn size(&self, key: &BlobKey) -> Result<Option<u64>, BlobError>;

    /// A URL with which anybody can read the content while it is `valid`; `None` if the engine has no URLs. Does not check that the
    /// content exists.
    async fn link(&self, _key: &BlobKey, _valid: Duration) -> Result<Option<String>, BlobError> {
        Ok(None)
    }

    /// An address for a `PUT` of the content with the hash of `key` and this size; `None` if the engine has no URLs.
    async fn upload_link(
        &self,
        _key: &BlobKey,
        _size: u64,
        _valid: Duration,
    ) -> Result<Option<UploadLink>, BlobError> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_below_their_prefix() {
        let digest = sha256_hex(b"abc");
        assert_eq!(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let key = BlobKey::of("sessions/0197-a", b"abc").unwrap();
        assert_eq!((key.prefix(), key.digest()), ("sessions/0197-a", digest.as_str()));
        assert_eq!(BlobKey::parse(key.as_str()).unwrap(), key);
        for prefix in
            ["", "/", "..", "a/..", "a//b", "/a", "a/", "A", "a.b", "a\\b", "a/b/c/d/e", "-a", "a\0"]
        {
            assert!(BlobKey::of(prefix, b"abc").is_err(), "{prefix}");
            assert!(BlobKey::parse(&format!("{prefix}/{digest}")).is_err(), "{prefix}");
        }
        for end in ["", "abc", &digest.to_uppercase(), &digest[1..], &format!("{digest}0")] {
            assert!(BlobKey::parse(&format!("a/{end}")).is_err(), "{end}");
        }
    }
}
