//! Arguments of templates: their syntax and substitution.

/// Splits arguments like a shell: at white space outside quotes. A backslash escapes the next character, except in
/// single quotes. An unterminated quote extends to the end.
pub fn split(text: &str) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut current: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (Some('"') | None, '\\') => {
                current.get_or_insert_default().push(characters.next().unwrap_or('\\'));
            }
            (None, '\'' | '"') => {
                quote = Some(character);
                current.get_or_insert_default();
            }
            (None, _) if character.is_whitespace() => arguments.extend(current.take()),
            _ => current.get_or_insert_default().push(character),
        }
    }
    arguments.extend(current);
    arguments
}

/// Substitutes arguments: `$1`, `$2`, … for one, `$@` and `$ARGUMENTS` for all, `${@:2}` for the second and later
/// ones, `${@:2:3}` for three of those. Missing ones are empty. Substituted text is not expanded again.
pub fn substitute(text: &str, arguments: &[String]) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        filled.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some((length, wanted)) = placeholder(rest) {
            filled.push_str(&wanted.of(arguments).join(" "));
            rest = &rest[length..];
        } else {
            filled.push('$');
            rest = &rest[1..];
        }
    }
    filled.push_str(rest);
    filled
}

struct ArgumentRange {
    /// Counts from 1.
    first: usize,
    count: usize,
}

impl ArgumentRange {
    fn of(self, arguments: &[String]) -> &[String] {
        let Some(from) = self.first.checked_sub(1) else { return &[] };
        let wanted = arguments.get(from..).unwrap_or_default();
        &wanted[..self.count.min(wanted.len())]
    }
}

/// Parses the placeholder at the beginning of a text. Returns it with its length.
fn placeholder(text: &str) -> Option<(usize, ArgumentRange)> {
    let name = text.strip_prefix('$')?;
    if name.starts_with('@') {
        return Some((2, ArgumentRange { first: 1, count: usize::MAX }));
    }
    if let Some(after) = name.strip_prefix("ARGUMENTS") {
        let ends = !after.starts_with(|next: char| next.is_alphanumeric() || next == '_');
        return ends.then_some((1 + "ARGUMENTS".len(), ArgumentRange { first: 1, count: usize::MAX }));
    }
    if let Some(range) = name.strip_prefix("{@:") {
        let (range, _) = range.split_once('}')?;
        let (first, count) = match range.split_once(':') {
            Some((first, count)) => (first, count.parse().ok()?),
            None => (range, usize::MAX),
        };
        return Some((
            1 + "{@:".len() + range.len() + 1,
            ArgumentRange { first: first.parse().ok()?, count },
        ));
    }
    let digits = name.find(|next: char| !next.is_ascii_digit()).unwrap_or(name.len());
    let first = name[..digits].parse().ok()?;
    Some((1 + digits, ArgumentRange { first, count: 1 }))
}
