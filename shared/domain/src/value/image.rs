//! Images that a person attaches to a message or to the objective of a session. The blob store has the bytes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ContentHash;
use crate::AgentSessionId;

/// Media type of an image. These are the types that model providers accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ImageType {
    #[serde(rename = "image/png")]
    Png,
    #[serde(rename = "image/jpeg")]
    Jpeg,
    #[serde(rename = "image/gif")]
    Gif,
    #[serde(rename = "image/webp")]
    Webp,
}

crate::names::named!(ImageType {
    Png => "image/png",
    Jpeg => "image/jpeg",
    Gif => "image/gif",
    Webp => "image/webp",
});

impl ImageType {
    /// The type of these bytes, by their first ones. `None` if they are none of these images.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        Some(match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Self::Png,
            [0xff, 0xd8, 0xff, ..] => Self::Jpeg,
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Self::Gif,
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Self::Webp,
            _ => return None,
        })
    }
}

/// A reference to an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageImage {
    /// The media type.
    pub media_type: ImageType,
    /// The SHA-256 of the bytes, in lowercase hex. `GET …/blobs/{sha256}` of the session `sessionId` returns them.
    pub sha256: ContentHash,
    /// The size in bytes.
    pub size_bytes: u64,
    /// The session that stores the image. It differs from the session of the message if the message moved to a continuation.
    pub session_id: AgentSessionId,
}

impl MessageImage {
    /// Most images of a message.
    pub const MAX_IMAGES: usize = 8;
    /// Most bytes of all images of a message together: 4 MB, so that their base64 fits a request.
    pub const MAX_BYTES: u64 = 4_000_000;

    /// Whether both lists show the same images. The session that stores them does not matter.
    pub fn are_same(some: &[Self], others: &[Self]) -> bool {
        let shown = |image: &Self| (image.media_type, image.sha256.clone());
        some.iter().map(shown).eq(others.iter().map(shown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_is_recognised_by_the_first_bytes() {
        assert_eq!(ImageType::of(b"\x89PNG\r\n\x1a\n\0\0"), Some(ImageType::Png));
        assert_eq!(ImageType::of(b"\xff\xd8\xff\xe0"), Some(ImageType::Jpeg));
        assert_eq!(ImageType::of(b"GIF89a"), Some(ImageType::Gif));
        assert_eq!(ImageType::of(b"RIFF\x01\x02\x03\x04WEBP"), Some(ImageType::Webp));
        for other in [&b""[..], b"\x89PNG", b"<svg></svg>", b"RIFF1234WAVE", b"GIF80a"] {
            assert_eq!(ImageType::of(other), None, "{other:?}");
        }
    }

    #[test]
    fn type_has_the_same_name_in_json_and_in_texts() {
        for kind in [ImageType::Png, ImageType::Jpeg, ImageType::Gif, ImageType::Webp] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.to_string());
        }
    }

    #[test]
    fn images_are_the_same_wherever_they_are_stored() {
        let image = |session, digit: &str| MessageImage {
            media_type: ImageType::Png,
            sha256: ContentHash::parse(digit.repeat(64)).unwrap(),
            size_bytes: 1,
            session_id: AgentSessionId::new(uuid::Uuid::from_u128(session)),
        };
        assert!(MessageImage::are_same(&[image(1, "a")], &[image(2, "a")]));
        assert!(!MessageImage::are_same(&[image(1, "a")], &[image(1, "b")]));
        assert!(!MessageImage::are_same(&[image(1, "a")], &[]));
    }
}
