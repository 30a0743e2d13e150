use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::autonomy::{self, Autonomy, AutonomyChange, NoProposal};
use super::{
    ApprovalCounts, JudgedAction, Points, TrackedScore, TrustCalibrationProfile, TrustOutcome, TrustRule,
};
use crate::effect::ActionKind;
use crate::tick::Tick;
use crate::{DecisionId, Timestamp};

/// Score and verdicts of an agent (S2 `TrustProfile`). Agents never see it.
///
/// The caller records each outcome once, by the id of its event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrustProfile {
    current: TrackedScore,
    /// The score without the freeze. Present in calibration mode, while `current` is frozen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hypothetical: Option<TrackedScore>,
    /// Verdicts of people, by kind of action.
    #[serde(default)]
    approvals: BTreeMap<ActionKind, ApprovalCounts>,
    #[serde(default)]
    autonomy: BTreeMap<ActionKind, Autonomy>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportedOutcome {
    pub outcome: TrustOutcome,
    /// The decision that the outcome is from.
    pub decision_id: Option<DecisionId>,
    /// The action that a person's verdict concerns.
    pub action: Option<JudgedAction>,
}

/// A change of trust, as the journal records it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustEntry {
    pub outcome: TrustOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_id: Option<DecisionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<JudgedAction>,
    pub tick: Tick,
    /// Score before the change, after decay.
    pub before: Points,
    pub after: Points,
    pub rule: TrustRule,
    /// In calibration mode: the score that stays in force. `before` and `after` are then hypothetical.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen_score: Option<Points>,
    /// Changes of autonomy that follow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub autonomy: Vec<AutonomyChange>,
}

impl TrustProfile {
    pub fn new(profile: &TrustCalibrationProfile, now: Tick) -> Self {
        let current = TrackedScore { score: profile.config.initial_score, as_of: now };
        Self {
            current,
            hypothetical: profile.config.calibration_mode.then_some(current),
            approvals: BTreeMap::new(),
            autonomy: BTreeMap::new(),
        }
    }

    /// The score that is in force at `now`.
    pub fn score(&self, now: Tick, profile: &TrustCalibrationProfile) -> Points {
        if self.hypothetical.is_some() { self.current.score } else { self.current.at(now, &profile.config) }
    }

    /// In calibration mode: the score as it would be at `now`.
    pub fn hypothetical_score(&self, now: Tick, profile: &TrustCalibrationProfile) -> Option<Points> {
        self.hypothetical.map(|tracked| tracked.at(now, &profile.config))
    }

    pub fn approvals(&self, kind: ActionKind) -> ApprovalCounts {
        self.approvals.get(&kind).copied().unwrap_or_default()
    }

    pub fn autonomy(&self, kind: ActionKind) -> Option<Autonomy> {
        self.autonomy.get(&kind).copied()
    }

    /// Whether a person allowed the agent to perform this kind of action without asking.
    pub fn is_autonomous(&self, kind: ActionKind) -> bool {
        matches!(self.autonomy(kind), Some(Autonomy::Granted { .. }))
    }

    /// Takes over a changed configuration at `now`: decay so far is settled under the `old` one, and calibration mode starts or ends.
    /// After calibration mode, the frozen score continues as if no tick had passed.
    pub fn reconfigure(
        &mut self,
        old: &TrustCalibrationProfile,
        new: &TrustCalibrationProfile,
        now: Tick,
    ) -> Vec<AutonomyChange> {
        self.current = TrackedScore { score: self.score(now, old), as_of: self.current.as_of.max(now) };
        self.hypothetical = match (self.hypothetical, new.config.calibration_mode) {
            (_, false) => None,
            (None, true) => Some(self.current),
            (Some(tracked), true) => {
                Some(TrackedScore { score: tracked.at(now, &old.config), as_of: tracked.as_of.max(now) })
            }
        };
        let kinds: Vec<_> = self.autonomy.keys().copied().collect();
        self.review(&kinds, new, false)
    }

    /// Changes the score by an outcome, and counts a person's verdict.
    pub fn record(
        &mut self,
        reported: ReportedOutcome,
        now: Tick,
        profile: &TrustCalibrationProfile,
    ) -> TrustEntry {
        let config = &profile.config;
        if config.calibration_mode != self.hypothetical.is_some() {
            // The change of the project's configuration has not reached this agent yet.
            self.reconfigure(profile, profile, now);
        }
        let frozen_score = self.hypothetical.map(|_| self.current.score);
        let tracked = self.hypothetical.as_mut().unwrap_or(&mut self.current);
        let before = tracked.at(now, config);
        let rule = TrustRule::of(reported.outcome, reported.action, before, profile);
        let after = rule.apply(before, config);
        *tracked = TrackedScore { score: after, as_of: tracked.as_of.max(now) };
        TrustEntry {
            outcome: reported.outcome,
            decision_id: reported.decision_id,
            action: reported.action,
            tick: now,
            before,
            after,
            rule,
            frozen_score,
            autonomy: self.count_verdict(reported, profile),
        }
    }

    /// A person grants the proposed autonomy.
    pub fn grant_autonomy(&mut self, kind: ActionKind, at: Timestamp) -> Result<(), NoProposal> {
        self.answer_proposal(kind, Autonomy::Granted { since: at })
    }

    /// A person declines the proposed autonomy.
    pub fn decline_autonomy(&mut self, kind: ActionKind) -> Result<(), NoProposal> {
        self.answer_proposal(kind, Autonomy::Declined { decided: self.approvals(kind).decided })
    }

    fn answer_proposal(&mut self, kind: ActionKind, answer: Autonomy) -> Result<(), NoProposal> {
        if self.autonomy(kind) != Some(Autonomy::Proposed) {
            return Err(NoProposal { action_kind: kind });
        }
        self.autonomy.insert(kind, answer);
        Ok(())
    }

    fn count_verdict(
        &mut self,
        reported: ReportedOutcome,
        profile: &TrustCalibrationProfile,
    ) -> Vec<AutonomyChange> {
        if reported.outcome == TrustOutcome::HumanOverridesViaBrake {
            let kinds: Vec<_> = self.autonomy.keys().copied().collect();
            return self.review(&kinds, profile, true);
        }
        let (Some(action), Some(approved)) = (reported.action, reported.outcome.approved()) else {
            return Vec::new();
        };
        self.approvals.entry(action.action_kind).or_default().count(approved);
        self.review(&[action.action_kind], profile, false)
    }

    fn review(
        &mut self,
        kinds: &[ActionKind],
        profile: &TrustCalibrationProfile,
        braked: bool,
    ) -> Vec<AutonomyChange> {
        let policy = profile.config.autonomy;
        let mut changes = Vec::new();
        for kind in kinds {
            let change = autonomy::review(*kind, self.autonomy(*kind), self.approvals(*kind), policy, braked);
            match change {
                Some(AutonomyChange::Proposed { .. }) => self.autonomy.insert(*kind, Autonomy::Proposed),
                Some(AutonomyChange::Revoked { .. }) => self.autonomy.remove(kind),
                None => None,
            };
            changes.extend(change);
        }
        changes
    }
}
