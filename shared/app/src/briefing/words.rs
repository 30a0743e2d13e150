//! The wording of a briefing.

use std::collections::BTreeMap;
use std::fmt;

use pilothouse_api::decisions::{rule_in_words, timeout_rule_in_words};
use pilothouse_domain::brake::BrakeScope;
use pilothouse_domain::decision::{
    Decision, DecisionKind, DecisionState, DecisionStatus, DecisionSubject, KnowledgeAccess, OnTimeout,
    OrphanAction, OrphanStage, Resolution, ResolutionType, ResolvedBy, TimedOut,
};
use pilothouse_domain::session::PausedReason;
use pilothouse_domain::text::cut;
use pilothouse_domain::{ProjectAgentId, Timestamp};

use super::facts::{AgentFacts, SessionFacts, Turns};

/// Most characters of a text by an agent or a person.
const MAX_TEXT: usize = 120;
const MAX_NAME: usize = 60;

/// The text in one line without control characters.
pub(super) fn quoted(text: &str) -> String {
    format!("“{}”", one_line(text, MAX_TEXT))
}

pub(super) fn one_line(text: &str, max: usize) -> String {
    let is_hidden = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let visible: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).filter(|c| !is_hidden(*c)).collect();
    cut(&visible.split_whitespace().collect::<Vec<_>>().join(" "), max)
}

/// `1 turn`, `2 turns`.
pub(super) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

impl fmt::Display for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(number) => f.write_str(&count(*number, "turn")),
            Self::AtLeast(number) => write!(f, "at least {}", count(*number, "turn")),
        }
    }
}

/// `2026-11-24 14:00 UTC`.
pub(super) fn time(at: Timestamp) -> String {
    let text = at.to_string();
    let minutes: String = text.chars().take(16).map(|c| if c == 'T' { ' ' } else { c }).collect();
    format!("{minutes} UTC")
}

/// The names of agents: the role, with the workstream and the end of the id where several agents have the role.
pub(super) struct Names(BTreeMap<ProjectAgentId, String>);

impl Names {
    pub(super) fn of(agents: &[AgentFacts]) -> Self {
        let role = |agent: &AgentFacts| one_line(&agent.role, MAX_NAME);
        let with_workstream = |agent: &AgentFacts| format!("{} ({})", role(agent), agent.workstream);
        let is_unique = |name: &dyn Fn(&AgentFacts) -> String, of: &str| {
            agents.iter().filter(|it| name(it) == of).count() < 2
        };
        let name = |agent: &AgentFacts| {
            if is_unique(&role, &role(agent)) {
                return role(agent);
            }
            if is_unique(&with_workstream, &with_workstream(agent)) {
                return with_workstream(agent);
            }
            let id = agent.id.to_string();
            let end: String = id.chars().skip(id.chars().count().saturating_sub(6)).collect();
            format!("{} ({}, {end})", role(agent), agent.workstream)
        };
        Self(agents.iter().map(|agent| (agent.id, name(agent))).collect())
    }

    pub(super) fn get(&self, id: ProjectAgentId) -> &str {
        self.0.get(&id).map_or("An agent", String::as_str)
    }
}

