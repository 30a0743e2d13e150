//! The built-in engine of layer 1: compares texts by the words that they share. It needs no model and no key, and its result depends on
//! the texts only. It finds text that was copied, shortened or rearranged. It does not recognise synonyms.

use std::collections::BTreeMap;

/// Buckets of the hash. A text of 10,000 words has about one collision in a hundred features.
const BUCKETS: u64 = 1 << 20;
/// Characters of a part of a word.
const PART: usize = 4;
/// The most features of a text; the first ones count.
const MAX_FEATURES: usize = 20_000;

/// English words without a subject of their own. In a small project, their rarity alone does not exclude them.
const STOP_WORDS: &[&str] = &[
    "a", "about", "after", "all", "also", "an", "and", "any", "are", "as", "at", "be", "because", "been",
    "before", "both", "but", "by", "can", "could", "did", "do", "does", "each", "every", "for", "from",
    "had", "has", "have", "how", "if", "in", "into", "is", "it", "its", "may", "more", "most", "must", "no",
    "nor", "not", "of", "off", "on", "once", "one", "only", "or", "other", "out", "over", "own", "same",
    "shall", "should", "so", "still", "such", "than", "that", "the", "their", "them", "then", "there",
    "these", "they", "this", "those", "to", "too", "under", "until", "up", "was", "were", "what", "when",
    "where", "which", "while", "who", "whose", "will", "with", "would",
];

/// How often a text has each feature: words, pairs of neighbouring words, and parts of words. Sorted by bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features(Vec<(u32, u32)>);

impl Features {
    pub fn of(text: &str) -> Self {
        let lower = text.to_lowercase();
        let words: Vec<&str> = words(&lower).collect();
        let single = words.iter().map(|word| bucket(b'w', word));
        let pairs = words.windows(2).map(|pair| bucket(b'p', &pair.join(" ")));
        let parts = words.iter().flat_map(|word| parts(word));
        let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
        for feature in single.chain(pairs).chain(parts).take(MAX_FEATURES) {
            let count = counts.entry(feature).or_default();
            *count = count.saturating_add(1);
        }
        Self(counts.into_iter().collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether a text has words with a subject of their own.
pub fn has_words(text: &str) -> bool {
    words(&text.to_lowercase()).next().is_some()
}

fn words(lower: &str) -> impl Iterator<Item = &str> {
    lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty() && !STOP_WORDS.contains(word))
}

/// Overlapping parts of a word with marks at both ends, so that forms of a word share most of them.
fn parts(word: &str) -> Vec<u32> {
    let marked: Vec<char> = std::iter::once('^').chain(word.chars()).chain(std::iter::once('$')).collect();
    marked.windows(PART).map(|part| bucket(b'c', &part.iter().collect::<String>())).collect()
}

/// FNV-1a, 64 bits.
fn bucket(kind: u8, feature: &str) -> u32 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in std::iter::once(kind).chain(feature.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    u32::try_from((hash ^ (hash >> 32)) % BUCKETS).unwrap_or(0)
}

/// How many texts have each feature. Rare features weigh more.
#[derive(Debug, Clone, Default)]
pub struct Corpus {
    texts: u32,
    texts_with: BTreeMap<u32, u32>,
}

/// A weighed text of length 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Vector(Vec<(u32, f64)>);

impl<'a> FromIterator<&'a Features> for Corpus {
    fn from_iter<I: IntoIterator<Item = &'a Features>>(texts: I) -> Self {
        let mut corpus = Self::default();
        for text in texts {
            corpus.texts = corpus.texts.saturating_add(1);
            for (feature, _) in &text.0 {
                let count = corpus.texts_with.entry(*feature).or_default();
                *count = count.saturating_add(1);
            }
        }
        corpus
    }
}

impl Corpus {
    /// The logarithm of the count, times the logarithm of the rarity.
    pub fn weigh(&self, text: &Features) -> Vector {
        let rarity = |feature: &u32| {
            let with = self.texts_with.get(feature).copied().unwrap_or(0);
            ((f64::from(self.texts) + 1.0) / (f64::from(with) + 1.0)).ln() + 1.0
        };
        let weight =
            |(feature, count): &(u32, u32)| (*feature, (1.0 + f64::from(*count).ln()) * rarity(feature));
        let mut weights: Vec<_> = text.0.iter().map(weight).collect();
        let length = weights.iter().map(|(_, weight)| weight * weight).sum::<f64>().sqrt();
        if length > 0.0 {
            for (_, weight) in &mut weights {
                *weight /= length;
            }
        }
        Vector(weights)
    }
}

impl Vector {
    /// Cosine: 0 without a common feature, 1 for the same text.
    pub fn similarity(&self, other: &Self) -> f64 {
        let (mut one, mut two) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut sum = 0.0;
        while let (Some((first, a)), Some((second, b))) = (one.peek(), two.peek()) {
            match first.cmp(second) {
                std::cmp::Ordering::Less => {
                    one.next();
                }
                std::cmp::Ordering::Greater => {
                    two.next();
                }
                std::cmp::Ordering::Equal => {
                    sum += a * b;
                    one.next();
                    two.next();
                }
            }
        }
        sum.clamp(0.0, 1.0)
    }
}
