//! Front matter: the lines between `---` at the beginning of a file.

use std::collections::BTreeMap;

/// Splits a file into front matter and text. Supports only the YAML of skills and templates: one `key: value` per line,
/// quoted or not, or indented lines below the key.
pub(super) fn split(content: &str) -> (BTreeMap<String, String>, &str) {
    let content = content.trim_start_matches('\u{feff}');
    let mut keys = BTreeMap::new();
    let Some(begun) = content.strip_prefix("---").and_then(after_line) else { return (keys, content) };
    let mut rest = begun;
    let mut last: Option<String> = None;
    loop {
        let (line, later) = rest.split_once('\n').unwrap_or((rest, ""));
        let line = line.trim_end();
        if line == "---" {
            return (keys, later.trim_start_matches(['\r', '\n']));
        }
        if rest.is_empty() {
            // Not front matter, because its end is missing.
            return (BTreeMap::new(), content);
        }
        rest = later;
        if line.starts_with([' ', '\t']) {
            if let Some(value) = last.as_ref().and_then(|key| keys.get_mut(key)) {
                let value: &mut String = value;
                if !value.is_empty() {
                    value.push(' ');
                }
                value.push_str(line.trim());
            }
        } else if let Some((key, value)) = line.split_once(':') {
            let value = value.trim();
            let value = if matches!(value, "|" | ">" | "|-" | ">-") { "" } else { unquoted(value) };
            keys.insert(key.trim().to_owned(), value.to_owned());
            last = Some(key.trim().to_owned());
        }
    }
}

/// `None` unless the rest of the line is blank.
fn after_line(text: &str) -> Option<&str> {
    let (line, rest) = text.split_once('\n')?;
    line.trim().is_empty().then_some(rest)
}

fn unquoted(value: &str) -> &str {
    let quoted = |quote| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    quoted('"').or_else(|| quoted('\'')).unwrap_or(value)
}
