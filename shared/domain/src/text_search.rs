//! Searching texts for words, without an index (decision 97).

use std::borrow::Cow;

use icu_normalizer::ComposingNormalizerBorrowed;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The words of a search. A text matches if it has all of them, in any order and case. A word is also found within another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchWords {
    /// Folded, each once, the longest first, because it is probably the rarest.
    words: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSearch {
    #[error("has no word to search for")]
    Empty,
    #[error("must have at most {max} characters", max = SearchWords::MAX_CHARS)]
    TooLong,
}

/// A part of a text with the words that were found, as one line. Letters and their accents are composed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// At most [`Self::MAX_CHARS`] characters. An ellipsis replaces what is before and after the part.
    pub text: String,
    /// The words in `text`, in order. They do not overlap.
    pub words: Vec<WordPosition>,
}

/// The position of a word in an excerpt, in characters (Unicode code points).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WordPosition {
    /// The first character of the word, from 0.
    pub start: usize,
    /// The character after the word.
    pub end: usize,
}

impl SearchWords {
    /// Most characters of a query.
    pub const MAX_CHARS: usize = 200;

    /// Splits a query into words at white space.
    pub fn parse(query: &str) -> Result<Self, InvalidSearch> {
        let query = composed(query);
        if query.chars().count() > Self::MAX_CHARS {
            return Err(InvalidSearch::TooLong);
        }
        let mut words: Vec<String> = query.split_whitespace().map(folded).collect();
        words.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        words.dedup();
        if words.is_empty() { Err(InvalidSearch::Empty) } else { Ok(Self { words }) }
    }

    /// Returns a part of a text that has all words; `None` if one is missing.
    pub fn find(&self, text: &str) -> Option<Excerpt> {
        let text = composed(text);
        let folded = folded(&text);
        let has_all = self.words.iter().all(|word| folded.contains(word.as_str()));
        has_all.then(|| self.excerpt(&text))
    }

    /// The part of a text around the first occurrence of the longest word.
    fn excerpt(&self, text: &str) -> Excerpt {
        let chars: Vec<char> = text.chars().collect();
        // Folded letters may have other lengths, so each byte of the folded text names the character that it comes from.
        let (mut folded, mut origins) = (String::with_capacity(text.len()), Vec::with_capacity(text.len()));
        for (at, c) in chars.iter().enumerate() {
            push_folded(&mut folded, *c);
            origins.resize(folded.len(), at);
        }
        let position = |byte: usize, length: usize| {
            let last = (byte + length).saturating_sub(1);
            let (start, last) = (origins.get(byte)?, origins.get(last)?);
            Some(WordPosition { start: *start, end: last + 1 })
        };
        let occurrences_of = |word: &str| {
            folded
                .match_indices(word)
                .filter_map(|(byte, found)| position(byte, found.len()))
                .collect::<Vec<_>>()
        };
        let longest = self.words.first().map(|word| occurrences_of(word)).unwrap_or_default();
        let first = longest.first().map_or(0, |position| position.start);
        let from = first.saturating_sub(Excerpt::CHARS_BEFORE);
        // Leaves space for an ellipsis at both ends.
        let to = chars.len().min(from + Excerpt::MAX_CHARS - 2);
        let mut found: Vec<_> = self.words.iter().flat_map(|word| occurrences_of(word)).collect();
        found.retain(|position| from <= position.start && position.end <= to);
        found.sort_by_key(|position| (position.start, position.end));
        let mut words: Vec<WordPosition> = Vec::new();
        for position in found {
            match words.last_mut() {
                Some(last) if position.start < last.end => last.end = last.end.max(position.end),
                _ => words.push(position),
            }
        }
        let begin = if from > 0 { "…" } else { "" };
        let rest = if to < chars.len() { "…" } else { "" };
        let part = chars.iter().skip(from).take(to - from);
        // A white space each, so that the positions stay.
        let part: String = part.map(|c| if c.is_whitespace() || c.is_control() { ' ' } else { *c }).collect();
        let offset = begin.chars().count();
        for word in &mut words {
            (word.start, word.end) = (word.start - from + offset, word.end - from + offset);
        }
        Excerpt { text: format!("{begin}{part}{rest}"), words }
    }
}

impl Excerpt {
    pub const MAX_CHARS: usize = 300;
    /// Characters before the first occurrence of the longest word. A word as long as a query may be fits behind them.
    const CHARS_BEFORE: usize = 60;
}

/// The text in Unicode's normalization form C: a letter and its accents are one character if there is one.
pub(crate) fn composed(text: &str) -> Cow<'_, str> {
    const NFC: ComposingNormalizerBorrowed<'static> = ComposingNormalizerBorrowed::new_nfc();
    NFC.normalize(text)
}

/// The text without differences of case. Each character is converted by itself, unlike [`str::to_lowercase`], so that words and texts
/// agree.
fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for c in text.chars() {
        push_folded(&mut folded, c);
    }
    folded
}

