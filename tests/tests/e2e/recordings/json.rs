//! Formats JSON text without parsing it, so that key order, numbers and escapes stay as they were sent.

/// Longer values are split into lines.
const WIDTH: usize = 110;

/// Adds line breaks and indentation. Expects text that [`is_compact`].
pub(super) fn lay_out(text: &str) -> String {
    let mut out = String::new();
    value(text, 0, &mut out);
    out
}

/// Whether `text` has no white space outside of strings.
pub(super) fn is_compact(text: &str) -> bool {
    let mut scan = Scan::default();
    text.chars().all(|c| !scan.outside(c) || !c.is_whitespace())
}

fn value(text: &str, indent: usize, out: &mut String) {
    let container = text.starts_with('{') || text.starts_with('[');
    if !container || indent + text.chars().count() <= WIDTH {
        out.push_str(text);
        return;
    }
    let (open, rest) = text.split_at(1);
    let (inner, close) = rest.split_at(rest.len() - 1);
    out.push_str(open);
    let members = members(inner);
    let last = members.len() - 1;
    for (at, member) in members.into_iter().enumerate() {
        out.push('\n');
        out.push_str(&" ".repeat(indent + 2));
        let start = if open == "{" { after_key(member) } else { 0 };
        out.push_str(&member[..start]);
        value(&member[start..], indent + 2, out);
        if at < last {
            out.push(',');
        }
    }
    out.push('\n');
    out.push_str(&" ".repeat(indent));
    out.push_str(close);
}

/// Splits the content of an object or array at its top-level commas.
fn members(text: &str) -> Vec<&str> {
    let (mut scan, mut depth, mut start, mut all) = (Scan::default(), 0_usize, 0, Vec::new());
    for (at, c) in text.char_indices() {
        if !scan.outside(c) {
            continue;
        }
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                all.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    all.push(&text[start..]);
    all
}

/// The offset of the value in an object member.
fn after_key(member: &str) -> usize {
    let mut scan = Scan::default();
    member.char_indices().find(|(_, c)| scan.outside(*c) && *c == ':').map_or(0, |(at, _)| at + 1)
}

/// Tracks whether the current character is inside a string.
#[derive(Default)]
struct Scan {
    in_string: bool,
    escaped: bool,
}

impl Scan {
    /// Returns whether the character is outside of strings.
    fn outside(&mut self, c: char) -> bool {
        if !self.in_string {
            self.in_string = c == '"';
            return c != '"';
        }
        match c {
            _ if self.escaped => self.escaped = false,
            '\\' => self.escaped = true,
            '"' => self.in_string = false,
            _ => {}
        }
        false
    }
}

#[test]
fn a_layout_changes_white_space_alone() {
    let long = format!(r#"{{"b":1.50,"a":["x,y","{}\"}}"],"c":{{}},"a":null}}"#, "z".repeat(WIDTH));
    let laid_out = lay_out(&long);
    assert!(laid_out.starts_with("{\n  \"b\":1.50,\n  \"a\":[\n    \"x,y\",\n"), "{laid_out}");
    let lines: String = laid_out.lines().map(str::trim_start).collect();
    assert_eq!(lines, long);
    assert!(is_compact(&long) && !is_compact("{ }") && is_compact(r#"{"a b":" "}"#));
}
