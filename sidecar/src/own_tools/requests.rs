//! Open requests to the owner: questions and plans, by the id of the asking tool call (decision 26).
//!
//! A tool opens a request and waits, and the adapter passes on the answer from the control plane. Several requests may
//! be open at once. An answer that arrives before its request is kept, because the call is published before the tool
//! runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pilothouse_domain::ToolCallId;
use pilothouse_domain::value::Answer;
use tokio::sync::oneshot;

use crate::adapter::{OwnerAnswers, PlanDecision, Refusal, Reply};
use crate::kit::owner_requests::{Awaits, OwnerReply, OwnerRequests};
use crate::spool::SpoolError;

/// Most answers to keep for tools that have not asked yet.
const MAX_EARLY_ANSWERS: usize = 32;

/// The requests of one agent. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Requests(Arc<Mutex<OwnerRequests<Waiting>>>);

#[derive(Debug)]
enum Waiting {
    Question(oneshot::Sender<OwnerAnswers>),
    /// For permission to run a tool. The answer may change its input.
    Permission(oneshot::Sender<OwnerAnswers>),
    Plan(oneshot::Sender<PlanDecision>),
}

/// The request ended without an answer: the turn was interrupted, or the agent is stopping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request was withdrawn before it was answered")]
pub struct Withdrawn;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// The request needs a plan decision and this is an answer, or the other way round.
    #[error("the request waits for something else")]
    OtherKind,
    /// No tool waits for it, and too many early answers are kept already.
    #[error("no such request is open")]
    NotOpen,
    #[error("the request is not about a tool call whose input can be changed")]
    NotModifiable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// The waiting tool has received it.
    Delivered,
    /// The tool that opens the request gets it immediately.
    Kept,
}

impl Requests {
    fn open(&self) -> MutexGuard<'_, OwnerRequests<Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Dropping the future closes the request.
    pub async fn ask(&self, id: ToolCallId) -> Result<Vec<Answer>, Withdrawn> {
        let (sender, receiver) = oneshot::channel();
        let _closing = {
            let mut open = self.open();
            if let Some(OwnerReply::Answers(owner)) = open.take_early(&id) {
                return Ok(owner.answers);
            }
            open.replace(id.clone(), Awaits::Answers, Waiting::Question(sender));
            Closing { requests: self.clone(), id }
        };
        receiver.await.map(|owner| owner.answers).map_err(|_| Withdrawn)
    }

    /// Opens a request for permission to run the tool of this call.
    pub(crate) fn open_permission(&self, id: ToolCallId) -> OpenRequest {
        self.open_request(id, Waiting::Permission)
    }

    /// Opens a question, which is published afterwards.
    pub(crate) fn open_question(&self, id: ToolCallId) -> OpenRequest {
        self.open_request(id, Waiting::Question)
    }

    fn open_request(
        &self,
        id: ToolCallId,
        waiting: impl FnOnce(oneshot::Sender<OwnerAnswers>) -> Waiting,
    ) -> OpenRequest {
        let (sender, receiver) = oneshot::channel();
        self.open().replace(id.clone(), Awaits::Answers, waiting(sender));
        OpenRequest { receiver, _closing: Closing { requests: self.clone(), id } }
    }

    pub(crate) fn waits_for(&self, id: &ToolCallId) -> bool {
        self.open().waits(id.as_str())
    }

    /// Dropping the future closes the request.
    pub async fn show_plan(&self, id: ToolCallId) -> Result<PlanDecision, Withdrawn> {
        let (sender, receiver) = oneshot::channel();
        let _closing = {
            let mut open = self.open();
            if let Some(OwnerReply::Decision(decision)) = open.take_early(&id) {
                return Ok(decision);
            }
            open.replace(id.clone(), Awaits::Decision, Waiting::Plan(sender));
            Closing { requests: self.clone(), id }
        };
        receiver.await.map_err(|_| Withdrawn)
    }

    pub fn answer(&self, owner: OwnerAnswers) -> Result<Taken, NotTaken> {
        let id = owner.request.clone();
        let mut open = self.open();
        if owner.modified_input.is_some() && !matches!(open.get(&id), Some(Waiting::Permission(_))) {
            return Err(NotTaken::NotModifiable);
        }
        match open.settle(&id, Awaits::Answers) {
            Some(Waiting::Question(sender) | Waiting::Permission(sender)) => {
                delivered(sender.send(owner).is_ok())
            }
            Some(Waiting::Plan(_)) => Err(NotTaken::OtherKind),
            None => keep(&mut open, &id, OwnerReply::Answers(owner)),
        }
    }

    /// Passes an answer on, and replies to its command.
    pub(crate) async fn settle_answer(&self, owner: OwnerAnswers, reply: Reply) -> Result<(), SpoolError> {
        settle(self.answer(owner), reply).await
    }

    pub fn decide(&self, decision: PlanDecision) -> Result<Taken, NotTaken> {
        let id = decision.request.clone();
        let mut open = self.open();
        match open.settle(&id, Awaits::Decision) {
            Some(Waiting::Plan(sender)) => delivered(sender.send(decision).is_ok()),
            Some(Waiting::Question(_) | Waiting::Permission(_)) => Err(NotTaken::OtherKind),
            None => keep(&mut open, &id, OwnerReply::Decision(decision)),
        }
    }

    /// Called when the turn was interrupted or has ended. Waiting tools get [`Withdrawn`].
    pub fn close(&self) {
        self.open().clear();
    }

    pub fn waiting(&self) -> Vec<ToolCallId> {
        self.open().ids().cloned().collect()
    }
}

