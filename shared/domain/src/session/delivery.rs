//! Work under way between control plane and agent (decisions 17, 29): the turn, sent messages and deferred facts.

use serde::{Deserialize, Serialize};

use super::open_tools::{EndedToolCalls, OpenToolCalls};
use super::validation::BetweenTurns;
use super::{AgentFact, AgentSession, AgentSessionStatus, Turn};
use crate::{
    CommandId, CommandRef, DomainContext, Events, MessageId, RunId, SessionEvent, Timestamp, ToolCallId,
};

/// The state of the delivery to the agent, and of what it reports.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Delivery {
    turn: TurnState,
    in_flight: Vec<InFlight>,
    deferred: Vec<AgentFact>,
    #[serde(rename = "openToolCalls")]
    pub(super) tools: OpenToolCalls,
    #[serde(rename = "endedToolCalls", default, skip_serializing_if = "EndedToolCalls::is_empty")]
    pub(super) ended_tools: EndedToolCalls,
}

/// Whether a turn is running. Between two turns, none is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) enum TurnState {
    #[default]
    None,
    Open(Turn),
    Between(BetweenTurns),
}

/// What the deferred facts say about the latest turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TurnEnd {
    Open,
    Over,
}

/// A message that was sent and that the agent does not have yet (decision 29).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InFlight {
    pub(crate) message_id: MessageId,
    pub(crate) run_id: RunId,
    pub(crate) command_id: CommandId,
    pub(crate) step: InFlightStep,
    pub(crate) attempt: u8,
    pub(crate) sent_at: Timestamp,
    pub(crate) received: bool,
}

/// Delivery progress of a sent message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum InFlightStep {
    Sent,
    Injecting,
    Injected,
}

impl Delivery {
    pub(super) const fn turn(&self) -> Option<&Turn> {
        match &self.turn {
            TurnState::Open(turn) => Some(turn),
            TurnState::None | TurnState::Between(_) => None,
        }
    }

    pub(super) const fn between_turns(&self) -> Option<&BetweenTurns> {
        match &self.turn {
            TurnState::Between(between) => Some(between),
            TurnState::None | TurnState::Open(_) => None,
        }
    }

    pub(super) const fn between_turns_mut(&mut self) -> Option<&mut BetweenTurns> {
        match &mut self.turn {
            TurnState::Between(between) => Some(between),
            TurnState::None | TurnState::Open(_) => None,
        }
    }

    pub(super) fn open_turn(&mut self, turn: Turn) {
        self.turn = TurnState::Open(turn);
    }

    /// Closes the open turn. The time between two turns continues.
    pub(super) fn close_turn(&mut self) {
        if self.turn().is_some() {
            self.turn = TurnState::None;
        }
    }

    pub(super) fn enter_between_turns(&mut self, between: BetweenTurns) {
        self.turn = TurnState::Between(between);
    }

    /// Leaves the time between two turns. An open turn stays open.
    pub(super) fn leave_between_turns(&mut self) -> Option<BetweenTurns> {
        match std::mem::take(&mut self.turn) {
            TurnState::Between(between) => Some(between),
            other => {
                self.turn = other;
                None
            }
        }
    }

    pub(super) fn end_turns(&mut self) {
        self.turn = TurnState::None;
    }
}

impl Delivery {
    pub(super) fn in_flight(&self) -> &[InFlight] {
        &self.in_flight
    }

    pub(super) fn record_sent(&mut self, message: InFlight) {
        self.in_flight.push(message);
    }

    pub(super) fn record_received(&mut self, command: CommandId) {
        if let Some(message) = self.in_flight.iter_mut().find(|m| m.command_id == command) {
            message.received = true;
        }
    }

    pub(super) fn record_injecting(&mut self, id: MessageId) {
        let sent = |m: &&mut InFlight| m.message_id == id && m.step == InFlightStep::Sent;
        if let Some(sent) = self.in_flight.iter_mut().find(sent) {
            sent.step = InFlightStep::Injecting;
        }
    }

    /// Records that the agent has a message. If it joined a running turn, its delivery is complete.
    pub(super) fn record_injected(&mut self, id: MessageId, joined_turn: bool) {
        self.in_flight.retain_mut(|m| {
            if m.message_id != id {
                return true;
            }
            m.step = InFlightStep::Injected;
            !joined_turn
        });
    }

