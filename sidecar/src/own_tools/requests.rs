//! What waits for the owner: questions and plans, by the id of the tool call that asked (ruling 26).
//!
//! A tool opens a request and waits; the adapter hands it the answer that the control plane sends. Several may be open at
//! once. An answer can be faster than the tool that asks: the call is told before its turn comes. It is kept until then.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pilothouse_domain::ToolCallId;
use pilothouse_domain::value::Answer;
use tokio::sync::oneshot;

use crate::adapter::PlanDecision;

/// The most answers that are kept for tools that have not asked yet.
const MOST_EARLY: usize = 32;

/// The requests of one agent. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Requests(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    waiting: HashMap<ToolCallId, Waiting>,
    early: HashMap<ToolCallId, Reply>,
}

#[derive(Debug)]
enum Waiting {
    Question(oneshot::Sender<Vec<Answer>>),
    Plan(oneshot::Sender<PlanDecision>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Reply {
    Answers(Vec<Answer>),
    Decision(PlanDecision),
}

/// The request is over without an answer: the turn was interrupted, or the agent is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request was withdrawn before it was answered")]
pub struct Withdrawn;

/// Why an answer is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// A plan was shown, and this is no decision; or the other way round.
    #[error("the request waits for something else")]
    OtherKind,
    /// Nothing waits for it, and too many such answers came already.
    #[error("no such request is open")]
    NotOpen,
}

/// How far an answer got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// The tool that waited has it.
    Delivered,
    /// No tool waits for it yet; the one that opens the request gets it at once.
    Kept,
}

impl Requests {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the owner and waits for the answers. Dropped, the request is closed.
    pub async fn ask(&self, id: ToolCallId) -> Result<Vec<Answer>, Withdrawn> {
        let (sender, receiver) = oneshot::channel();
        let _closing = {
            let mut open = self.open();
            if let Some(Reply::Answers(answers)) = open.early.remove(&id) {
                return Ok(answers);
            }
            open.waiting.insert(id.clone(), Waiting::Question(sender));
            Closing { requests: self, id }
        };
        receiver.await.map_err(|_| Withdrawn)
    }

    /// Shows the owner a plan and waits for the decision. Dropped, the request is closed.
    pub async fn show_plan(&self, id: ToolCallId) -> Result<PlanDecision, Withdrawn> {
        let (sender, receiver) = oneshot::channel();
        let _closing = {
            let mut open = self.open();
            if let Some(Reply::Decision(decision)) = open.early.remove(&id) {
                return Ok(decision);
            }
            open.waiting.insert(id.clone(), Waiting::Plan(sender));
            Closing { requests: self, id }
        };
        receiver.await.map_err(|_| Withdrawn)
    }

    /// The owner answered.
    pub fn answer(&self, id: &ToolCallId, answers: Vec<Answer>) -> Result<Taken, NotTaken> {
        let mut open = self.open();
        match open.waiting.remove(id) {
            Some(Waiting::Question(sender)) => match sender.send(answers) {
                Ok(()) => Ok(Taken::Delivered),
                Err(_) => Err(NotTaken::NotOpen),
            },
            Some(other) => {
                open.waiting.insert(id.clone(), other);
                Err(NotTaken::OtherKind)
            }
            None => open.keep(id, Reply::Answers(answers)),
        }
    }

    /// The owner decided on a plan.
    pub fn decide(&self, decision: PlanDecision) -> Result<Taken, NotTaken> {
        let id = decision.request.clone();
        let mut open = self.open();
        match open.waiting.remove(&id) {
            Some(Waiting::Plan(sender)) => match sender.send(decision) {
                Ok(()) => Ok(Taken::Delivered),
                Err(_) => Err(NotTaken::NotOpen),
            },
            Some(other) => {
                open.waiting.insert(id, other);
                Err(NotTaken::OtherKind)
            }
            None => open.keep(&id, Reply::Decision(decision)),
        }
    }

    /// Closes all of them: the turn was interrupted or has ended. Whoever waits hears [`Withdrawn`].
    pub fn close(&self) {
        let mut open = self.open();
        open.waiting.clear();
        open.early.clear();
    }

    /// Those that wait now.
    pub fn waiting(&self) -> Vec<ToolCallId> {
        self.open().waiting.keys().cloned().collect()
    }
}

impl Open {
    fn keep(&mut self, id: &ToolCallId, reply: Reply) -> Result<Taken, NotTaken> {
        if self.early.len() >= MOST_EARLY {
            return Err(NotTaken::NotOpen);
        }
        self.early.insert(id.clone(), reply);
        Ok(Taken::Kept)
    }
}

/// Forgets a request when whoever waits for it is gone.
struct Closing<'a> {
    requests: &'a Requests,
    id: ToolCallId,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.requests.open().waiting.remove(&self.id);
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

    fn decision(call: &str, approved: bool) -> PlanDecision {
        PlanDecision { request: id(call), approved, feedback: None }
    }

    /// Polls `future` until it waits.
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
        assert_eq!(requests.answer(&id("b"), answers("two")), Ok(Taken::Delivered));
        assert_eq!(requests.answer(&id("a"), answers("one")), Ok(Taken::Delivered));
        assert_eq!(requests.decide(decision("p", true)), Ok(Taken::Delivered));
        assert_eq!(first.await, Ok(answers("one")));
        assert_eq!(second.await, Ok(answers("two")));
        assert_eq!(plan.await, Ok(decision("p", true)));
        assert!(requests.waiting().is_empty());
    }

    #[tokio::test]
    async fn an_answer_of_the_other_kind_is_not_taken_and_the_request_goes_on_waiting() {
        let requests = Requests::default();
        let plan = begun(requests.show_plan(id("p"))).await;
        assert_eq!(requests.answer(&id("p"), answers("x")), Err(NotTaken::OtherKind));
        assert_eq!(requests.decide(decision("p", false)), Ok(Taken::Delivered));
        assert_eq!(plan.await, Ok(decision("p", false)));
    }

    #[tokio::test]
    async fn an_answer_that_comes_before_the_question_is_kept_for_it() {
        let requests = Requests::default();
        assert_eq!(requests.answer(&id("a"), answers("early")), Ok(Taken::Kept));
        assert_eq!(requests.ask(id("a")).await, Ok(answers("early")));
        for n in 0..MOST_EARLY {
            assert_eq!(requests.answer(&id(&n.to_string()), answers("x")), Ok(Taken::Kept));
        }
        assert_eq!(requests.answer(&id("too many"), answers("x")), Err(NotTaken::NotOpen));
    }

    #[tokio::test]
    async fn an_interrupt_withdraws_what_waits_and_forgets_what_was_kept() {
        let requests = Requests::default();
        let question = begun(requests.ask(id("a"))).await;
        requests.answer(&id("later"), answers("early")).unwrap();
        requests.close();
        assert_eq!(question.await, Err(Withdrawn));
        let later = begun(requests.ask(id("later"))).await;
        drop(later);
        assert!(requests.waiting().is_empty(), "who no longer waits has no request");
    }
}
