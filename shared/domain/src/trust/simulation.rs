//! Replay of an agent's recorded outcomes under another profile, to see what it would change.

use super::{Points, ReportedOutcome, TrustCalibrationProfile, TrustEntry, TrustProfile};
use crate::tick::Tick;

/// Trust of an agent under another profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simulation {
    /// The recorded outcomes with their changes under the simulated profile.
    pub entries: Vec<TrustEntry>,
    pub final_score: Points,
    pub lowest: Points,
    pub highest: Points,
}

impl Simulation {
    /// Number of outcomes before which the score was below `threshold`. With the threshold of an escalation rule, this is how often
    /// the rule would have applied.
    pub fn below(&self, threshold: Points) -> usize {
        self.entries.iter().filter(|entry| entry.before < threshold).count()
    }
}

/// Replays `history`, in its order, for an agent that started at tick `started`, and lets the score decay until `until`.
///
/// Outcomes that were recorded in calibration mode count as well. Calibration mode of `profile` is ignored.
pub fn simulate(
    history: &[TrustEntry],
    profile: &TrustCalibrationProfile,
    started: Tick,
    until: Tick,
) -> Simulation {
    let mut profile = profile.clone();
    profile.config.calibration_mode = false;
    let mut trust = TrustProfile::new(&profile, started);
    let replay = |entry: &TrustEntry| {
        let TrustEntry { outcome, decision_id, action, tick, .. } = *entry;
        trust.record(ReportedOutcome { outcome, decision_id, action }, tick, &profile)
    };
    let entries: Vec<_> = history.iter().map(replay).collect();
    let final_score = trust.score(until, &profile);
    let scores = || {
        let of_entries = entries.iter().flat_map(|entry| [entry.before, entry.after]);
        of_entries.chain([profile.config.initial_score, final_score])
    };
    let lowest = scores().min().unwrap_or(final_score);
    let highest = scores().max().unwrap_or(final_score);
    Simulation { entries, final_score, lowest, highest }
}