    /// Forgets the messages that the agent has, at the end of a turn or when the turn of `message` starts.
    pub(super) fn forget_injected(&mut self, message: Option<MessageId>) {
        self.in_flight.retain(|m| Some(m.message_id) != message && m.step != InFlightStep::Injected);
    }

    pub(super) fn take_of_command(&mut self, command: CommandId) -> Option<MessageId> {
        let at = self.in_flight.iter().position(|m| m.command_id == command)?;
        Some(self.in_flight.remove(at).message_id)
    }

    pub(super) fn take_of_run(&mut self, run: RunId) -> Vec<InFlight> {
        let (gone, kept) = std::mem::take(&mut self.in_flight).into_iter().partition(|m| m.run_id == run);
        self.in_flight = kept;
        gone
    }

    pub(super) fn forget_in_flight(&mut self) {
        self.in_flight.clear();
    }

    /// The message that has waited longest for its `received`.
    pub(super) fn oldest_unacknowledged(&self) -> Option<&InFlight> {
        self.in_flight
            .iter()
            .filter(|m| !m.received && m.step == InFlightStep::Sent)
            .min_by_key(|m| m.sent_at)
    }

    /// Sends the message that has waited longest for its `received` once more; `None` if it was sent twice before.
    pub(super) fn resend_unacknowledged(&mut self, now: Timestamp) -> Option<SessionEvent> {
        let id = self.oldest_unacknowledged()?.message_id;
        let message = self.in_flight.iter_mut().find(|m| m.message_id == id && m.attempt < 2)?;
        message.attempt += 1;
        message.sent_at = now;
        let command =
            CommandRef { command_id: message.command_id, run_id: message.run_id, attempt: message.attempt };
        Some(SessionEvent::MessageDispatched { message_id: message.message_id, command })
    }
}

/// Facts that wait until a request is resolved (decision 17).
impl Delivery {
    /// Most bytes of deferred facts. They are part of the session's item.
    const MAX_DEFERRED_BYTES: usize = 128 * 1024;

    pub(super) const fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Defers a fact. Gives a request back for which there is no place: it can be denied. Other facts are small.
    pub(super) fn defer(&mut self, fact: AgentFact) -> Result<(), Box<AgentFact>> {
        let is_request = matches!(fact, AgentFact::QuestionAsked { .. } | AgentFact::PlanShown { .. });
        let bytes = || serde_json::to_vec(&(&self.deferred, &fact)).map_or(usize::MAX, |json| json.len());
        if is_request && bytes() > Self::MAX_DEFERRED_BYTES {
            return Err(Box::new(fact));
        }
        self.deferred.push(fact);
        Ok(())
    }

    /// Defers facts before the others, because they happened first.
    pub(super) fn defer_first(&mut self, facts: Vec<AgentFact>) {
        self.deferred.splice(0..0, facts);
    }

    pub(super) fn next_deferred(&mut self) -> Option<AgentFact> {
        if self.deferred.is_empty() { None } else { Some(self.deferred.remove(0)) }
    }

    /// Takes the first deferred fact that `fits`.
    pub(super) fn take_deferred(&mut self, fits: impl Fn(&AgentFact) -> bool) -> Option<AgentFact> {
        let at = self.deferred.iter().position(fits)?;
        Some(self.deferred.remove(at))
    }

    pub(super) fn take_all_deferred(&mut self) -> Vec<AgentFact> {
        std::mem::take(&mut self.deferred)
    }

    pub(super) fn forget_deferred(&mut self) {
        self.deferred.clear();
    }

    /// Returns whether there was one.
    pub(super) fn drop_deferred_request(&mut self, call: &ToolCallId) -> bool {
        let before = self.deferred.len();
        self.deferred.retain(|fact| {
            !matches!(fact, AgentFact::QuestionAsked { request, .. } | AgentFact::PlanShown { request, .. } if request == call)
        });
        self.deferred.len() != before
    }

    /// Whether the last deferred fact about turns is an end: the turn was over when the request came.
    pub(super) fn is_turn_end_deferred(&self) -> bool {
        self.deferred_turn_state() == Some(TurnEnd::Over)
    }

