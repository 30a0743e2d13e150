//! Labelled pairs, and what layer 1 finds in them.

use std::collections::BTreeMap;

use pilothouse_domain::coherence::lexical::{Corpus, Features};

const TEXT: &str = include_str!("../../tests/data/coherence-pairs.txt");

/// The label of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Label {
    Duplicate,
    Overlap,
    Contradiction,
    Gap,
    Unrelated,
}

impl Label {
    pub(crate) const ALL: [Self; 5] =
        [Self::Duplicate, Self::Overlap, Self::Contradiction, Self::Gap, Self::Unrelated];

    const fn name(self) -> &'static str {
        match self {
            Self::Duplicate => "duplicate",
            Self::Overlap => "overlap",
            Self::Contradiction => "contradiction",
            Self::Gap => "gap",
            Self::Unrelated => "unrelated",
        }
    }
}

/// Thresholds are chosen on one half and measured on the other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    Chosen,
    Reported,
}

pub(crate) struct Pair {
    pub(crate) label: Label,
    pub(crate) texts: (&'static str, &'static str),
    /// The halves of the topics of both texts. A pair belongs to the first one.
    pub(crate) halves: (Half, Half),
}

struct Topic {
    name: &'static str,
    fields: BTreeMap<&'static str, &'static str>,
}

fn topics() -> Vec<Topic> {
    let blocks = TEXT.split("\n## ").skip(1);
    let topic = |block: &'static str| {
        let (name, lines) = block.split_once('\n').unwrap_or((block, ""));
        Topic { name, fields: lines.lines().filter_map(|line| line.split_once(": ")).collect() }
    };
    blocks.map(topic).collect()
}

/// All pairs. Panics if the file is malformed.
pub(crate) fn pairs() -> Vec<Pair> {
    let topics = topics();
    let numbers: BTreeMap<_, _> = topics.iter().enumerate().map(|(at, topic)| (topic.name, at)).collect();
    let mut pairs = Vec::new();
    for (at, topic) in topics.iter().enumerate() {
        let base = topic.fields["base"];
        for label in Label::ALL {
            let field = topic.fields[label.name()];
            let (text, other) = match label {
                Label::Unrelated => {
                    let other = numbers[field];
                    (topics[other].fields["base"], other)
                }
                _ => (field, at),
            };
            pairs.push(Pair { label, texts: (base, text), halves: (half(at), half(other)) });
        }
    }
    pairs
}

const fn half(at: usize) -> Half {
    if at.is_multiple_of(2) { Half::Chosen } else { Half::Reported }
}

/// The similarity of each pair of a half. The texts of the half are the corpus.
pub(crate) fn measure(half: Half) -> Vec<(Label, f64)> {
    let pairs: Vec<_> = pairs().into_iter().filter(|pair| pair.halves.0 == half).collect();
    let mut texts: Vec<&str> = pairs.iter().flat_map(|pair| [pair.texts.0, pair.texts.1]).collect();
    texts.sort_unstable();
    texts.dedup();
    let features: BTreeMap<&str, Features> = texts.iter().map(|text| (*text, Features::of(text))).collect();
    let corpus: Corpus = features.values().collect();
    let vector = |text: &str| corpus.weigh(&features[text]);
    pairs.iter().map(|pair| (pair.label, vector(pair.texts.0).similarity(&vector(pair.texts.1)))).collect()
}

/// The similarity of decisions and texts, and whether both are about the same subject. The first sentence of a text is used as a decision.
pub(crate) fn measure_decisions(of: Half) -> Vec<(bool, f64)> {
    let topics: Vec<_> =
        topics().into_iter().enumerate().filter(|(at, _)| half(*at) == of).map(|(_, topic)| topic).collect();
    let features: Vec<_> = topics.iter().map(|topic| Features::of(topic.fields["base"])).collect();
    let corpus: Corpus = features.iter().collect();
    let texts: Vec<_> = features.iter().map(|text| corpus.weigh(text)).collect();
    let mut measured = Vec::new();
    for (at, topic) in topics.iter().enumerate() {
        for label in [Label::Duplicate, Label::Overlap, Label::Contradiction] {
            let text = topic.fields[label.name()];
            let decision = corpus.weigh(&Features::of(text.split(". ").next().unwrap_or(text)));
            measured.extend(texts.iter().enumerate().map(|(of, text)| (of == at, decision.similarity(text))));
        }
    }
    measured
}

/// Precision and recall of one threshold for pairs with one of some labels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quality {
    pub(crate) precision: f64,
    pub(crate) recall: f64,
}

impl Quality {
    pub(crate) fn of(measured: &[(Label, f64)], wanted: &[Label], threshold: f64) -> Self {
        Self::of_found(measured.iter().map(|(label, it)| (*label, *it >= threshold)), wanted)
    }

    pub(crate) fn of_found(found: impl Iterator<Item = (Label, bool)>, wanted: &[Label]) -> Self {
        let (mut right, mut wrong, mut missed) = (0.0, 0.0, 0.0);
        for (label, is_found) in found {
            match (wanted.contains(&label), is_found) {
                (true, true) => right += 1.0,
                (false, true) => wrong += 1.0,
                (true, false) => missed += 1.0,
                (false, false) => {}
            }
        }
        let share = |of: f64, all: f64| if all > 0.0 { of / all } else { 0.0 };
        Self { precision: share(right, right + wrong), recall: share(right, right + missed) }
    }
}
