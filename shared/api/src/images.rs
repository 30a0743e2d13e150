//! Images that a request uploads.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pilothouse_domain::value::ImageType;
use serde::Serialize;

/// An image of a message or of an objective. All images of a request together have at most 4 MB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageUpload {
    /// The media type.
    pub media_type: ImageType,
    /// The bytes in base64.
    pub base64: String,
}

impl ImageUpload {
    /// `None` if the bytes are not a PNG, JPEG, GIF or WebP image.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        Some(Self { media_type: ImageType::of(bytes)?, base64: STANDARD.encode(bytes) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn upload_has_the_type_of_its_bytes() {
        let sent = serde_json::to_value(ImageUpload::of(b"GIF89a").unwrap()).unwrap();
        assert_eq!(sent, json!({ "mediaType": "image/gif", "base64": "R0lGODlh" }));
        assert_eq!(ImageUpload::of(b"%PDF-1.7"), None);
    }
}
