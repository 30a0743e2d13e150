//! Conversations of the session (S1 5, 9): rewind, begin, switch and label. Only possible between turns.

use pilothouse_agent::meter::Meters;
use pilothouse_agent::session::AgentState;
use pilothouse_domain::TurnId;
use pilothouse_domain::value::{Adjustment, ConversationTarget};
use pilothouse_wire::RawEvent;
use serde_json::json;

use super::driver::Driver;
use super::usage::dollars;
use crate::kit::notices::detailed_notice;
use crate::kit::turns::DriverExit;

/// The inner error is a sentence for people: the reason of a refusal.
type Changed<T = ()> = Result<Result<T, String>, DriverExit>;

impl Driver {
    /// Carries out an adjustment of the conversations, and publishes the result.
    pub(super) async fn change_conversations(&mut self, adjustment: &Adjustment) -> Changed {
        if self.turn.is_some() || self.work.is_some() || !self.compacting.is_empty() {
            return Ok(Err("the agent is working: conversations change between turns".into()));
        }
        let changed = match adjustment {
            Adjustment::Fork { before_turn_id } => self.fork(before_turn_id)?,
            Adjustment::NewConversation {} => self.new_conversation()?,
            Adjustment::SwitchConversation { target } => self.switch_conversation(target)?,
            Adjustment::LabelTurn { turn_id, label } => {
                self.label_turn(turn_id.as_ref(), label.as_deref())?
            }
            other => Err(format!("not a change of conversations: {other:?}")),
        };
        let notice = match changed {
            Ok(notice) => notice,
            Err(why) => return Ok(Err(why)),
        };
        let settings = self.setup.settings(self.session()?);
        let conversations = self.saved_state.conversations_event();
        self.events.emit_all(vec![notice, settings, conversations]).await?;
        Ok(Ok(()))
    }

    /// Continues before a turn, on a new branch.
    fn fork(&mut self, turn: &TurnId) -> Changed<RawEvent> {
        let Some(after) = self.saved_state.before(turn).map(|entry| entry.map(str::to_owned)) else {
            return Ok(Err(format!("this conversation has no turn {turn}")));
        };
        let session = self.session()?;
        let last = session.state().leaf;
        if let Err(error) = session.branch(after.as_deref()) {
            return Ok(Err(error.to_string()));
        }
        self.saved_state.leave(last);
        self.saved_state.rewind(turn)?;
        let summary = format!("the conversation continues from before the turn {turn}");
        Ok(Ok(detailed_notice("conversation_forked", summary, json!({ "beforeTurnId": turn }))))
    }

    fn new_conversation(&mut self) -> Changed<RawEvent> {
        let session = self.session()?.clone();
        let before = session.state();
        let id = match session.new_session(Some(&before.session_id)) {
            Ok(id) => id,
            Err(error) => return Ok(Err(error.to_string())),
        };
        self.entered_conversation(before)?;
        let summary = format!("the agent continues in a new conversation {id}");
        Ok(Ok(detailed_notice("conversation_started", summary, json!({ "conversationId": id }))))
    }

    fn switch_conversation(&mut self, target: &ConversationTarget) -> Changed<RawEvent> {
        let place = match self.saved_state.place(target) {
            Ok(place) => place,
            Err(why) => return Ok(Err(why)),
        };
        let session = self.session()?.clone();
        let before = session.state();
        let id = match session.switch_session(&place.conversation_id()) {
            Ok(id) => id,
            Err(error) => return Ok(Err(error.to_string())),
        };
        self.entered_conversation(before)?;
        let mut summary = format!("the agent continues in the conversation {id}");
        if let ConversationTarget::TurnId(turn) = target {
            if let Some(entry) = &place.entry {
                let last = session.state().leaf;
                if let Err(error) = session.branch(Some(entry)) {
                    return Ok(Err(error.to_string()));
                }
                self.saved_state.leave(last);
            }
            self.saved_state.continue_after(turn)?;
            summary = format!("{summary}, after the turn {turn}");
        }
        Ok(Ok(detailed_notice("conversation_switched", summary, json!({ "conversationId": id }))))
    }

    /// Labels the last entry of a turn. The agent writes labels into its current conversation only.
    fn label_turn(&mut self, turn: Option<&TurnId>, label: Option<&str>) -> Changed<RawEvent> {
        let Some(turn) = turn.or(self.saved_state.latest_turn()).cloned() else {
            return Ok(Err("this conversation has no turn yet".into()));
        };
        let place = match self.saved_state.place(&ConversationTarget::TurnId(turn.clone())) {
            Ok(place) => place,
            Err(why) => return Ok(Err(why)),
        };
        let session = self.session()?.clone();
        let state = session.state();
        if place.file != state.file {
            return Ok(Err(format!("the turn {turn} is part of another conversation: switch to it first")));
        }
        let Some(entry) = place.entry.or(state.leaf) else {
            return Ok(Err("this conversation is empty".into()));
        };
        if let Err(error) = session.label(&entry, label) {
            return Ok(Err(error.to_string()));
        }
        self.saved_state.label(&turn, label.map(str::to_owned))?;
        let summary = match label {
            Some(label) => format!("the turn {turn} has the label {label}"),
            None => format!("the turn {turn} has no label any more"),
        };
        let detail = json!({ "turnId": turn, "label": label });
        Ok(Ok(detailed_notice("turn_labelled", summary, detail)))
    }

    /// Records that the agent has left a conversation for the present one. Costs count for each conversation.
    fn entered_conversation(&mut self, left: AgentState) -> Result<(), DriverExit> {
        let now = self.session()?.state();
        self.saved_state.leave(left.leaf);
        if now.file == left.file {
            return Ok(());
        }
        self.saved_state.change_conversation(&now.file)?;
        let cost = |meters: &Meters| dollars(meters.total().cost_usd);
        self.allowance.carry_over(cost(&left.meters), cost(&now.meters));
        self.document_due = false;
        Ok(())
    }
}
