//! Short ways into JSON.

use serde_json::Value;

/// The string at `key`, if there is one.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// The string at a path of keys, if there is one.
pub(super) fn text_at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a str> {
    path.iter().try_fold(value, |value, key| value.get(key)).and_then(Value::as_str)
}

/// The elements of the list at `key`; none when there is no list.
pub(super) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Whether something stands at `key` that is neither `null` nor `false`: how the protocol advertises what somebody can do.
pub(super) fn advertised(value: &Value, path: &[&str]) -> bool {
    let at = path.iter().try_fold(value, |value, key| value.get(key));
    at.is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)))
}

/// `s` on one line, cut to what a list can show.
pub(super) fn one_line(s: &str) -> String {
    const LIMIT: usize = 200;
    pilothouse_domain::text::cut(&s.split_whitespace().collect::<Vec<_>>().join(" "), LIMIT)
}

/// A name for a notice, out of somebody else's word.
pub(super) fn notice_name(prefix: &str, word: &str) -> String {
    let word: String =
        word.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(60).collect();
    format!("{prefix}_{word}")
}
