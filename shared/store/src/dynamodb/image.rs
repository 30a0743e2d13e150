//! Parses items from the table's stream: attribute values in JSON.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;

use super::attributes::{self, Attributes};
use crate::table::{Item, TableError};

/// Why an image cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Not JSON of attribute values, or values of a type that this program does not write.
    #[error("not the image of an item")]
    Unreadable(#[from] serde_json::Error),
    #[error("a binary value is not base64")]
    Base64(#[from] base64::DecodeError),
    /// The attributes are not those of an item.
    #[error(transparent)]
    Item(#[from] TableError),
}

#[derive(Deserialize)]
enum Value {
    S(String),
    N(String),
    B(String),
}

/// Parses a `NewImage` or `OldImage`.
pub fn read(image: &str) -> Result<Item, ImageError> {
    let values: std::collections::HashMap<String, Value> = serde_json::from_str(image)?;
    let mut read = Attributes::with_capacity(values.len());
    for (name, value) in values {
        let value = match value {
            Value::S(text) => AttributeValue::S(text),
            Value::N(number) => AttributeValue::N(number),
            Value::B(base64) => AttributeValue::B(Blob::new(BASE64.decode(base64)?)),
        };
        read.insert(name, value);
    }
    Ok(attributes::item(read)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::table::Key;

    #[test]
    fn image_shows_the_written_item() {
        let item = Item {
            key: Key::new("S#1", "SESSION"),
            kind: "session".to_owned(),
            version: 7,
            listing: None,
            due: Some(Key::new("DUE#1", "0000000000000005#1")),
            expires_at: None,
            body: format!("{{\"text\":\"{}\"}}", "packed ".repeat(500)),
        };
        let image: serde_json::Map<String, serde_json::Value> = attributes::attributes(item.clone())
            .into_iter()
            .map(|(name, value)| {
                let value = match value {
                    AttributeValue::S(text) => serde_json::json!({ "S": text }),
                    AttributeValue::N(number) => serde_json::json!({ "N": number }),
                    AttributeValue::B(bytes) => serde_json::json!({ "B": BASE64.encode(bytes) }),
                    _ => unreachable!("items have no others"),
                };
                (name, value)
            })
            .collect();
        assert!(image.contains_key("p"), "a large body is packed");
        assert_eq!(read(&serde_json::Value::Object(image).to_string()).unwrap(), item);
    }

    #[test]
    fn invalid_image_is_refused() {
        assert!(matches!(read("[]"), Err(ImageError::Unreadable(_))));
        assert!(matches!(read(r#"{"pk":{"L":[]}}"#), Err(ImageError::Unreadable(_))));
        assert!(matches!(read(r#"{"z":{"B":"?"}}"#), Err(ImageError::Base64(_))));
        assert!(matches!(read(r#"{"pk":{"S":"a"}}"#), Err(ImageError::Item(_))));
    }
}