/// Adds a character in lowercase. Letters with the same uppercase are equal, as in Unicode's case folding: `ς` is `σ`, and `ß` is `ss`.
fn push_folded(folded: &mut String, c: char) {
    if c.is_ascii() {
        folded.push(c.to_ascii_lowercase());
    } else {
        folded.extend(c.to_lowercase().flat_map(char::to_uppercase).flat_map(char::to_lowercase));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(query: &str, text: &str) -> Option<Excerpt> {
        SearchWords::parse(query).unwrap().find(text)
    }

    /// The words that an excerpt marks.
    fn marked(excerpt: &Excerpt) -> Vec<String> {
        let chars: Vec<char> = excerpt.text.chars().collect();
        excerpt.words.iter().map(|word| chars[word.start..word.end].iter().collect()).collect()
    }

    #[test]
    fn all_words_are_found_in_any_case_and_order() {
        let text = "Run the Tests of the ORDER service,\nthen count the teacups.";
        let found = find("cup tests order", text).unwrap();
        assert_eq!(found.text, "Run the Tests of the ORDER service, then count the teacups.");
        assert_eq!(marked(&found), ["Tests", "ORDER", "cup"]);
        assert_eq!(found.words[0], WordPosition { start: 8, end: 13 });
        assert_eq!(find("tests saucer", text), None);
    }

    #[test]
    fn query_has_words_and_a_limit() {
        let parse = SearchWords::parse;
        assert_eq!(parse(""), Err(InvalidSearch::Empty));
        assert_eq!(parse(" \t\n"), Err(InvalidSearch::Empty));
        let longest = "x".repeat(SearchWords::MAX_CHARS);
        assert!(parse(&longest).is_ok());
        assert_eq!(parse(&format!("{longest}x")), Err(InvalidSearch::TooLong));
        assert_eq!(InvalidSearch::TooLong.to_string(), "must have at most 200 characters");
        assert_eq!(parse("b A a"), parse("a B"));
    }

    #[test]
    fn excerpt_of_a_long_text_surrounds_the_longest_word() {
        let text = format!("the {} the needle {}", "before ".repeat(100), "after ".repeat(100));
        let found = find("the needle", &text).unwrap();
        assert_eq!(found.text.chars().count(), Excerpt::MAX_CHARS);
        assert!(found.text.starts_with('…') && found.text.ends_with('…'), "{}", found.text);
        assert_eq!(marked(&found), ["the", "needle"], "a word outside of the excerpt has no position");
        let longest = "ab".repeat(SearchWords::MAX_CHARS / 2);
        let found = find(&longest, &format!("{}{longest}{}", "c".repeat(500), "d".repeat(500))).unwrap();
        assert_eq!(marked(&found), [longest]);
    }

    #[test]
    fn words_that_overlap_have_one_position() {
        assert_eq!(marked(&find("abab ba", "xababax").unwrap()), ["ababa"]);
        assert_eq!(marked(&find("ab cd", "abcd").unwrap()), ["ab", "cd"]);
    }

    #[test]
    fn positions_count_characters_whose_lowercase_is_longer() {
        // The lowercase of `İ` has two characters, and that of `Ⱥ` more bytes.
        let found = find("stanbul", "İİȺ \u{1f980} İSTANBUL").unwrap();
        assert_eq!(marked(&found), ["STANBUL"]);
        assert_eq!(found.words, [WordPosition { start: 7, end: 14 }]);
        assert_eq!(marked(&find("ΟΔΟΣ", "οδοσ ΟΔΟΣ").unwrap()), ["οδοσ", "ΟΔΟΣ"]);
    }

    #[test]
    fn letters_with_the_same_uppercase_are_equal() {
        for (query, text) in [("ΟΔΟΣ", "οδος"), ("οδος", "ΟΔΟΣ"), ("οδοσ", "οδος")] {
            assert_eq!(marked(&find(query, text).unwrap()), [text], "{query}");
        }
        for query in ["straße", "STRASSE", "STRAẞE"] {
            for text in ["Straße", "strasse", "STRAẞE"] {
                assert_eq!(marked(&find(query, text).unwrap()), [text], "{query}");
            }
        }
        assert_eq!(marked(&find("as", "Straße").unwrap()), ["aß"], "a letter is marked as a whole");
    }

    #[test]
    fn accents_are_found_composed_and_decomposed() {
        let (composed, decomposed) = ("Café", "Cafe\u{301}");
        for query in [composed, decomposed] {
            for text in [composed, decomposed] {
                assert_eq!(
                    marked(&find(query, &format!("my {text} here")).unwrap()),
                    [composed],
                    "{query:?}"
                );
            }
        }
        assert_eq!(find("cafe", decomposed), None, "a letter with an accent is another letter");
    }

    #[test]
    fn excerpt_has_no_control_characters() {
        assert_eq!(find("red", "a\u{1b}[31mred\r\nb\0").unwrap().text, "a [31mred  b ");
    }
}