    /// Whether the last deferred fact about turns is a start, or a loss after one.
    pub(super) fn is_turn_open_by_deferred(&self) -> bool {
        self.deferred_turn_state() == Some(TurnEnd::Open)
    }

    fn deferred_turn_state(&self) -> Option<TurnEnd> {
        self.deferred.iter().rev().find_map(|fact| match fact {
            AgentFact::TurnCompleted { .. } | AgentFact::SessionEnded { is_error: false, .. } => {
                Some(TurnEnd::Over)
            }
            AgentFact::TurnStarted { .. } | AgentFact::TurnLost => Some(TurnEnd::Open),
            _ => None,
        })
    }

    /// The process ended while the session is paused: its deferred requests have ended, and its turn was lost. That includes a turn that
    /// had not started yet, because an agent confirms a pause also while it starts.
    pub(super) fn lose_turn(&mut self) -> Events {
        let open =
            self.deferred_turn_state().map_or(self.between_turns().is_none(), |end| end == TurnEnd::Open);
        if self.deferred.iter().any(|fact| matches!(fact, AgentFact::TurnStarted { .. })) {
            // That turn was the next one.
            self.leave_between_turns();
        }
        let mut events = Events::new();
        self.deferred.retain(|fact| match fact {
            AgentFact::QuestionAsked { request, .. } | AgentFact::PlanShown { request, .. } => {
                events.push(SessionEvent::RequestClosed { request_id: request.clone() });
                false
            }
            AgentFact::TurnStarted { .. } | AgentFact::TurnLost => false,
            _ => true,
        });
        self.close_turn();
        if open {
            self.deferred.push(AgentFact::TurnLost);
        }
        events
    }

    /// Whether a fact ends the latest turn. The end of a turn that was replaced does not.
    pub(super) fn is_end_of_latest_turn(&self, fact: &AgentFact) -> bool {
        let waiting = self.deferred.iter().rev().find_map(|fact| match fact {
            AgentFact::TurnStarted { turn, .. } => Some(turn),
            _ => None,
        });
        match fact {
            AgentFact::TurnCompleted { turn, .. } => {
                waiting.or(self.turn().map(|open| &open.id)).is_none_or(|latest| latest == turn)
            }
            AgentFact::SessionEnded { .. } => true,
            _ => false,
        }
    }
}

/// Delivery of a session, for the conversation that it belongs to.
impl AgentSession {
    pub(crate) const fn record_activity(&mut self, ctx: &DomainContext<'_>) {
        self.updated_at = ctx.now;
    }

    pub(crate) const fn has_deferred(&self) -> bool {
        self.delivery.has_deferred()
    }

    pub(crate) fn defer(&mut self, fact: AgentFact) -> Result<(), Box<AgentFact>> {
        self.delivery.defer(fact)
    }

    pub(crate) fn next_deferred(&mut self) -> Option<AgentFact> {
        self.delivery.next_deferred()
    }

    pub(crate) fn is_end_of_latest_turn(&self, fact: &AgentFact) -> bool {
        self.delivery.is_end_of_latest_turn(fact)
    }

    pub(crate) fn in_flight(&self) -> &[InFlight] {
        self.delivery.in_flight()
    }

    pub(crate) fn sent(&mut self, message: InFlight) {
        self.delivery.record_sent(message);
    }

    pub(crate) fn message_injecting(&mut self, id: MessageId) {
        self.delivery.record_injecting(id);
    }

    pub(crate) fn message_injected(&mut self, id: MessageId) {
        // In an open turn the delivery is complete. Otherwise the message's own turn is about to start.
        let joined_turn = (self.status() == AgentSessionStatus::Running && !self.is_between_turns())
            || (self.turn().is_some() && !self.delivery.is_turn_end_deferred());
        self.delivery.record_injected(id, joined_turn);
    }

    pub(crate) fn take_in_flight_of(&mut self, command: CommandId) -> Option<MessageId> {
        self.delivery.take_of_command(command)
    }

    pub(crate) fn take_in_flight(&mut self, run: RunId) -> Vec<InFlight> {
        self.delivery.take_of_run(run)
    }

    pub(crate) fn forget_in_flight(&mut self) {
        self.delivery.forget_in_flight();
    }
}
