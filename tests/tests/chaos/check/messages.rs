//! Every accepted message is delivered once, pending, uncertain, or cancelled with a reason.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_domain::session::AgentSessionStatus as S;
use pilothouse_domain::{MessageId, SessionEvent};
use serde_json::Value;

use super::Findings;
use super::world::{Session, Spool};
use crate::owner::Asked;
use crate::script::STEERED;

#[derive(Default)]
struct Fate {
    content: String,
    enqueued: Vec<u64>,
    delivered: Vec<u64>,
    cancelled: Vec<u64>,
    uncertain: Vec<u64>,
    open: bool,
}

fn fates(session: &Session) -> BTreeMap<MessageId, Fate> {
    let mut fates: BTreeMap<MessageId, Fate> = BTreeMap::new();
    for (place, event) in session.events() {
        match event {
            SessionEvent::MessageEnqueued { message_id, content, .. } => {
                let fate = fates.entry(*message_id).or_default();
                content.as_str().clone_into(&mut fate.content);
                fate.enqueued.push(place);
            }
            SessionEvent::MessageDelivered { message_id, .. } => {
                fates.entry(*message_id).or_default().delivered.push(place);
            }
            SessionEvent::MessageCancelled { message_id, .. } => {
                fates.entry(*message_id).or_default().cancelled.push(place);
            }
            SessionEvent::MessageUncertain { message_id } => {
                fates.entry(*message_id).or_default().uncertain.push(place);
            }
            _ => {}
        }
    }
    // A failed session keeps both for a retry.
    for message in session.queue.messages().iter().chain(session.queue.pending_injection()) {
        fates.entry(message.message_id).or_default().open = true;
    }
    fates
}

/// The messages of a session that were accepted according to the responses.
fn accepted<'a>(session: &Session, asked: &'a [Asked]) -> impl Iterator<Item = (MessageId, &'a Asked)> {
    let id = session.id();
    let ours = asked
        .iter()
        .filter(move |one| one.function == "messages-enqueue" && one.status == 201 && one.session == id);
    ours.map(|one| (one.body["messageId"].as_str().unwrap().parse().unwrap(), one))
}

/// A message is enqueued once, and then delivered once, cancelled once, or still open.
pub(super) fn each_has_one_fate(session: &Session, asked: &[Asked], found: &mut Findings<'_>) {
    let fates = fates(session);
    for (id, one) in accepted(session, asked) {
        if !fates.contains_key(&id) {
            found.session(
                session,
                None,
                "an accepted message is not in the journal",
                &format!("{id}: {}", one.body),
            );
        }
    }
    for (id, fate) in &fates {
        let ends = fate.delivered.len() + fate.cancelled.len() + usize::from(fate.open);
        if fate.enqueued.len() != 1 || ends != 1 {
            let places = [&fate.delivered, &fate.cancelled, &fate.uncertain, &fate.enqueued];
            let place = places.into_iter().find_map(|all| all.last().copied());
            let what = format!(
                "{id}: enqueued at {:?}, delivered at {:?}, cancelled at {:?}, uncertain at {:?}, open {}",
                fate.enqueued, fate.delivered, fate.cancelled, fate.uncertain, fate.open
            );
            found.session(session, place, "a message does not have exactly one outcome", &what);
        }
    }
}

