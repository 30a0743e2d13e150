//! The section about decisions without a person, from the decision log.

use std::collections::BTreeMap;

use pilothouse_api::briefing::BriefingSource;
use pilothouse_api::decisions::{rule_in_words, timeout_rule_in_words, trip_in_words};
use pilothouse_domain::decision::{
    BrakeAction, BrakeActor, Decision, DecisionLogEntry, LoggedDecision, ResolvedBy, TimeoutEffect,
};
use pilothouse_domain::escalation::VerdictKind;
use pilothouse_domain::trust::{AutonomyChange, TrustEntry};
use pilothouse_domain::{BrakeId, DecisionId, ProjectAgentId, Timestamp};

use super::draft::Draft;
use super::facts::BriefingFacts;
use super::words::{self, Names, count, one_line, quoted};

type Entries<'a> = Vec<&'a DecisionLogEntry>;

/// Calls of a tool with the same verdict and reason.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct JudgedCalls {
    agent: Option<ProjectAgentId>,
    tool: String,
    verdict: VerdictKind,
    why: String,
}

/// The entries of the log about decisions without a person, by their subject.
#[derive(Default)]
pub(super) struct AutomaticDecisions<'a> {
    calls: BTreeMap<JudgedCalls, Entries<'a>>,
    /// Ends of decisions, and timeouts that escalated or extended them.
    decisions: BTreeMap<DecisionId, Entries<'a>>,
    brakes: BTreeMap<BrakeId, Entries<'a>>,
    trust: BTreeMap<ProjectAgentId, Entries<'a>>,
    trips: BTreeMap<Trips, Entries<'a>>,
}

/// Trips of a guardrail of an agent on the same kind of text, or on its outputs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Trips {
    agent: Option<ProjectAgentId>,
    guardrail: String,
    predicate: String,
}

/// Whether no person took the decision.
const fn is_automatic(by: Option<&ResolvedBy>) -> bool {
    !matches!(by, Some(ResolvedBy::Owner { .. }))
}

/// The decision of an entry, if it was taken, ended or delayed without a person.
pub(super) const fn automatic_decision(entry: &DecisionLogEntry) -> Option<DecisionId> {
    match &entry.logged {
        LoggedDecision::Decision { decision_id, resolved_by, .. } if is_automatic(resolved_by.as_ref()) => {
            Some(*decision_id)
        }
        LoggedDecision::Timeout { decision_id, .. } => Some(*decision_id),
        LoggedDecision::Decision { .. }
        | LoggedDecision::Verdict { .. }
        | LoggedDecision::ControlMode { .. }
        | LoggedDecision::Brake { .. }
        | LoggedDecision::Knowledge { .. }
        | LoggedDecision::Guardrail { .. }
        | LoggedDecision::Trust { .. } => None,
    }
}

impl<'a> AutomaticDecisions<'a> {
    pub(super) fn of(facts: &'a BriefingFacts) -> Self {
        let mut sorted: Entries<'a> =
            facts.log.iter().filter(|entry| facts.period.contains(entry.at)).collect();
        sorted.sort_by_cached_key(|entry| (entry.at, entry.logged.key()));
        let mut all = Self::default();
        for entry in sorted {
            all.add(entry);
        }
        all
    }

    fn add(&mut self, entry: &'a DecisionLogEntry) {
        match &entry.logged {
            LoggedDecision::Verdict { verdict: VerdictKind::Ask, .. }
            | LoggedDecision::Brake { by: BrakeActor::Owner, .. }
            | LoggedDecision::ControlMode { .. }
            | LoggedDecision::Knowledge { allowed: true, .. } => {}
            LoggedDecision::Verdict { tool, verdict, rule, .. } => {
                let (tool, why) = (one_line(tool, 60), one_line(&rule_in_words(rule), 160));
                let alike = JudgedCalls { agent: entry.agent_id, tool, verdict: *verdict, why };
                self.calls.entry(alike).or_default().push(entry);
            }
            LoggedDecision::Knowledge { access, allowed: false, .. } => {
                let (tool, why) = (words::knowledge_tool(*access), "outside of its workstreams");
                let alike = JudgedCalls {
                    agent: entry.agent_id,
                    tool: tool.to_owned(),
                    verdict: VerdictKind::Deny,
                    why: why.to_owned(),
                };
                self.calls.entry(alike).or_default().push(entry);
            }
            LoggedDecision::Decision { .. } | LoggedDecision::Timeout { .. } => {
                if let Some(id) = automatic_decision(entry) {
                    self.decisions.entry(id).or_default().push(entry);
                }
            }
            LoggedDecision::Brake { brake_id, by: BrakeActor::Timer | BrakeActor::System, .. } => {
                self.brakes.entry(*brake_id).or_default().push(entry);
            }
            LoggedDecision::Guardrail { subject, guardrail, .. } => {
                let alike = Trips {
                    agent: entry.agent_id,
                    guardrail: one_line(guardrail.name.as_str(), 60),
                    predicate: trip_in_words(*subject, guardrail.action),
                };
                self.trips.entry(alike).or_default().push(entry);
            }
            LoggedDecision::Trust { .. } => {
                if let Some(agent) = entry.agent_id {
                    self.trust.entry(agent).or_default().push(entry);
                }
            }
        }
    }

