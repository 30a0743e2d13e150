//! Wildcards in the names of files.

use crate::marks::ANY;

/// Longest name of a file in bytes that is compared.
const MAX_NAME: usize = 512;

/// Whether the names match. Both can contain wildcards: `*` in the pattern, [`ANY`] in the name.
pub(super) fn matches_name(pattern: &str, name: &str) -> bool {
    let has_wildcards = pattern.contains('*') || name.contains(ANY);
    if !has_wildcards {
        return pattern == name;
    }
    if name.chars().all(|c| c == ANY) && !name.is_empty() {
        return true;
    }
    // No file has such a name; it is not compared.
    if name.len() > MAX_NAME {
        return true;
    }
    // Most names begin or end otherwise.
    let differ = |p: Option<char>, n: Option<char>| p != n && p != Some('*') && n != Some(ANY);
    if differ(pattern.chars().next(), name.chars().next())
        || differ(pattern.chars().next_back(), name.chars().next_back())
    {
        return false;
    }
    // Whether one text matches both: row by row over the characters of the pattern.
    let name: Vec<char> = name.chars().collect();
    let mut row = vec![false; name.len() + 1];
    row[0] = true;
    for (at, c) in name.iter().enumerate() {
        row[at + 1] = row[at] && *c == ANY;
    }
    for p in pattern.chars() {
        let mut next = vec![false; name.len() + 1];
        next[0] = row[0] && p == '*';
        for (at, c) in name.iter().enumerate() {
            next[at + 1] = match (p, *c) {
                ('*', _) | (_, ANY) => row[at + 1] || next[at] || row[at],
                (p, c) => p == c && row[at],
            };
        }
        row = next;
    }
    row.last().copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_on_both_sides() {
        for (pattern, name, expected) in [
            ("*.pem", "a.pem", true),
            ("*.pem", "a.pem.txt", false),
            ("id_rsa", "id_\u{E000}", true),
            ("id_rsa", "x\u{E000}", false),
            (".env.*", ".env.local", true),
            ("service-account*.json", "service-account-1.json", true),
            ("shadow", "sh\u{E000}w", true),
            ("shadow", "shadow", true),
            ("shadow", "shadows", false),
        ] {
            assert_eq!(matches_name(pattern, name), expected, "{pattern} {name}");
        }
    }
}
