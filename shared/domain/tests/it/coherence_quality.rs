//! The quality of the coherence checks on labelled pairs (`tests/data/coherence-pairs.txt`), as `docs/benchmarks.md` reports it.

#[path = "../../examples/coherence_quality/pairs.rs"]
mod pairs;

use pairs::{Half, Label, Quality, measure, measure_decisions, pairs};
use pilothouse_domain::coherence::comparison::Thresholds;
use pilothouse_domain::coherence::{CoherenceMonitorConfig, ComparisonEngine, ReviewLedger};

fn thresholds() -> Thresholds {
    ReviewLedger::default().thresholds(ComparisonEngine::Lexical, &CoherenceMonitorConfig::default())
}

#[test]
fn labelled_set_has_210_pairs_and_no_pair_crosses_its_halves() {
    let pairs = pairs();
    assert_eq!(pairs.len(), 210);
    for label in Label::ALL {
        assert_eq!(pairs.iter().filter(|pair| pair.label == label).count(), 42, "{label:?}");
    }
    for pair in &pairs {
        assert_eq!(pair.halves.0, pair.halves.1, "{:?}", pair.texts);
        assert_ne!(pair.texts.0, pair.texts.1);
    }
}

/// The figures of `docs/benchmarks.md`, rounded down to two digits.
#[test]
fn lexical_engine_finds_duplicates_and_some_overlap() {
    let measured = measure(Half::Reported);
    let thresholds = thresholds();
    let duplicates = Quality::of(&measured, &[Label::Duplicate], thresholds.promotion);
    assert!(duplicates.precision >= 0.91 && duplicates.recall >= 1.0, "{duplicates:?}");
    let related = [Label::Duplicate, Label::Overlap];
    let related = Quality::of(&measured, &related, thresholds.advisory);
    assert!(related.precision >= 0.76 && related.recall >= 0.71, "{related:?}");
    let unrelated = measured.iter().filter(|(label, _)| *label == Label::Unrelated);
    assert!(unrelated.clone().all(|(_, similarity)| *similarity < thresholds.advisory));
}

/// Texts that contradict each other are as similar as texts about the same work, so that no threshold separates them.
#[test]
fn similarity_does_not_tell_contradictions_from_overlap() {
    let measured = measure(Half::Reported);
    let mean = |label| {
        let similarities: Vec<f64> =
            measured.iter().filter(|(other, _)| *other == label).map(|(_, similarity)| *similarity).collect();
        similarities.iter().sum::<f64>() / f64::from(u32::try_from(similarities.len()).unwrap())
    };
    let (overlap, contradiction) = (mean(Label::Overlap), mean(Label::Contradiction));
    assert!((overlap - contradiction).abs() < 0.1, "{overlap} {contradiction}");
}

/// The first sentence of each text is used as a decision. Few texts on its subject are below the threshold, and most other ones are.
#[test]
fn lexical_engine_finds_what_a_decision_is_not_about() {
    let threshold = thresholds().alignment;
    let below = |is_same_subject| {
        let measured = measure_decisions(Half::Reported);
        let of: Vec<_> = measured.iter().filter(|(same, _)| *same == is_same_subject).collect();
        let found = of.iter().filter(|(_, similarity)| *similarity < threshold).count();
        f64::from(u32::try_from(found).unwrap()) / f64::from(u32::try_from(of.len()).unwrap())
    };
    assert!(below(false) >= 0.75, "{}", below(false));
    assert!(below(true) <= 0.05, "{}", below(true));
}