    /// The timeouts of a decision that is still open.
    pub(super) fn take_timeouts(&mut self, id: DecisionId) -> Vec<(Timestamp, BriefingSource)> {
        sources(&self.decisions.remove(&id).unwrap_or_default())
    }

    /// The entries about a brake that is in force.
    pub(super) fn take_brake(&mut self, id: BrakeId) -> Vec<(Timestamp, BriefingSource)> {
        sources(&self.brakes.remove(&id).unwrap_or_default())
    }

    /// A sentence for each guardrail of an agent that tripped on its input or output.
    pub(super) fn take_trips(&mut self, names: &Names) -> Vec<Draft> {
        let taken = std::mem::take(&mut self.trips);
        taken.iter().filter_map(|(alike, entries)| tripped(alike, entries, names)).collect()
    }

    /// A sentence for each agent whose trust fell.
    pub(super) fn take_lost_trust(&mut self, names: &Names) -> Vec<Draft> {
        let fell = |entries: &Entries<'_>| {
            trust_changes(entries)
                .is_some_and(|(first, last)| last.frozen_score.is_none() && last.after < first.before)
        };
        let agents: Vec<_> = self.trust.iter().filter(|(_, it)| fell(it)).map(|(agent, _)| *agent).collect();
        let taken = agents.into_iter().filter_map(|agent| self.trust.remove_entry(&agent));
        taken.filter_map(|(agent, entries)| trust(agent, &entries, names)).collect()
    }

    /// A sentence for each of the remaining subjects.
    pub(super) fn into_drafts(self, facts: &BriefingFacts, names: &Names) -> Vec<Draft> {
        let calls = self.calls.iter().filter_map(|(alike, entries)| judged(alike, entries, names));
        let decision_of = |id: DecisionId| facts.logged.get(&id);
        let decisions = self.decisions.iter().filter_map(|(id, it)| decided(decision_of(*id), it, names));
        let brakes = self.brakes.values().filter_map(|entries| brake(entries, names));
        let trust = self.trust.iter().filter_map(|(agent, entries)| trust(*agent, entries, names));
        calls.chain(decisions).chain(brakes).chain(trust).collect()
    }
}

fn sources(entries: &[&DecisionLogEntry]) -> Vec<(Timestamp, BriefingSource)> {
    let source = |entry: &&DecisionLogEntry| {
        (entry.at, BriefingSource::DecisionLog { at: entry.at, entry: entry.logged.key() })
    };
    entries.iter().map(source).collect()
}

fn tripped(alike: &Trips, entries: &[&DecisionLogEntry], names: &Names) -> Option<Draft> {
    // An agent whose objective was refused does not exist.
    let agent = alike.agent.map_or("an agent that was not created", |id| names.get(id));
    let times = if entries.len() == 1 { String::new() } else { format!(" {} times", entries.len()) };
    let text = format!("The guardrail “{}” of {agent} {}{times}.", alike.guardrail, alike.predicate);
    Some(Draft::about(text, sources(entries))?.of_agent(alike.agent))
}

fn judged(alike: &JudgedCalls, entries: &[&DecisionLogEntry], names: &Names) -> Option<Draft> {
    let agent = alike.agent.map_or("An agent", |id| names.get(id));
    let (number, were) = (entries.len(), if entries.len() == 1 { "was" } else { "were" });
    let verdict = match alike.verdict {
        VerdictKind::Allow => "allowed without you",
        VerdictKind::Deny => "denied",
        VerdictKind::Ask => return None,
    };
    let text =
        format!("{} of {} by {agent} {were} {verdict}: {}.", count(number, "call"), alike.tool, alike.why);
    Some(Draft::about(text, sources(entries))?.of_agent(alike.agent))
}

