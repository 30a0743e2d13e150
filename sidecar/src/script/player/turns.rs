//! Begins and ends turns, in the program and while it plays.

use pilothouse_domain::TurnId;
use pilothouse_wire::RawEvent;

use super::{Player, PlayerExit, Start, Turn};
use crate::script::program::{Body, Instruction};

impl Player {
    pub(super) async fn begin_turn(&mut self, id: TurnId, inserted: bool) -> Result<(), PlayerExit> {
        let message = match std::mem::replace(&mut self.start, Start::Free) {
            Start::Message(message) => Some(*message),
            Start::Prompt => None,
            Start::Free | Start::Needed => self.next_held().await?,
        };
        self.turn = Some(Turn { id: id.clone(), inserted, output: None });
        self.steered = 0;
        let message_id = message.as_ref().map(|(message, _)| message.id);
        let conversations = self.record_turn(&id);
        let mut events = vec![RawEvent::TurnStarted { turn_id: id, message_id }];
        events.extend(conversations);
        let Some((message, mut reply)) = message else {
            return Ok(self.events.emit_all(events).await?);
        };
        self.last_images = self.images.load(&message.images, &self.events).await?;
        reply.injecting().await?;
        self.last_message = message.content;
        self.events.emit_all(events).await?;
        Ok(reply.injected().await?)
    }

    pub(super) async fn insert_reaction(&mut self) -> Result<(), PlayerExit> {
        self.state.inserted += 1;
        let prefix = format!("{}-m{}", self.state.conversation, self.state.inserted);
        self.inserted.push_back(Instruction::TurnStart { inserted: true });
        self.inserted.extend(self.source.reaction(&prefix, self.authorizer.is_some())?);
        self.inserted.push_back(Instruction::TurnEnd);
        self.keep_state().await
    }

    /// Ends the turn without `turn_completed`, and returns its id. Its rest is skipped, and a message begins the next
    /// turn.
    pub(in super::super) async fn drop_turn(&mut self) -> Result<Option<TurnId>, PlayerExit> {
        let Some(turn) = self.turn.take() else { return Ok(None) };
        self.inserted.clear();
        (self.awaited, self.settled, self.start) = (None, None, Start::Needed);
        if !turn.inserted {
            let rest = self.program.iter().skip(self.state.position);
            let left = rest.take_while(|i| !ends_turn(i)).count() + 1;
            self.advance((self.state.position + left).min(self.program.len())).await?;
        }
        Ok(Some(turn.id))
    }

    pub(in super::super) fn turn_id(&self) -> Option<TurnId> {
        self.turn.as_ref().map(|turn| turn.id.clone())
    }
}

pub(super) fn changes_turn(event: &RawEvent) -> bool {
    matches!(event, RawEvent::TurnStarted { .. } | RawEvent::TurnCompleted { .. } | RawEvent::SessionEnd(_))
}

fn events_of(instruction: &Instruction) -> &[RawEvent] {
    match instruction {
        Instruction::EmitAll(events) => events,
        Instruction::Emit(Body::Event(event), _) => std::slice::from_ref(event),
        _ => &[],
    }
}

fn starts_turn(instruction: &Instruction) -> bool {
    matches!(instruction, Instruction::TurnStart { .. })
        || events_of(instruction).iter().any(|event| matches!(event, RawEvent::TurnStarted { .. }))
}

fn ends_turn(instruction: &Instruction) -> bool {
    matches!(instruction, Instruction::TurnEnd)
        || events_of(instruction).iter().any(|event| matches!(event, RawEvent::TurnCompleted { .. }))
}

/// After this instruction, no state can be saved.
pub(super) fn ends_agent(instruction: &Instruction) -> bool {
    matches!(instruction, Instruction::Crash(_) | Instruction::End(_))
        || events_of(instruction).iter().any(|event| matches!(event, RawEvent::SessionEnd(_)))
}

/// The position of the instruction that begins the turn around `position`.
pub(super) fn enclosing_turn(program: &[Instruction], position: usize) -> Option<usize> {
    let done = &program[..position.min(program.len())];
    let last = done.iter().rposition(|i| starts_turn(i) || ends_turn(i))?;
    (!ends_turn(&done[last])).then_some(last)
}
