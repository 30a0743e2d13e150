//! The anti-corruption layer (S0 8.3). Each file maps one raw event to its meaning for the domain, to a line of the activity
//! stream, and to the view of the journal that lists it.
//!
//! A mapping is a pure function. It normalises and truncates the input of an agent but never refuses it (decision 6).

pub mod adjust_ack;
pub mod agent_settings;
pub mod answer_ack;
pub mod assistant_message;
pub mod begin_ack;
pub mod budget_exceeded;
pub mod command_refused;
pub mod context_exhausted;
pub mod context_nearing_limit;
pub mod conversations;
pub mod deliverables;
pub mod handoff_document;
pub mod interrupt_ack;
pub mod log_chunk;
pub mod message_ack;
pub mod model_unavailable;
pub mod notice;
pub mod pause_ack;
pub mod question_asked;
pub mod quota_exceeded;
pub mod reload_config_ack;
pub mod resume_ack;
pub mod session_end;
pub mod sidecar_ready;
pub mod stop_ack;
pub mod subagent_ended;
pub mod subagent_message;
pub mod subagent_started;
pub mod task_list;
pub mod tool_result;
pub mod tool_use;
pub mod turn_completed;
pub mod turn_started;
pub mod usage_update;
pub mod validation_ack;
pub mod validation_result;
pub mod voluntary_handoff;

use pilothouse_domain::session::{AgentFact, LifecycleCommand};
use pilothouse_domain::value::{ActivityItem, ActivityItemType};
use pilothouse_domain::{SubAgentId, Timestamp};
use pilothouse_store::JournalView;
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::{Ack, AckStep};

#[derive(Debug, Clone, PartialEq)]
pub struct Mapping {
    pub facts: Vec<AgentFact>,
    /// `None` if a domain event produces the line.
    pub line: Option<ActivityItem>,
    pub view: Option<JournalView>,
    /// The subagent must be loaded before the facts are applied.
    pub subagent: Option<SubAgentId>,
}

impl Mapping {
    pub fn to(fact: AgentFact) -> Self {
        Self { facts: vec![fact], line: None, view: None, subagent: None }
    }

    #[must_use]
    pub fn and(mut self, fact: AgentFact) -> Self {
        self.facts.push(fact);
        self
    }

    #[must_use]
    pub fn line(mut self, kind: ActivityItemType, summary: &str, now: Timestamp) -> Self {
        self.line = Some(ActivityItem::new(kind, summary, now));
        self
    }

    #[must_use]
    pub fn detail(mut self, detail: &str) -> Self {
        self.line = self.line.map(|line| line.with_detail(detail));
        self
    }

    #[must_use]
    pub fn tool(mut self, tool: &str) -> Self {
        self.line = self.line.map(|line| line.with_tool(tool));
        self
    }

    #[must_use]
    pub fn listed(mut self, view: JournalView) -> Self {
        self.view = Some(view);
        self
    }

    #[must_use]
    pub fn about(mut self, subagent: Option<SubAgentId>) -> Self {
        self.line = self.line.map(|line| line.with_subagent(subagent.clone()));
        self.subagent = subagent;
        self
    }
}

/// Maps an event that has a sequence. Heartbeats and events of the runtime have no sequence and no mapping.
pub fn map(event: &RawEvent, now: Timestamp) -> Option<Mapping> {
    Some(match event {
        RawEvent::AssistantMessage { content, .. } => assistant_message::map(content, now),
        RawEvent::ToolResult { tool_call_id, content, is_error, subagent_id } => {
            tool_result::map(tool_call_id, content, *is_error, subagent_id.as_ref(), now)
        }
        RawEvent::SubagentMessage { subagent_id, content } => {
            subagent_message::map(subagent_id, content, now)
        }
        RawEvent::UsageUpdate(usage) => usage_update::map(usage, now),
        RawEvent::ContextNearingLimit { usage_percent } => context_nearing_limit::map(usage_percent),
        RawEvent::ContextExhausted {} => context_exhausted::map(),
        RawEvent::HandoffDocument(document) => handoff_document::map(document),
        RawEvent::VoluntaryHandoff { reason, document } => voluntary_handoff::map(reason, document),
        RawEvent::SessionEnd(end) => session_end::map(end),
        RawEvent::InterruptAck(ack) => interrupt_ack::map(*ack),
        RawEvent::PauseAck(ack) => pause_ack::map(*ack),
        RawEvent::ResumeAck(ack) => resume_ack::map(*ack),
        RawEvent::StopAck(ack) => stop_ack::map(*ack),
        RawEvent::ReloadConfigAck(ack) => reload_config_ack::map(*ack),
        RawEvent::SidecarReady { adapter, sidecar_version, capabilities } => {
            sidecar_ready::map(adapter, sidecar_version, *capabilities, now)
        }
        RawEvent::BeginAck(ack) => begin_ack::map(*ack),
        RawEvent::AnswerAck(ack) => answer_ack::map(*ack),
        RawEvent::ValidationAck(ack) => validation_ack::map(*ack),
        RawEvent::ValidationResult { command_id, results } => {
            validation_result::map(*command_id, results, now)
        }
        RawEvent::MessageAck { command_id, message_id, phase } => {
            message_ack::map(*command_id, *message_id, *phase)
        }
        RawEvent::CommandRefused { command_id, code, message } => {
            command_refused::map(*command_id, code, message)
        }
        RawEvent::TurnStarted { turn_id, message_id } => turn_started::map(turn_id, *message_id),
        RawEvent::TurnCompleted { turn_id, output, outcome } => {
            turn_completed::map(turn_id, output.as_ref(), *outcome)
        }
        RawEvent::TaskList { tasks } => task_list::map(tasks, now),
        RawEvent::SubagentStarted { subagent_id, model_id, objective, tool_call_id } => {
            subagent_started::map(subagent_id, model_id.as_deref(), objective, tool_call_id.as_ref(), now)
        }
        RawEvent::SubagentEnded { subagent_id, failure } => {
            subagent_ended::map(subagent_id, failure.as_deref(), now)
        }
        RawEvent::LogChunk { content, .. } => log_chunk::map(content),
        RawEvent::Notice { name, summary, .. } => notice::map(name, summary, now),
        RawEvent::QuestionAsked { request_id, questions, approval, proposal } => {
            question_asked::map(request_id, questions, approval.as_deref(), proposal.as_deref())
        }
        RawEvent::AdjustAck(ack) => adjust_ack::map(*ack),
        RawEvent::AgentSettings { model_id, thinking_level, available_models } => {
            agent_settings::map(model_id, *thinking_level, available_models)
        }
        RawEvent::Conversations(conversations) => conversations::map(conversations),
        RawEvent::BudgetExceeded { needed_usd, left_usd } => budget_exceeded::map(needed_usd, left_usd),
        RawEvent::ModelUnavailable { message, retry_at } => {
            model_unavailable::map(message.as_deref(), *retry_at)
        }
        RawEvent::QuotaExceeded { message, reset_at } => quota_exceeded::map(message.as_deref(), *reset_at),
        RawEvent::Deliverables { deliverables } => deliverables::map(deliverables),
        RawEvent::Heartbeat { .. } | RawEvent::RunExited(_) => return None,
    })
}

/// Maps the two steps of an acknowledgement (decision 11).
fn acknowledgement(kind: LifecycleCommand, ack: Ack) -> Mapping {
    Mapping::to(match ack.step {
        AckStep::Received => AgentFact::CommandReceived(ack.command_id),
        AckStep::Done => AgentFact::CommandDone(kind, ack.command_id),
    })
}

fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("")
}
