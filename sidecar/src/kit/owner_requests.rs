//! Requests of an agent that wait for the owner, by the id of the asking tool call (decision 26). Several may be open
//! at once. An answer that arrives before its request is kept, because the call is published first.

use std::collections::HashMap;

use pilothouse_domain::ToolCallId;
use pilothouse_domain::value::{Question, QuestionOption};

use crate::adapter::{OwnerAnswers, PlanDecision};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OwnerReply {
    Answers(OwnerAnswers),
    Decision(PlanDecision),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaits {
    Answers,
    Decision,
}

#[derive(Debug)]
struct Open<R> {
    id: ToolCallId,
    awaits: Awaits,
    request: R,
}

/// The open requests of one agent, and early replies.
#[derive(Debug)]
pub(crate) struct OwnerRequests<R> {
    open: Vec<Open<R>>,
    early: HashMap<ToolCallId, OwnerReply>,
}

impl<R> Default for OwnerRequests<R> {
    fn default() -> Self {
        Self { open: Vec::new(), early: HashMap::new() }
    }
}

impl<R> OwnerRequests<R> {
    pub(crate) fn open(&mut self, id: ToolCallId, awaits: Awaits, request: R) {
        self.open.push(Open { id, awaits, request });
    }

    /// Returns the replaced request, which the agent has given up.
    pub(crate) fn replace(&mut self, id: ToolCallId, awaits: Awaits, request: R) -> Option<R> {
        let before = self.open.iter().position(|open| open.id == id);
        let before = before.map(|at| self.open.remove(at).request);
        self.open(id, awaits, request);
        before
    }

    /// Removes the request that a reply settles. `None` if no request with this id waits for this kind of reply.
    pub(crate) fn settle(&mut self, id: &ToolCallId, awaits: Awaits) -> Option<R> {
        let at = self.open.iter().position(|open| open.id == *id && open.awaits == awaits)?;
        Some(self.open.remove(at).request)
    }

    pub(crate) fn get(&self, id: &ToolCallId) -> Option<&R> {
        self.open.iter().find(|open| open.id == *id).map(|open| &open.request)
    }

    pub(crate) fn waits(&self, id: &str) -> bool {
        self.open.iter().any(|open| open.id.as_str() == id)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &ToolCallId> {
        self.open.iter().map(|open| &open.id)
    }

    pub(crate) fn remove(&mut self, id: &ToolCallId) {
        self.open.retain(|open| open.id != *id);
    }

    /// Removes the requests for which `is_kept` is false.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&R) -> bool) {
        self.open.retain(|open| is_kept(&open.request));
    }

    /// Keeps a reply for a request that has not arrived yet.
    pub(crate) fn keep_early(&mut self, id: ToolCallId, reply: OwnerReply) {
        self.early.insert(id, reply);
    }

    pub(crate) fn take_early(&mut self, id: &ToolCallId) -> Option<OwnerReply> {
        self.early.remove(id)
    }

    pub(crate) fn early_len(&self) -> usize {
        self.early.len()
    }

    /// Called when the turn or the agent has ended. Returns the open requests.
    pub(crate) fn clear(&mut self) -> Vec<R> {
        self.early.clear();
        std::mem::take(&mut self.open).into_iter().map(|open| open.request).collect()
    }
}

/// The question to the owner for permission to use a tool.
pub(crate) fn permission_question(question: String, options: Vec<QuestionOption>) -> Question {
    Question { question, header: Some("Permission".into()), options, multi_select: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ToolCallId {
        ToolCallId::parse(text).unwrap()
    }

    #[test]
    fn reply_settles_only_a_request_of_its_kind() {
        let mut requests = OwnerRequests::default();
        requests.open(id("p"), Awaits::Decision, 1);
        assert_eq!(requests.settle(&id("p"), Awaits::Answers), None);
        assert_eq!(requests.replace(id("p"), Awaits::Decision, 2), Some(1), "the agent asks again");
        assert!(requests.waits("p") && !requests.waits("q"));
        assert_eq!(requests.settle(&id("p"), Awaits::Decision), Some(2));
        assert!(!requests.waits("p"));
    }

    #[test]
    fn early_reply_is_kept_until_the_turn_ends() {
        let mut requests = OwnerRequests::<u8>::default();
        let answers = OwnerAnswers { request: id("a"), answers: Vec::new(), modified_input: None };
        let reply = OwnerReply::Answers(answers);
        requests.keep_early(id("a"), reply.clone());
        assert_eq!(
            (requests.take_early(&id("a")), requests.take_early(&id("a"))),
            (Some(reply.clone()), None)
        );
        requests.keep_early(id("a"), reply);
        assert!(requests.clear().is_empty());
        assert_eq!(requests.early_len(), 0);
    }
}