/// The request of an open decision: a sentence without its full stop.
pub(super) fn request(decision: &Decision, names: &Names) -> String {
    let agent = decision.project.as_ref().map_or("The project", |of| names.get(of.agent_id));
    match &decision.subject {
        DecisionSubject::Option { question, .. } => {
            format!("{agent} asks you to choose: {}", quoted(question))
        }
        DecisionSubject::ToolApproval { approval, .. } => {
            let why = approval
                .verdict
                .as_ref()
                .map(|verdict| format!(", because: {}", rule_in_words(&verdict.rule)));
            let (tool, input) =
                (one_line(&approval.tool_name, MAX_NAME), one_line(&approval.input, MAX_TEXT));
            format!("{agent} asks to call {tool} with {input}{}", why.unwrap_or_default())
        }
        DecisionSubject::Question { questions, .. } => {
            let first = questions.first().map_or_else(|| "a question".to_owned(), |it| quoted(&it.question));
            let more = match questions.len() {
                0 | 1 => String::new(),
                all => format!(" and {}", count(all - 1, "more question")),
            };
            format!("{agent} asks {first}{more}")
        }
        DecisionSubject::Plan { version, .. } => {
            format!("{agent} asks you to approve revision {version} of its plan")
        }
        DecisionSubject::OutputReview { output, .. } => {
            let files = count(output.files_changed as usize, "file");
            let tests = if output.all_tests_passing { "its tests pass" } else { "its tests do not all pass" };
            let violations = match output.violations.len() {
                0 => String::new(),
                number => format!(", it violates its schema in {}", count(number, "place")),
            };
            let tripped: Vec<_> = output.guardrails.iter().map(|trip| quoted(trip.name.as_str())).collect();
            let guardrails = match tripped.len() {
                0 => String::new(),
                1 => format!(", the guardrail {} tripped on it", tripped.concat()),
                _ => format!(", the guardrails {} tripped on it", tripped.join(", ")),
            };
            format!("{agent} asks you to review its output: {files} changed, {tests}{violations}{guardrails}")
        }
        DecisionSubject::BrakeRelease { scope, brake_reason, .. } => {
            format!("The brake on {} waits for its release: {}", braked(scope, names), quoted(brake_reason))
        }
        DecisionSubject::CrashRecovery {
            failure_reason,
            failure_message,
            consecutive_crashes,
            automatic,
            ..
        } => {
            let message = failure_message.as_ref().map(|it| format!(": {}", quoted(it))).unwrap_or_default();
            let automatic = automatic
                .as_ref()
                .map(|it| format!(". Without you, the recovery is {} at {}", it.recovery, time(it.at)));
            format!(
                "{agent} failed ({failure_reason}{message}) and asks how to continue; it is crash {consecutive_crashes} in a row{}",
                automatic.unwrap_or_default()
            )
        }
        DecisionSubject::HandoffFailed { obstacle, .. } => {
            format!("{agent} cannot hand over its work: {}", quoted(obstacle))
        }
        DecisionSubject::Autonomy { action_kind, verdicts, .. } => format!(
            "{agent} proposes to act without asking ({action_kind}); {} of {} such actions were approved",
            verdicts.approved, verdicts.decided
        ),
        DecisionSubject::CoherenceReview { issue_title, explanation, .. } => {
            format!(
                "Work of different agents does not fit together: {}. {}",
                quoted(issue_title),
                quoted(explanation)
            )
        }
    }
}

/// The timeouts of an open decision, and the fate of an orphan, as sentences; empty if it has none.
pub(super) fn deadline_sentences(decision: &Decision) -> String {
    if let DecisionState::Orphaned { stage, .. } = &decision.state {
        let then = match stage {
            OrphanStage::New {} | OrphanStage::Triage {} => String::new(),
            OrphanStage::Grace { ends_at, then } => {
                let then = match then {
                    OrphanAction::Triage => "waits for you",
                    OrphanAction::Cancel => "is cancelled",
                    OrphanAction::Reassign => "goes to another agent",
                };
                format!("; it {then} at {}", time(*ends_at))
            }
            OrphanStage::Reassigned { .. } => "; another agent has taken it over".to_owned(),
        };
        return format!(" The session of the agent has ended{then}.");
    }
    let escalated = decision.timeout.as_ref().and_then(|timeout| timeout.severity);
    let escalated = escalated.map(|severity| format!(" A timeout has raised it to {severity}."));
    let due = decision.expires_at.map(|at| {
        let action = match decision.timeout.as_ref().map(|timeout| timeout.policy.on_timeout) {
            None => "expires",
            Some(OnTimeout::AutoRecommend) => "is resolved without you",
            Some(OnTimeout::Escalate) => "escalates",
            Some(OnTimeout::Cancel) => "is cancelled",
            Some(OnTimeout::Extend) => "is extended",
        };
        format!(" It {action} at {}.", time(at))
    });
    escalated.into_iter().chain(due).collect()
}

/// A decision as the subject of a sentence. Without `decision`, only its kind is known.
pub(super) fn subject(kind: DecisionKind, decision: Option<&Decision>) -> String {
    match decision.map(|decision| &decision.subject) {
        Some(DecisionSubject::Option { question, .. }) => format!("the choice {}", quoted(question)),
        Some(DecisionSubject::ToolApproval { approval, .. }) => {
            format!("the call of {}", one_line(&approval.tool_name, MAX_NAME))
        }
        Some(DecisionSubject::Question { questions, .. }) => questions
            .first()
            .map_or_else(|| "the question".to_owned(), |it| format!("the question {}", quoted(&it.question))),
        Some(DecisionSubject::Plan { version, .. }) => format!("revision {version} of the plan"),
        Some(
            DecisionSubject::OutputReview { .. }
            | DecisionSubject::BrakeRelease { .. }
            | DecisionSubject::CrashRecovery { .. }
            | DecisionSubject::HandoffFailed { .. }
            | DecisionSubject::Autonomy { .. }
            | DecisionSubject::CoherenceReview { .. },
        )
        | None => match kind {
            DecisionKind::Option => "the choice",
            DecisionKind::ToolApproval => "the tool call",
            DecisionKind::Question => "the question",
            DecisionKind::Plan => "the plan",
            DecisionKind::OutputReview => "the output",
            DecisionKind::BrakeRelease => "the release of the brake",
            DecisionKind::CrashRecovery => "the recovery",
            DecisionKind::HandoffFailed => "the handoff",
            DecisionKind::Autonomy => "the autonomy",
            DecisionKind::CoherenceReview => "the coherence issue",
        }
        .to_owned(),
    }
}

