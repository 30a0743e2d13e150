//! Bounds of a query on the sort key, computed the same way for both engines.

use crate::table::SortRange;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bounds {
    Empty,
    All,
    Prefix(String),
    Between(String, String),
}

impl Bounds {
    pub(crate) fn of(range: &SortRange) -> Self {
        match range {
            SortRange::All => Self::All,
            SortRange::Prefix(prefix) if prefix.is_empty() => Self::All,
            SortRange::Prefix(prefix) => Self::Prefix(prefix.clone()),
            SortRange::Between(from, to) if from > to || to.is_empty() => Self::Empty,
            // No key is empty, so the smallest possible key replaces an open start.
            SortRange::Between(from, to) if from.is_empty() => Self::Between("\0".to_owned(), to.clone()),
            SortRange::Between(from, to) => Self::Between(from.clone(), to.clone()),
        }
    }
}

/// The first string after all strings with `prefix`, in the order of UTF-8 bytes; `None` if there is none.
pub(crate) fn after_prefix(prefix: &str) -> Option<String> {
    let mut next = prefix.to_owned();
    while let Some(last) = next.pop() {
        // The order of UTF-8 bytes is that of code points. Surrogates are not characters.
        let following =
            if last == '\u{D7FF}' { Some('\u{E000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(following) = following {
            next.push(following);
            return Some(next);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_end_increments_the_last_character_with_carry() {
        assert_eq!(after_prefix("ab").as_deref(), Some("ac"));
        assert_eq!(after_prefix("a\u{D7FF}").as_deref(), Some("a\u{E000}"));
        assert_eq!(after_prefix("a\u{10FFFF}").as_deref(), Some("b"));
        assert_eq!(after_prefix("\u{10FFFF}"), None);
    }

    #[test]
    fn reversed_and_empty_ranges_hold_nothing() {
        let between = |a: &str, b: &str| Bounds::of(&SortRange::Between(a.into(), b.into()));
        assert_eq!(between("b", "a"), Bounds::Empty);
        assert_eq!(between("", ""), Bounds::Empty);
        assert_eq!(between("", "a"), Bounds::Between("\0".into(), "a".into()));
    }
}
