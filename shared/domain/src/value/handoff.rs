//! What one session leaves to the next (S0 8.4 `HandoffDocument`, ruling 34).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::session::AgentSession;
use crate::text::{HandoffText, cut};
use crate::value::SessionTaskStatus;
use crate::{HandoffDocumentId, Timestamp};

/// A handoff document: its agent's, or put together from what was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandoffDocument {
    /// What was accomplished.
    pub summary: HandoffText,
    /// What still needs to be done.
    pub remaining_work: HandoffText,
    /// What must not be forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_decisions: Option<HandoffText>,
    /// Whether it was put together from what was recorded, as the agent left none.
    #[serde(default)]
    pub synthesized: bool,
}

/// A document with its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedHandoff {
    /// Its id.
    pub id: HandoffDocumentId,
    /// When it was recorded.
    pub created_at: Timestamp,
    /// What it says.
    #[serde(flatten)]
    pub document: HandoffDocument,
}

/// What was recorded of a session that left no document.
#[derive(Debug, Clone, Copy)]
pub struct Remembered<'a> {
    /// The session, with its task list and its plan.
    pub session: &'a AgentSession,
    /// What its agent said last, oldest first.
    pub last_words: &'a [String],
}

/// The text as far as it fits; `instead` where there is none.
fn fitting(text: &str, instead: &'static str) -> HandoffText {
    let clean = text.replace('\0', "");
    HandoffText::parse(cut(&clean, HandoffText::MAX)).unwrap_or_else(|_| HandoffText::standing(instead))
}

impl HandoffDocument {
    /// A document as an agent wrote it: cut where it is too long, never refused (ruling 6).
    pub fn of_agent(summary: &str, remaining_work: &str, key_decisions: Option<&str>) -> Self {
        Self {
            summary: fitting(summary, "The agent did not say what was done."),
            remaining_work: fitting(remaining_work, "The agent did not say what remains."),
            key_decisions: key_decisions
                .and_then(|text| HandoffText::parse(cut(&text.replace('\0', ""), HandoffText::MAX)).ok()),
            synthesized: false,
        }
    }

    /// A document from what is recorded: the last messages, the task list, the plan (ruling 34).
    pub fn synthesized(of: Remembered<'_>) -> Self {
        let words: Vec<_> = of.last_words.iter().map(|said| format!("- {}", cut(said, 700))).collect();
        let mut summary =
            "The agent left no handoff document; this was put together from what was recorded.".to_owned();
        if !words.is_empty() {
            summary.extend(["\n\nWhat it said last:\n", &words.join("\n")]);
        }
        Self {
            summary: fitting(&summary, "Nothing was recorded."),
            remaining_work: fitting(&Self::open_tasks(of.session), "Nothing was recorded."),
            key_decisions: of
                .session
                .plan()
                .and_then(|plan| plan.content.as_ref())
                .map(|plan| fitting(&format!("Its plan:\n{plan}"), "It had a plan.")),
            synthesized: true,
        }
    }

    fn open_tasks(session: &AgentSession) -> String {
        let lines = |wanted: &[SessionTaskStatus]| -> Vec<String> {
            let tasks = session.task_list().map_or(&[][..], |list| &list.tasks);
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

    /// The whole as one text.
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