/// According to the spools, the agent got each message at most once, plus once for each release of an uncertain one by the owner, and
/// answered each at most once.
pub(super) fn none_reaches_the_agent_twice(session: &Session, asked: &[Asked], found: &mut Findings<'_>) {
    let fates = fates(session);
    let heard: Vec<Heard<'_>> = session.spools.iter().map(|spool| Heard::of(spool, &fates)).collect();
    for (id, fate) in &fates {
        let path = format!("/{id}/release");
        let released = asked
            .iter()
            .filter(|one| one.function == "messages-release" && one.status < 300 && one.path.ends_with(&path))
            .count();
        // Counted once per run: a repeated command gets the same acknowledgement again.
        let given = heard.iter().filter(|heard| heard.given(id, fate)).count();
        let begun = session
            .spooled()
            .filter(|s| s.body["type"] == "turn_started" && s.body["messageId"] == id.to_string())
            .count();
        let answered = heard.iter().filter(|heard| heard.answered(id, fate)).count();
        let most = 1 + released;
        let counts = format!(
            "{id}: given {given} times, began {begun} turns, answered {answered} times, released {released} times"
        );
        if given > most || begun > most {
            found.session(session, fate.delivered.last().copied(), "the agent got a message twice", &counts);
        }
        if !fate.delivered.is_empty() && given + begun == 0 && session.removed.is_empty() {
            found.session(
                session,
                fate.delivered.last().copied(),
                "a message counts as delivered but no agent received it",
                &counts,
            );
        }
        if answered > 0 && fate.delivered.is_empty() && fate.cancelled.is_empty() {
            found.session(
                session,
                fate.enqueued.last().copied(),
                "the agent answered a message that does not count as delivered",
                &counts,
            );
        }
    }
    for (spool, heard) in session.spools.iter().zip(&heard) {
        for (text, answers) in &heard.answers {
            let given = heard.injected.get(text).map_or(0, BTreeSet::len);
            if *answers > given {
                let what = format!("run {}: {given} messages, {answers} answers: {text}", spool.run);
                found.session(session, None, "an agent answered more often than it received messages", &what);
            }
        }
    }
}

/// What the agent of one run received during its turns, by text, and how often it answered each text. Pilothouse can send the same text
/// twice, such as the default answer to two questions; these are two messages.
struct Heard<'a> {
    injected: BTreeMap<&'a str, BTreeSet<MessageId>>,
    answers: BTreeMap<&'a str, usize>,
}

impl<'a> Heard<'a> {
    fn of(spool: &'a Spool, fates: &'a BTreeMap<MessageId, Fate>) -> Self {
        let mut heard = Self { injected: BTreeMap::new(), answers: BTreeMap::new() };
        for body in spool.entries.iter().map(|spooled| &spooled.body) {
            let text = |value: &'a Value| value.as_str().unwrap_or_default();
            if body["type"] == "message_ack" && body["phase"] == "injecting" {
                let id = text(&body["messageId"]).parse().unwrap();
                let content = fates.get(&id).map_or("", |fate| fate.content.as_str());
                heard.injected.entry(content).or_default().insert(id);
            }
            if body["type"] == "assistant_message"
                && let Some(answered) = text(&body["content"]["text"]).strip_prefix(STEERED)
            {
                *heard.answers.entry(answered).or_default() += 1;
            }
        }
        heard
    }

    fn given(&self, id: &MessageId, fate: &Fate) -> bool {
        self.injected.get(fate.content.as_str()).is_some_and(|ids| ids.contains(id))
    }

    /// Whether the agent answered this message: its text has as many answers as deliveries.
    fn answered(&self, id: &MessageId, fate: &Fate) -> bool {
        let text = fate.content.as_str();
        let ids = self.injected.get(text).map_or(0, BTreeSet::len);
        self.given(id, fate) && self.answers.get(text).is_some_and(|answers| *answers >= ids)
    }
}

/// No message waits that could be sent, and every sent message belongs to a run.
pub(super) fn none_waits_in_vain(session: &Session, found: &mut Findings<'_>) {
    let s = &session.session;
    for message in session.queue.messages() {
        if message.sent && s.run().is_none() {
            found.session(
                session,
                None,
                "a message counts as sent although there is no run",
                &message.message_id.to_string(),
            );
        }
        // The sidecar of a suspended agent keeps the message until the resume.
        if message.sent && s.run().is_some() && s.status() != S::Paused {
            found.session(
                session,
                None,
                "a sent message was never acknowledged",
                &message.message_id.to_string(),
            );
        }
    }
    let can_go = matches!(s.status(), S::Idle | S::Interrupted)
        && !s.budget().exhausted()
        && session.queue.next_pending().is_some();
    if can_go && s.slot_wanted().is_none() {
        found.session(
            session,
            None,
            "a message waits although it could be sent",
            &session.queue.next_pending().unwrap().message_id.to_string(),
        );
    }
}