/// A decision with its end or its timeouts. Entries are in the order of time.
fn decided(decision: Option<&Decision>, entries: &[&DecisionLogEntry], names: &Names) -> Option<Draft> {
    let last = entries.last()?;
    let agent = last.agent_id.map_or("the project", |id| names.get(id));
    let text = match entries
        .iter()
        .rev()
        .find(|it| matches!(it.logged, LoggedDecision::Decision { .. }))
        .unwrap_or(last)
    {
        DecisionLogEntry {
            logged: LoggedDecision::Decision { kind, state, resolution_type, resolved_by, timeout, .. },
            ..
        } => {
            let what = words::resolved(*state, *resolution_type, decision);
            let why = words::reason(resolved_by.as_ref(), *timeout);
            format!("{} of {agent} {what} without you: {why}.", capital(&words::subject(*kind, decision)))
        }
        DecisionLogEntry {
            logged: LoggedDecision::Timeout { kind, timeout, severity, extensions, .. },
            ..
        } => {
            let what = match (timeout.effect, severity) {
                (TimeoutEffect::Escalated, Some(severity)) => format!("was escalated to {severity}"),
                (TimeoutEffect::Escalated, None) => "was escalated".to_owned(),
                (TimeoutEffect::Extended, _) => format!("was extended for the {} time", ordinal(*extensions)),
                (TimeoutEffect::AutoResolved, _) => "was resolved".to_owned(),
                (TimeoutEffect::Cancelled, _) => "was cancelled".to_owned(),
            };
            let why = timeout_rule_in_words(timeout.rule);
            format!("{} of {agent} {what} without you: {why}.", capital(&words::subject(*kind, decision)))
        }
        _ => return None,
    };
    Some(Draft::about(text, sources(entries))?.of_agent(last.agent_id))
}

fn ordinal(number: u32) -> String {
    let ending = match (number % 10, number % 100) {
        (1, rest) if rest != 11 => "st",
        (2, rest) if rest != 12 => "nd",
        (3, rest) if rest != 13 => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn brake(entries: &[&DecisionLogEntry], names: &Names) -> Option<Draft> {
    let LoggedDecision::Brake { scope, action, by, reason, .. } = &entries.last()?.logged else {
        return None;
    };
    let what = match action {
        BrakeAction::Pulled => "pulled",
        BrakeAction::SessionsReleased => "released for some sessions",
        BrakeAction::Released => "released",
    };
    let by = match by {
        BrakeActor::Owner => "you",
        BrakeActor::Timer => "its timer",
        BrakeActor::System => "the spending cap",
    };
    let (scope, reason) = (words::braked(scope, names), quoted(reason));
    let text = format!("The brake on {scope} was {what} by {by}; its reason: {reason}.");
    Draft::about(text, sources(entries))
}

/// The first and the last change. Entries are in the order of time.
fn trust_changes<'a>(entries: &[&'a DecisionLogEntry]) -> Option<(&'a TrustEntry, &'a TrustEntry)> {
    let change = |entry: &&'a DecisionLogEntry| match &entry.logged {
        LoggedDecision::Trust { change, .. } => Some(&**change),
        _ => None,
    };
    entries.iter().find_map(change).zip(entries.iter().rev().find_map(change))
}

fn trust(agent: ProjectAgentId, entries: &[&DecisionLogEntry], names: &Names) -> Option<Draft> {
    let (first, last) = trust_changes(entries)?;
    let (mut outcomes, mut revoked) = (BTreeMap::<_, usize>::new(), Vec::new());
    for entry in entries {
        if let LoggedDecision::Trust { change, .. } = &entry.logged {
            *outcomes.entry(change.outcome).or_default() += 1;
            revoked.extend(change.autonomy.iter().filter_map(|it| match it {
                AutonomyChange::Revoked { action_kind, .. } => Some(action_kind.to_string()),
                AutonomyChange::Proposed { .. } => None,
            }));
        }
    }
    let outcomes: Vec<_> = outcomes
        .iter()
        .map(|(outcome, n)| format!("{n} × {}", outcome.to_string().replace('_', " ")))
        .collect();
    let revoked = match &revoked[..] {
        [] => String::new(),
        kinds => format!("; autonomy for {} was revoked", kinds.join(", ")),
    };
    let went = if last.frozen_score.is_some() { "would have gone" } else { "went" };
    let text = format!(
        "The trust in {} {went} from {} to {}: {}{revoked}.",
        names.get(agent),
        first.before,
        last.after,
        outcomes.join(", ")
    );
    Some(Draft::about(text, sources(entries))?.of_agent(Some(agent)))
}
