//! Decisions of other sessions, which have ended (decision 81): an agent that takes one over, and that receives a resolution.

use super::Conversation;
use crate::decision::{Decision, DecisionSubject, Resolution};
use crate::session::Operation;
use crate::{DomainContext, Events, SessionEvent};

impl Conversation {
    /// Whether an orphaned decision can be given to the agent.
    pub fn accepts_orphans(&self) -> bool {
        self.session.check(Operation::AcceptMessage).is_ok()
    }

    /// The agent takes over a decision of a session that has ended. A message describes it.
    pub fn take_over(&mut self, orphan: &Decision, ctx: &mut DomainContext<'_>) -> Events {
        let Some(from) = orphan.session.as_ref().filter(|_| self.accepts_orphans()) else {
            return Events::new();
        };
        let text = format!(
            "An agent of your role has ended while a decision waited for a person, and you take over its decision (session \"{}\"). You \
             receive the answer as a message.\n\n{}",
            from.session_name,
            description(&orphan.subject)
        );
        let mut events = vec![SessionEvent::DecisionTakenOver {
            decision_id: orphan.id,
            from_session_id: from.session_id,
        }];
        events.extend(self.enqueue_internal_parts(&text, ctx));
        events
    }

    /// The agent receives the resolution of a decision of a session that has ended. No events: it accepts no messages, or the
    /// resolution says nothing.
    pub fn receive_orphan_resolution(
        &mut self,
        orphan: &Decision,
        resolution: &Resolution,
        ctx: &mut DomainContext<'_>,
    ) -> Events {
        let Some(answer) = answer(&orphan.subject, resolution).filter(|_| self.accepts_orphans()) else {
            return Events::new();
        };
        let name = orphan.session.as_ref().map_or("", |session| session.session_name.as_str());
        let text = format!(
            "A person decided what the session \"{name}\" had asked before it ended.\n\n{}\n\n{answer}",
            description(&orphan.subject)
        );
        let mut events = vec![SessionEvent::OrphanResolved { decision_id: orphan.id }];
        events.extend(self.enqueue_internal_parts(&text, ctx));
        events
    }
}

fn description(subject: &DecisionSubject) -> String {
    match subject {
        DecisionSubject::Option { question, options, .. } => {
            let line = |option: &crate::decision::DecisionOption| {
                let why =
                    option.option.description.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
                format!("\n- {}{why}", option.option.label)
            };
            format!("{question}{}", options.iter().map(line).collect::<String>())
        }
        DecisionSubject::Question { questions, .. } => {
            questions.iter().map(|question| question.question.as_str()).collect::<Vec<_>>().join("\n")
        }
        DecisionSubject::Plan { version, .. } => format!("Its plan, revision {version}."),
        DecisionSubject::ToolApproval { question, .. } => question.clone(),
        DecisionSubject::OutputReview { .. } => "Its output.".to_owned(),
        DecisionSubject::BrakeRelease { .. }
        | DecisionSubject::CrashRecovery { .. }
        | DecisionSubject::HandoffFailed { .. }
        | DecisionSubject::Autonomy { .. }
        | DecisionSubject::CoherenceReview { .. } => String::new(),
    }
}

/// `None` if the agent has nothing to do with the resolution.
fn answer(subject: &DecisionSubject, resolution: &Resolution) -> Option<String> {
    let because = |why: Option<&String>| why.map(|why| format!(" {why}")).unwrap_or_default();
    Some(match resolution {
        Resolution::Answer { answers } => {
            let line = |answer: &crate::value::Answer| format!("Answer: {}", answer.answer);
            answers.iter().map(line).collect::<Vec<_>>().join("\n")
        }
        Resolution::ChooseOption { chosen_option_id, rationale } => {
            let options = subject.options().unwrap_or_default();
            let chosen = options.iter().find(|option| option.id == *chosen_option_id)?;
            format!("Chosen: {}.{}", chosen.option.label, because(rationale.as_ref()))
        }
        Resolution::Approve { .. } => "It is approved.".to_owned(),
        Resolution::Reject { rationale } => format!("It is rejected.{}", because(rationale.as_ref())),
        Resolution::Modify { .. } | Resolution::Dismiss => return None,
    })
}
