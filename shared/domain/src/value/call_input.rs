//! The identity of a tool call's input.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// SHA-256 of an input as JSON with sorted keys, in hex. Inputs with the same hash are the same.
pub fn input_hash(input: &Value) -> String {
    let mut text = String::new();
    write_canonical(input, &mut text);
    sha256_hex(&text)
}

/// SHA-256 of a text, in hex.
pub(crate) fn sha256_hex(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_by_key(|(name, _)| *name);
            out.push('{');
            for (at, (name, field)) in sorted.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_canonical(&Value::String(name.clone()), out);
                out.push(':');
                write_canonical(field, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::input_hash;

    #[test]
    fn order_of_keys_does_not_matter_and_everything_else_does() {
        let hash = input_hash(&json!({ "a": [1, { "b": "x", "c": null }], "d": true }));
        assert_eq!(hash, input_hash(&json!({ "d": true, "a": [1, { "c": null, "b": "x" }] })));
        for other in [
            json!({ "a": [1, { "b": "x" }], "d": true }),
            json!({ "a": [{ "b": "x", "c": null }, 1], "d": true }),
            json!({ "a": [1, { "b": "x", "c": "null" }], "d": true }),
            json!({ "a": "[1,{\"b\":\"x\",\"c\":null}]", "d": true }),
        ] {
            assert_ne!(hash, input_hash(&other), "{other}");
        }
    }
}
