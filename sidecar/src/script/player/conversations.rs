//! The conversations of a scripted agent (S1 5, 9). They do not change what it plays: the agent only records them.

use pilothouse_domain::value::{Adjustment, ConversationTarget};
use pilothouse_domain::{InvalidId, TurnId};
use pilothouse_wire::RawEvent;

use super::{Player, PlayerExit};
use crate::adapter::Refusal;
use crate::kit::notices::notice;
use crate::kit::turn_tree::TurnTree;

/// The name and the summary of the notice, or the reason of a refusal.
type Changed = Result<(&'static str, String), String>;

impl Player {
    /// Carries out an adjustment of the conversations, and publishes the result. Returns a refusal, if any.
    pub(in super::super) async fn change_conversations(
        &mut self,
        adjustment: &Adjustment,
    ) -> Result<Option<Refusal>, PlayerExit> {
        if self.turn.is_some() {
            let why = "the agent is working: conversations change between turns";
            return Ok(Some(Refusal::invalid(why)));
        }
        let mut tree = self.turn_tree()?;
        let changed = match adjustment {
            Adjustment::Fork { before_turn_id } => rewind(&mut tree, before_turn_id),
            Adjustment::NewConversation {} => {
                let number = tree.conversation_count() + 1;
                Ok(begin(&mut tree, &format!("{}-{number}", key(self.state.conversation))))
            }
            Adjustment::SwitchConversation { target } => switch(&mut tree, target),
            Adjustment::LabelTurn { turn_id, label } => {
                set_label(&mut tree, turn_id.as_ref(), label.as_deref())
            }
            other => Err(format!("not a change of conversations: {other:?}")),
        };
        let (name, summary) = match changed {
            Ok(done) => done,
            Err(why) => return Ok(Some(Refusal::invalid(why))),
        };
        let conversations = RawEvent::Conversations(tree.report(str::to_owned));
        self.state.tree = Some(tree);
        self.keep_state().await?;
        self.events.emit_all(vec![notice(name, summary), conversations]).await?;
        Ok(None)
    }

    /// The turns so far. They form one branch until the first change.
    fn turn_tree(&self) -> Result<TurnTree, InvalidId> {
        if let Some(tree) = &self.state.tree {
            return Ok(tree.clone());
        }
        let conversation = self.state.conversation;
        let mut tree = TurnTree::default();
        tree.open(&key(conversation), None);
        for n in 1..=self.state.turns {
            tree.begin(TurnId::parse(format!("turn-{conversation}-{n}"))?, None);
        }
        Ok(tree)
    }

    /// Records the beginning of a turn. Returns the event to publish, if there is more than one branch, or a label.
    pub(super) fn record_turn(&mut self, id: &TurnId) -> Option<RawEvent> {
        let tree = self.state.tree.as_mut()?;
        tree.begin(id.clone(), None);
        tree.has_choice().then(|| RawEvent::Conversations(tree.report(str::to_owned)))
    }
}

fn key(conversation: u32) -> String {
    format!("script-{conversation}")
}

fn rewind(tree: &mut TurnTree, before: &TurnId) -> Changed {
    if tree.before(before).is_none() {
        return Err(format!("this conversation cannot go back to before {before}"));
    }
    tree.rewind(before);
    Ok(("forked", format!("Continues from before {before}")))
}

fn begin(tree: &mut TurnTree, key: &str) -> (&'static str, String) {
    let parent = tree.current().map(str::to_owned);
    tree.open(key, parent.as_deref());
    ("conversation_started", format!("Continues in a new conversation {key}"))
}

fn switch(tree: &mut TurnTree, target: &ConversationTarget) -> Changed {
    match target {
        ConversationTarget::ConversationId(id) => {
            if !tree.has_conversation(id) {
                return Err(format!("this session has no conversation {id}"));
            }
            tree.open(id, None);
        }
        ConversationTarget::TurnId(turn) => {
            if tree.end_of(turn).is_none() {
                return Err(format!("this session has no turn {turn}"));
            }
            tree.continue_after(turn);
        }
    }
    let current = tree.current().unwrap_or_default();
    Ok(("conversation_switched", format!("Continues in the conversation {current}")))
}

fn set_label(tree: &mut TurnTree, turn: Option<&TurnId>, label: Option<&str>) -> Changed {
    let Some(turn) = turn.or(tree.head()).cloned() else {
        return Err("this conversation has no turn yet".into());
    };
    if tree.before(&turn).is_none() {
        return Err(format!("this conversation has no turn {turn}"));
    }
    tree.label(&turn, label.map(str::to_owned));
    Ok(("turn_labelled", format!("{turn} has the label {}", label.unwrap_or("(none)"))))
}
