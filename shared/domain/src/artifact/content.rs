//! The hash, size and type of an artifact's content. The blob store has the content itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::string_value::string_value;
use crate::value::ContentHash;

/// Number of bytes of a content, at most [`Self::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct ContentSize(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be at most {max} bytes (100 MB)", max = ContentSize::MAX)]
pub struct ContentTooLarge;

impl ContentSize {
    /// 100 MB.
    pub const MAX: u64 = 100_000_000;
    /// Largest content that a request may contain: 4 MB.
    pub const MAX_INLINE: u64 = 4_000_000;

    pub const fn new(bytes: u64) -> Result<Self, ContentTooLarge> {
        if bytes > Self::MAX { Err(ContentTooLarge) } else { Ok(Self(bytes)) }
    }

    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl TryFrom<u64> for ContentSize {
    type Error = ContentTooLarge;
    fn try_from(bytes: u64) -> Result<Self, ContentTooLarge> {
        Self::new(bytes)
    }
}

impl From<ContentSize> for u64 {
    fn from(size: ContentSize) -> Self {
        size.0
    }
}

impl JsonSchema for ContentSize {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ContentSize".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "integer", "minimum": 0, "maximum": Self::MAX })
    }
}

/// Media type of a content, such as `text/markdown`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MimeType(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a media type of at most {max} characters, like text/markdown", max = MimeType::MAX)]
pub struct InvalidMimeType;

impl MimeType {
    pub const MAX: usize = 127;

    /// Accepts `type/subtype` without parameters, and converts it to lowercase.
    pub fn parse(text: impl Into<String>) -> Result<Self, InvalidMimeType> {
        let text = text.into().to_ascii_lowercase();
        let is_name = |part: &str| {
            part.starts_with(|c: char| c.is_ascii_alphanumeric())
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
        };
        let fits = text.len() <= Self::MAX
            && text.split_once('/').is_some_and(|(kind, subtype)| is_name(kind) && is_name(subtype));
        if fits { Ok(Self(text)) } else { Err(InvalidMimeType) }
    }

    /// The type of a content whose author names none: plain text or unknown bytes.
    pub fn default_of(is_text: bool) -> Self {
        Self(if is_text { "text/plain" } else { "application/octet-stream" }.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

string_value!(MimeType.0, InvalidMimeType, Self::parse, { "type": "string", "maxLength": 127, "pattern": "^[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*$" });

/// Hash, size and type of a content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactContent {
    /// The SHA-256 of the content, in lowercase hex.
    pub content_hash: ContentHash,
    pub size_bytes: ContentSize,
    pub mime_type: MimeType,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn content_of_101_mb_is_too_large() {
        assert!(ContentSize::new(100_000_000).is_ok());
        assert_eq!(ContentSize::new(101_000_000), Err(ContentTooLarge));
        assert!(serde_json::from_str::<ContentSize>("101000000").is_err());
    }

    #[test]
    fn media_types_have_one_spelling() {
        assert_eq!(MimeType::parse("Text/Markdown").unwrap().as_str(), "text/markdown");
        for wrong in ["", "text", "text/", "/plain", "text/plain; charset=utf-8", "a/b/c", "te xt/plain"] {
            assert!(MimeType::parse(wrong).is_err(), "{wrong}");
        }
    }
}
