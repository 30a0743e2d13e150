//! Handoff documents (S0 8.4 `HandoffDocument`, decision 34).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::{HandoffText, PlanContent, cut};
use crate::value::{SessionTask, SessionTaskStatus};
use crate::{HandoffDocumentId, Timestamp};

/// A document for the next session of a chain, written by the agent or synthesized from the session's records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandoffDocument {
    /// Results so far.
    pub summary: HandoffText,
    /// Work that still needs to be done.
    pub remaining_work: HandoffText,
    /// Decisions and facts that must not be forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_decisions: Option<HandoffText>,
    /// Whether Pilothouse assembled the document because the agent wrote none.
    #[serde(default)]
    pub synthesized: bool,
}

/// A handoff document with its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedHandoff {
    pub id: HandoffDocumentId,
    pub created_at: Timestamp,
    #[serde(flatten)]
    pub document: HandoffDocument,
}

/// Records of a session whose agent wrote no document.
#[derive(Debug, Clone, Copy)]
pub struct HandoffSource<'a> {
    /// The task list.
    pub tasks: &'a [SessionTask],
    pub plan: Option<&'a PlanContent>,
    /// Last messages of the agent, oldest first.
    pub last_messages: &'a [String],
}

/// Cuts the text to its limit; uses `instead` if it is empty.
fn text_or(text: &str, instead: &'static str) -> HandoffText {
    let clean = text.replace('\0', "");
    HandoffText::parse(cut(&clean, HandoffText::MAX)).unwrap_or_else(|_| HandoffText::from_static(instead))
}

impl HandoffDocument {
    /// A document written by an agent. Too long texts are cut, not refused (decision 6).
    pub fn of_agent(summary: &str, remaining_work: &str, key_decisions: Option<&str>) -> Self {
        Self {
            summary: text_or(summary, "The agent did not say what was done."),
            remaining_work: text_or(remaining_work, "The agent did not say what remains."),
            key_decisions: key_decisions
                .and_then(|text| HandoffText::parse(cut(&text.replace('\0', ""), HandoffText::MAX)).ok()),
            synthesized: false,
        }
    }

    /// A document made from the last messages, the task list and the plan (decision 34).
    pub fn synthesized(of: HandoffSource<'_>) -> Self {
        let words: Vec<_> = of.last_messages.iter().map(|said| format!("- {}", cut(said, 700))).collect();
        let mut summary =
            "The agent left no handoff document; this was put together from what was recorded.".to_owned();
        if !words.is_empty() {
            summary.extend(["\n\nWhat it said last:\n", &words.join("\n")]);
        }
        Self {
            summary: text_or(&summary, "Nothing was recorded."),
            remaining_work: text_or(&Self::open_tasks(of.tasks), "Nothing was recorded."),
            key_decisions: of.plan.map(|plan| text_or(&format!("Its plan:\n{plan}"), "It had a plan.")),
            synthesized: true,
        }
    }

    fn open_tasks(tasks: &[SessionTask]) -> String {
        let lines = |wanted: &[SessionTaskStatus]| -> Vec<String> {
            let of = tasks.iter().filter(|task| wanted.contains(&task.status));
            of.map(|task| format!("- {}", cut(&task.subject, 200))).collect()
        };
        let open = lines(&[SessionTaskStatus::InProgress, SessionTaskStatus::Pending]);
        let done = lines(&[SessionTaskStatus::Completed]);
        let mut text =
            "Look at the working directory for what is there, and go on with the objective.".to_owned();
        if !open.is_empty() {
            text.extend(["\n\nOpen tasks:\n", &open.join("\n")]);
        }
        if !done.is_empty() {
            text.extend(["\n\nTasks that are done:\n", &done.join("\n")]);
        }
        text
    }

    pub fn to_text(&self) -> String {
        let decisions = self.key_decisions.as_ref().map(|d| format!("\n\nKey decisions:\n{d}"));
        format!(
            "What was done:\n{}\n\nWhat remains:\n{}{}",
            self.summary,
            self.remaining_work,
            decisions.unwrap_or_default()
        )
    }
}
