//! Helpers to read JSON values and to shorten text.

use serde_json::Value;

pub(crate) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

pub(crate) fn count(value: &Value, key: &str) -> Option<u64> {
    value.get(key).and_then(Value::as_u64)
}

pub(crate) fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or(false)
}

/// The first of `keys` that is a non-blank string.
pub(crate) fn first_text<'a>(value: &'a Value, keys: &[&str]) -> Option<&'a str> {
    keys.iter().filter_map(|key| text(value, key)).find(|s| !s.trim().is_empty())
}

/// `s` on one line, truncated for lists.
pub(crate) fn one_line(s: &str) -> String {
    const LIMIT: usize = 200;
    let mut line = String::new();
    for word in s.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    pilothouse_domain::text::cut(&line, LIMIT)
}

/// The text of a `content` that is a string or a list of text blocks. `None` if it contains anything else.
pub(crate) fn plain_text(content: &Value) -> Option<String> {
    match content {
        Value::String(s) => Some(s.clone()),
        Value::Array(blocks) => blocks
            .iter()
            .map(|block| if text(block, "type") == Some("text") { text(block, "text") } else { None })
            .collect::<Option<Vec<_>>>()
            .map(|texts| texts.join("\n")),
        _ => None,
    }
}

/// The string at a path of keys, if there is one.
pub(crate) fn text_at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a str> {
    path.iter().try_fold(value, |value, key| value.get(key)).and_then(Value::as_str)
}

/// Empty if there is no list at `key`.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The approximate memory of a value, in bytes.
pub(crate) fn memory_of(value: &Value) -> usize {
    let content: usize = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(memory_of).sum(),
        Value::Object(fields) => {
            let memory =
                |(name, value): (&String, &Value)| size_of::<String>() + name.len() + memory_of(value);
            fields.iter().map(memory).sum()
        }
    };
    size_of::<Value>() + content
}

/// Whether the value at `path` is neither `null` nor `false`, which is how the protocol advertises capabilities.
pub(crate) fn advertised(value: &Value, path: &[&str]) -> bool {
    let at = path.iter().try_fold(value, |value, key| value.get(key));
    at.is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_one_line_of_at_most_200_characters() {
        assert_eq!(one_line("a\n  b\tc "), "a b c");
        let long = one_line(&"ä".repeat(500));
        assert_eq!(long.chars().count(), 200);
        assert!(long.ends_with('…'));
    }

    #[test]
    fn memory_of_a_value_includes_its_parts() {
        let of = |value: Value| memory_of(&value);
        assert!(of("x".repeat(1000).into()) >= 1000);
        assert!(of(serde_json::json!({ "a": ["x".repeat(1000)], "b".repeat(1000): 1 })) >= 2000);
        let numbers = vec![0; 1000];
        assert!(of(serde_json::json!(numbers)) > serde_json::to_string(&numbers).unwrap().len());
    }

    #[test]
    fn text_blocks_are_joined_and_other_blocks_stay_json() {
        assert_eq!(
            plain_text(&serde_json::json!([{"type":"text","text":"a"},{"type":"text","text":"b"}])).unwrap(),
            "a\nb"
        );
        assert_eq!(plain_text(&serde_json::json!([{"type":"image"}])), None);
    }
}
