//! The words under which a search finds artifacts, objectives and sessions.

use std::collections::BTreeMap;

use crate::text_search::composed;

/// The importance of a word: that of a name is higher than that of a text.
pub type Weight = u32;

/// The words of texts, in lowercase and with composed accents, with their weights. A word in camel case is also found by its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchTerms {
    weights: BTreeMap<String, Weight>,
    most: usize,
}

impl Default for SearchTerms {
    fn default() -> Self {
        Self::at_most(Self::MAX)
    }
}

/// Words that nearly every English text has.
const COMMON: [&str; 24] = [
    "an", "and", "are", "as", "at", "be", "by", "for", "from", "in", "is", "it", "not", "of", "on", "or",
    "so", "that", "the", "this", "to", "was", "which", "with",
];

impl SearchTerms {
    /// Most words of one artifact or objective.
    pub const MAX: usize = 200;
    /// Most words of a query.
    pub const MAX_QUERY: usize = 8;
    const LENGTHS: std::ops::RangeInclusive<usize> = 2..=40;

    /// Terms of which there are at most `most`.
    pub const fn at_most(most: usize) -> Self {
        Self { weights: BTreeMap::new(), most }
    }

    /// Adds the words of `text`, each with `weight`, until there are too many.
    #[must_use]
    pub fn with(mut self, text: &str, weight: Weight) -> Self {
        for word in composed(text).split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
            self.add(word, weight);
            let parts = camel_parts(word);
            if parts.len() > 1 {
                for part in parts {
                    self.add(part, weight);
                }
            }
        }
        self
    }

    /// The first words of a query, at most [`Self::MAX_QUERY`].
    pub fn of_query(query: &str) -> Vec<String> {
        let mut terms = Vec::new();
        for word in composed(query).split(|c: char| !c.is_alphanumeric()) {
            let term = word.to_lowercase();
            if is_term(&term) && !terms.contains(&term) && terms.len() < Self::MAX_QUERY {
                terms.push(term);
            }
        }
        terms
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, Weight)> {
        self.weights.iter().map(|(term, weight)| (term.as_str(), *weight))
    }

    fn add(&mut self, word: &str, weight: Weight) {
        let term = word.to_lowercase();
        if !is_term(&term) || (self.weights.len() >= self.most && !self.weights.contains_key(&term)) {
            return;
        }
        let known = self.weights.entry(term).or_default();
        *known = weight.max(*known);
    }
}

fn is_term(term: &str) -> bool {
    SearchTerms::LENGTHS.contains(&term.chars().count()) && !COMMON.contains(&term)
}

/// `orderService` → `order`, `Service`.
fn camel_parts(word: &str) -> Vec<&str> {
    let mut starts: Vec<_> = word.char_indices().collect();
    starts.dedup_by(|(_, c), (_, before)| {
        let is_same = !(c.is_uppercase() && before.is_lowercase());
        *before = *c;
        is_same
    });
    let ends = starts.iter().skip(1).map(|(at, _)| *at).chain([word.len()]);
    starts.iter().zip(ends).map(|((start, _), end)| &word[*start..end]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_any_case_and_by_their_parts() {
        let terms = SearchTerms::default().with("The orderService of API-v2", 3).with("order", 1);
        let terms: Vec<_> = terms.iter().collect();
        assert_eq!(terms, [("api", 3), ("order", 3), ("orderservice", 3), ("service", 3), ("v2", 3)]);
    }

    #[test]
    fn accents_are_found_composed_and_decomposed() {
        for text in ["Un Café", "Un Cafe\u{301}"] {
            let terms = SearchTerms::default().with(text, 1);
            assert_eq!(terms.iter().map(|(term, _)| term).collect::<Vec<_>>(), ["café", "un"], "{text:?}");
            assert_eq!(SearchTerms::of_query(text), ["un", "café"], "{text:?}");
        }
    }

    #[test]
    fn numbers_of_words_are_limited() {
        let long = (0..1000).map(|n| format!("word{n}")).collect::<Vec<_>>().join(" ");
        assert_eq!(SearchTerms::default().with(&long, 1).iter().count(), SearchTerms::MAX);
        assert_eq!(SearchTerms::of_query(&long).len(), SearchTerms::MAX_QUERY);
        assert_eq!(SearchTerms::of_query("the API, the api"), ["api"]);
    }
}