/// The outcome of a decision, as the predicate of a sentence.
pub(super) fn resolved(
    status: DecisionStatus,
    how: Option<ResolutionType>,
    decision: Option<&Decision>,
) -> String {
    let resolution = decision.and_then(|decision| decision.state.ruling()).map(|ruling| &ruling.resolution);
    match (resolution, how) {
        (Some(Resolution::ChooseOption { chosen_option_id, .. }), _) => {
            let options = decision.and_then(|decision| decision.subject.options()).unwrap_or_default();
            let chosen = options.iter().find(|option| option.id == *chosen_option_id);
            let label = chosen.map_or(chosen_option_id, |option| &option.option.label);
            format!("was decided as {}", quoted(label))
        }
        (Some(Resolution::Answer { answers }), _) => {
            let answers: Vec<_> = answers.iter().map(|answer| answer.answer.as_str()).collect();
            format!("was answered with {}", quoted(&answers.join("; ")))
        }
        (_, Some(ResolutionType::ChooseOption)) => "was decided".to_owned(),
        (_, Some(ResolutionType::Answer)) => "was answered".to_owned(),
        (_, Some(ResolutionType::Approve)) => "was approved".to_owned(),
        (_, Some(ResolutionType::Modify)) => "was approved with another input".to_owned(),
        (_, Some(ResolutionType::Reject)) => "was rejected".to_owned(),
        (_, Some(ResolutionType::Dismiss)) => "was dismissed".to_owned(),
        (_, None) => match status {
            DecisionStatus::Expired => "expired".to_owned(),
            other => format!("became {}", other.to_string().replace('_', " ")),
        },
    }
}

/// The reason of a decision without a person.
pub(super) fn reason(by: Option<&ResolvedBy>, timeout: Option<TimedOut>) -> String {
    match (by, timeout) {
        (Some(ResolvedBy::DefaultAnswer), _) => {
            "nobody answered in time, and the session has a default answer".to_owned()
        }
        (Some(ResolvedBy::Timeout { rule }), _) => timeout_rule_in_words(*rule),
        (Some(ResolvedBy::OrphanPolicy), _) => "policy for decisions of sessions that ended".to_owned(),
        (Some(ResolvedBy::RecoveryPolicy), _) => "policy for the recovery of crashed agents".to_owned(),
        (Some(ResolvedBy::Owner { .. }) | None, Some(timeout)) => timeout_rule_in_words(timeout.rule),
        (Some(ResolvedBy::Owner { .. }) | None, None) => "nobody decided in time".to_owned(),
    }
}

/// The scope of a brake, as the object of a sentence.
pub(super) fn braked(scope: &BrakeScope, names: &Names) -> String {
    match scope {
        BrakeScope::All {} => "all your sessions".to_owned(),
        BrakeScope::Project { .. } => "the project".to_owned(),
        BrakeScope::Workstream { workstream, .. } => format!("the workstream {workstream}"),
        BrakeScope::Agent { agent_id } => names.get(*agent_id).to_owned(),
        BrakeScope::Session { .. } => "a session".to_owned(),
    }
}

/// The reason why an agent is paused, if it is a risk. Other sentences name pauses of the owner and brakes.
pub(super) fn paused(session: &SessionFacts) -> Option<String> {
    Some(match session.paused? {
        PausedReason::Owner | PausedReason::Brake | PausedReason::Restart => return None,
        PausedReason::BudgetExhausted => {
            format!(
                "is paused, because ${} of its budget of ${} are spent",
                session.spent_usd, session.budget_usd
            )
        }
        PausedReason::Unmetered => "is paused, because it does not report its spend".to_owned(),
        PausedReason::ModelUnavailable => "is paused, because its model does not answer".to_owned(),
        PausedReason::QuotaExceeded => "is paused, because its quota is used up".to_owned(),
        PausedReason::DiskFull => "is paused, because the disk of the server is nearly full".to_owned(),
    })
}

/// The tool by which an agent uses the knowledge of its project.
pub(super) const fn knowledge_tool(access: KnowledgeAccess) -> &'static str {
    match access {
        KnowledgeAccess::ReadArtifact => "read_artifact",
        KnowledgeAccess::ReportArtifact => "report_artifact",
        KnowledgeAccess::ReadDecision => "decision_detail",
        KnowledgeAccess::Search => "search_knowledge",
        KnowledgeAccess::FlagCoherence => "flag_coherence",
    }
}
