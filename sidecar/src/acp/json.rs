//! Helpers to read JSON values.

use serde_json::Value;

pub(super) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// The string at a path of keys, if there is one.
pub(super) fn text_at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a str> {
    path.iter().try_fold(value, |value, key| value.get(key)).and_then(Value::as_str)
}

/// The elements of the list at `key`; empty if it is not a list.
pub(super) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Whether the value at `path` is neither `null` nor `false`, which is how the protocol advertises capabilities.
pub(super) fn advertised(value: &Value, path: &[&str]) -> bool {
    let at = path.iter().try_fold(value, |value, key| value.get(key));
    at.is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)))
}

/// `s` on one line, truncated for lists.
pub(super) fn one_line(s: &str) -> String {
    const LIMIT: usize = 200;
    pilothouse_domain::text::cut(&s.split_whitespace().collect::<Vec<_>>().join(" "), LIMIT)
}

/// Builds the name of a notice from an arbitrary word.
pub(super) fn notice_name(prefix: &str, word: &str) -> String {
    let word: String =
        word.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(60).collect();
    format!("{prefix}_{word}")
}
