//! Queued messages (S1 3.4). A message is always either in its queue or in the conversation.

use std::collections::VecDeque;

use super::state::State;
use super::{Queue, Queued, SessionError};
use crate::event::{Events, SessionEvent};
use crate::message::{AgentMessage, now};

impl State {
    /// Whether a queued message continues the agent's work.
    pub(crate) fn waits(&self) -> bool {
        self.is_steered() || !self.follow_up.is_empty() || !self.compactions.is_empty()
    }

    pub(crate) fn is_steered(&self) -> bool {
        !self.steering.is_empty()
    }

    pub(crate) fn inject(&mut self, from: QueueSelection, events: &Events) -> Result<usize, SessionError> {
        self.flush_bash(events)?;
        let mut count = 0;
        while let Some(next) = self.queue(from).front().cloned() {
            self.append_tagged(stamped(next.message), next.tag, events)?;
            self.queue(from).pop_front();
            self.emit_queue_update(events);
            count += 1;
            if from == QueueSelection::OneFollowUp {
                break;
            }
        }
        Ok(count)
    }

    /// Adds the commands that the user ran meanwhile.
    pub(crate) fn flush_bash(&mut self, events: &Events) -> Result<(), SessionError> {
        while let Some(bash) = self.bash.front().cloned() {
            self.append(bash, events)?;
            self.bash.pop_front();
        }
        Ok(())
    }

    pub(crate) fn append_tagged(
        &mut self,
        message: AgentMessage,
        tag: Option<String>,
        events: &Events,
    ) -> Result<(), SessionError> {
        let id = self.append(message, events)?;
        if let Some(tag) = tag {
            events.emit(SessionEvent::Injected { tag, entry_id: id.to_string() });
        }
        Ok(())
    }

    fn queue(&mut self, from: QueueSelection) -> &mut VecDeque<Queued> {
        match from {
            QueueSelection::Steering => &mut self.steering,
            QueueSelection::OneFollowUp | QueueSelection::FollowUps => &mut self.follow_up,
        }
    }

    pub(crate) fn enqueue(&mut self, queued: Queued, events: &Events) {
        match queued.queue {
            Queue::Steering => self.steering.push_back(queued),
            Queue::FollowUp => self.follow_up.push_back(queued),
        }
        self.emit_queue_update(events);
    }

    pub(crate) fn take_queued(&mut self, events: &Events) -> Vec<Queued> {
        let all: Vec<Queued> = self.steering.drain(..).chain(self.follow_up.drain(..)).collect();
        if !all.is_empty() {
            self.emit_queue_update(events);
        }
        all
    }

    fn emit_queue_update(&self, events: &Events) {
        events.emit(SessionEvent::QueueUpdate {
            steering: self.steering.len(),
            follow_up: self.follow_up.len(),
        });
    }
}

/// The messages to move into the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueSelection {
    Steering,
    OneFollowUp,
    FollowUps,
}

/// Messages get the time at which the agent receives them, instead of when they were queued.
fn stamped(message: AgentMessage) -> AgentMessage {
    match message {
        AgentMessage::User(mut user) => {
            user.timestamp = now();
            AgentMessage::User(user)
        }
        other => other,
    }
}
