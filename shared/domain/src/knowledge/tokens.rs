//! Estimates tokens without the tables of a tokenizer, which differ by model and have several megabytes.

/// An estimate of the number of tokens of `text` that is rarely too low: a token for each 4 letters of a word, for each 3 characters of
/// two that contain digits, for each punctuation mark, and two for each character beyond ASCII.
pub fn estimated_tokens(text: &str) -> u64 {
    let (mut tokens, mut word) = (0, Word::default());
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            word.length += 1;
            word.has_digit |= c.is_ascii_digit();
            continue;
        }
        tokens += std::mem::take(&mut word).tokens();
        tokens += match c {
            ' ' => 0,
            c if c.is_ascii() => 1,
            _ => 2,
        };
    }
    tokens + word.tokens()
}

#[derive(Default)]
struct Word {
    length: u64,
    has_digit: bool,
}

impl Word {
    const fn tokens(&self) -> u64 {
        // Ids and hashes fall apart into tokens of one to three characters.
        if self.has_digit { (self.length * 2).div_ceil(3) } else { self.length.div_ceil(4) }
    }
}

#[cfg(test)]
mod tests {
    use super::estimated_tokens;

    #[test]
    fn estimates_are_at_least_those_of_usual_tokenizers() {
        // Counts of the encodings o200k_base and cl100k_base, whichever is larger.
        for (text, counted) in [
            ("", 0),
            ("hello world", 2),
            ("The quick brown fox jumps over the lazy dog.", 10),
            ("{\"id\":\"api\",\"status\":\"active\"}", 11),
        ] {
            assert!(estimated_tokens(text) >= counted, "{text}: {}", estimated_tokens(text));
        }
    }

    #[test]
    fn longer_texts_never_have_fewer_tokens() {
        let text = "Order-Service 01a20bf6-6730-73c8 häuser\n日本 {\"a\":1}";
        let ends = text.char_indices().map(|(at, _)| at);
        let counts: Vec<_> = ends.map(|end| estimated_tokens(&text[..end])).collect();
        assert!(counts.is_sorted(), "{counts:?}");
    }
}