/// Replies to the command with an answer or a decision.
pub(crate) async fn settle(taken: Result<Taken, NotTaken>, reply: Reply) -> Result<(), SpoolError> {
    match taken {
        Ok(Taken::Delivered | Taken::Kept) => reply.done().await,
        Err(why) => reply.refuse(Refusal::invalid(why.to_string())).await,
    }
}

const fn delivered(was_sent: bool) -> Result<Taken, NotTaken> {
    if was_sent { Ok(Taken::Delivered) } else { Err(NotTaken::NotOpen) }
}

/// Keeps a reply that no request waits for yet.
fn keep(
    requests: &mut OwnerRequests<Waiting>,
    id: &ToolCallId,
    reply: OwnerReply,
) -> Result<Taken, NotTaken> {
    if requests.waits(id.as_str()) {
        return Err(NotTaken::OtherKind);
    }
    if requests.early_len() >= MAX_EARLY_ANSWERS {
        return Err(NotTaken::NotOpen);
    }
    requests.keep_early(id.clone(), reply);
    Ok(Taken::Kept)
}

/// An open request for answers. Dropping it closes the request.
pub(crate) struct OpenRequest {
    receiver: oneshot::Receiver<OwnerAnswers>,
    _closing: Closing,
}

impl OpenRequest {
    pub(crate) async fn answered(self) -> Result<OwnerAnswers, Withdrawn> {
        self.receiver.await.map_err(|_| Withdrawn)
    }
}

/// Closes a request when its future is dropped.
struct Closing {
    requests: Requests,
    id: ToolCallId,
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.requests.open().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ToolCallId {
        ToolCallId::parse(text).unwrap()
    }

    fn answers(text: &str) -> Vec<Answer> {
        vec![Answer { question: "Which?".into(), answer: text.into() }]
    }

    fn owner(call: &str, text: &str) -> OwnerAnswers {
        OwnerAnswers { request: id(call), answers: answers(text), modified_input: None }
    }

    fn decision(call: &str, approved: bool) -> PlanDecision {
        PlanDecision { request: id(call), approved, feedback: None }
    }

    /// Polls `future` until it is pending.
    async fn begun<F: Future>(future: F) -> std::pin::Pin<Box<F>> {
        let mut future = Box::pin(future);
        tokio::select! {
            biased;
            _ = &mut future => panic!("it is over already"),
            () = std::future::ready(()) => {}
        }
        future
    }

    #[tokio::test]
    async fn each_answer_reaches_the_call_that_it_names() {
        let requests = Requests::default();
        let first = begun(requests.ask(id("a"))).await;
        let second = begun(requests.ask(id("b"))).await;
        let plan = begun(requests.show_plan(id("p"))).await;
        assert_eq!(requests.answer(owner("b", "two")), Ok(Taken::Delivered));
        assert_eq!(requests.answer(owner("a", "one")), Ok(Taken::Delivered));
        assert_eq!(requests.decide(decision("p", true)), Ok(Taken::Delivered));
        assert_eq!(first.await, Ok(answers("one")));
        assert_eq!(second.await, Ok(answers("two")));
        assert_eq!(plan.await, Ok(decision("p", true)));
        assert!(requests.waiting().is_empty());
    }

    #[tokio::test]
    async fn answer_of_the_wrong_kind_leaves_the_request_open() {
        let requests = Requests::default();
        let plan = begun(requests.show_plan(id("p"))).await;
        assert_eq!(requests.answer(owner("p", "x")), Err(NotTaken::OtherKind));
        assert_eq!(requests.decide(decision("p", false)), Ok(Taken::Delivered));
        assert_eq!(plan.await, Ok(decision("p", false)));
    }

    #[tokio::test]
    async fn early_answer_is_kept_for_its_question() {
        let requests = Requests::default();
        assert_eq!(requests.answer(owner("a", "early")), Ok(Taken::Kept));
        assert_eq!(requests.ask(id("a")).await, Ok(answers("early")));
        for n in 0..MAX_EARLY_ANSWERS {
            assert_eq!(requests.answer(owner(&n.to_string(), "x")), Ok(Taken::Kept));
        }
        assert_eq!(requests.answer(owner("too many", "x")), Err(NotTaken::NotOpen));
    }

    #[tokio::test]
    async fn only_a_permission_takes_another_input() {
        let requests = Requests::default();
        let changed = |call: &str| {
            let modified_input = Some(Box::new(serde_json::json!({ "command": "ls" })));
            OwnerAnswers { modified_input, ..owner(call, "Allow") }
        };
        let question = begun(requests.ask(id("q"))).await;
        let permission = requests.open_permission(id("p"));
        assert_eq!(requests.answer(changed("q")), Err(NotTaken::NotModifiable));
        assert_eq!(requests.answer(changed("unknown")), Err(NotTaken::NotModifiable));
        assert_eq!(requests.answer(changed("p")), Ok(Taken::Delivered));
        assert_eq!(permission.answered().await, Ok(changed("p")));
        assert_eq!(requests.answer(owner("q", "Red")), Ok(Taken::Delivered), "it is still open");
        assert_eq!(question.await, Ok(answers("Red")));
        drop(requests.open_permission(id("p")));
        assert!(requests.waiting().is_empty());
    }

    #[tokio::test]
    async fn interrupt_withdraws_open_requests_and_early_answers() {
        let requests = Requests::default();
        let question = begun(requests.ask(id("a"))).await;
        requests.answer(owner("later", "early")).unwrap();
        requests.close();
        assert_eq!(question.await, Err(Withdrawn));
        let later = begun(requests.ask(id("later"))).await;
        drop(later);
        assert!(requests.waiting().is_empty(), "who no longer waits has no request");
    }
}
