//! Measures the coherence checks on labelled pairs: `cargo run -p pilothouse-domain --example coherence_quality`.
//!
//! One half of the topics chooses the thresholds of layer 1, the other half measures both layers.

mod pairs;

use pairs::{Half, Label, Quality, measure, measure_decisions, pairs};
use pilothouse_domain::coherence::comparison::Thresholds;
use pilothouse_domain::coherence::{CoherenceMonitorConfig, ComparisonEngine, ReviewLedger};

const DUPLICATES: &[Label] = &[Label::Duplicate];
const RELATED: &[Label] = &[Label::Duplicate, Label::Overlap];

/// The harmonic mean of both.
fn f1(Quality { precision, recall }: Quality) -> f64 {
    let sum = precision + recall;
    if sum > 0.0 { 2.0 * precision * recall / sum } else { 0.0 }
}

fn main() {
    let chosen = measure(Half::Chosen);
    for (name, wanted) in
        [("promotion (duplicates)", DUPLICATES), ("advisory (duplicates and overlap)", RELATED)]
    {
        let candidates = (5..95).map(|percent| f64::from(percent) / 100.0);
        let best = candidates.max_by(|a, b| {
            let f1 = |threshold: &f64| f1(Quality::of(&chosen, wanted, *threshold));
            // Of equal ones, the lower threshold.
            f1(a).total_cmp(&f1(b)).then(b.total_cmp(a))
        });
        let best = best.unwrap_or_default();
        println!(
            "{name}: best threshold of the first half {best:.2}, F1 {:.3}",
            f1(Quality::of(&chosen, wanted, best))
        );
    }
    let reported = measure(Half::Reported);
    println!("\nsecond half, {} pairs", reported.len());
    let show = |name: &str, quality: Quality| {
        println!("{name:<46} precision {:.2}  recall {:.2}", quality.precision, quality.recall);
    };
    // Layer 0 compares hashes of contents.
    let equal = || {
        let second = pairs().into_iter().filter(|pair| pair.halves.0 == Half::Reported);
        second.map(|pair| (pair.label, pair.texts.0 == pair.texts.1))
    };
    show("layer 0, duplicates", Quality::of_found(equal(), DUPLICATES));
    show("layer 0, duplicates and overlap", Quality::of_found(equal(), RELATED));
    let Thresholds { promotion, advisory, alignment } =
        ReviewLedger::default().thresholds(ComparisonEngine::Lexical, &CoherenceMonitorConfig::default());
    show("layer 1 above promotion, duplicates", Quality::of(&reported, DUPLICATES, promotion));
    show("layer 1 above advisory, duplicates and overlap", Quality::of(&reported, RELATED, advisory));
    show("layer 1 above advisory, overlap alone", Quality::of(&reported, &[Label::Overlap], advisory));
    let decisions = measure_decisions(Half::Reported);
    for (name, same) in [("other subjects", false), ("the same subject", true)] {
        let of: Vec<f64> = decisions.iter().filter(|(it, _)| *it == same).map(|(_, it)| *it).collect();
        let below = of.iter().filter(|similarity| **similarity < alignment).count();
        println!("decisions and texts on {name}: {below} of {} below {alignment}", of.len());
    }
    println!("\nsimilarity: lowest, median, highest");
    for label in Label::ALL {
        let mut of: Vec<f64> = reported.iter().filter(|(it, _)| *it == label).map(|(_, it)| *it).collect();
        of.sort_by(f64::total_cmp);
        println!("{label:?}: {:.2} {:.2} {:.2}", of[0], of[of.len() / 2], of[of.len() - 1]);
    }
}
