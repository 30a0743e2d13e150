//! Price bounds before a call and cost after it (decisions 31, 32).

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use pilothouse_agent::event::{AgentOutcome, SessionEvent};
use pilothouse_agent::governor::{CallPurpose, Governor, ModelCall, Verdict};
use pilothouse_agent::message::Usage;
use pilothouse_agent::session::Start;
use rust_decimal::Decimal;
use serde_json::json;

use crate::support::*;

/// Permits calls whose price bound is within the rest of the budget.
struct Budget {
    cap: Decimal,
    /// Whether a reply may be shorter than the model's limit.
    shortens: bool,
    asked: Mutex<Vec<ModelCall>>,
}

#[async_trait]
impl Governor for Budget {
    async fn before_model(&self, call: &ModelCall) -> Verdict {
        self.asked.lock().unwrap().push(call.clone());
        match call.worst_case_usd {
            Some(worst) if call.spent_usd + worst <= self.cap => Verdict::Go,
            _ if self.shortens => match call.affordable_output(self.cap - call.spent_usd) {
                Some(tokens) => Verdict::GoWithin(tokens),
                None => Verdict::Stop("the budget does not reach".into()),
            },
            _ => Verdict::Stop("the budget does not reach".into()),
        }
    }
}

#[tokio::test]
async fn call_whose_worst_case_exceeds_the_budget_is_not_sent() {
    // 4,000 output tokens at 15 dollars per million are 6 cents; the input adds some tokens.
    let budget = Arc::new(Budget { cap: Decimal::new(9, 2), shortens: false, asked: Mutex::default() });
    let taking = Usage { input: 1_000, output: 2_000, cache_read: 1_000, cache_write: 100 };
    let model = Scripted::new([call_taking(&[("a", "echo", json!({ "text": "x" }))], taking)]);
    let mut setup = SessionSetup::new(model.clone(), vec![TestTool::echo()]);
    setup.config.governor = budget.clone();
    let open = setup.open();
    assert_eq!(open.prompt("go").await, AgentOutcome::Held("the budget does not reach".into()));
    assert_eq!(model.requests().len(), 1);
    let asked = budget.asked.lock().unwrap().clone();
    assert_eq!((asked.len(), asked[0].purpose, asked[0].spent_usd), (2, CallPurpose::Turn, Decimal::ZERO));
    // 1,000 · 3 + 2,000 · 15 + 1,000 · 0.3 + 100 · 3.75, per million.
    assert_eq!(asked[1].spent_usd.to_string(), "0.033675");
    assert!(asked[1].input_tokens >= 4_100, "input and output of the last call are input again: {asked:?}");
    let worst = Decimal::from(asked[1].input_tokens) * Decimal::new(375, 2) + Decimal::from(4_000 * 15);
    assert_eq!(asked[1].worst_case_usd, Some((worst / Decimal::from(1_000_000)).normalize()));
}

#[tokio::test]
async fn small_budget_shortens_the_reply() {
    let budget = Arc::new(Budget { cap: Decimal::new(3, 2), shortens: true, asked: Mutex::default() });
    let model = Scripted::new([say_taking("short", Usage { input: 100, output: 1_000, ..Usage::default() })]);
    let mut setup = SessionSetup::new(model.clone(), Vec::new());
    setup.config.governor = budget.clone();
    let open = setup.open();
    assert_eq!(open.prompt("go").await, AgentOutcome::Completed);
    let most = model.requests()[0].max_output_tokens;
    // 2,000 output tokens cost 3 cents without the input.
    assert!((1_024..2_000).contains(&most), "{most}");
    assert_eq!(open.prompt("more").await, AgentOutcome::Held("the budget does not reach".into()));
}

#[tokio::test]
async fn meters_continue_exactly_over_resume_branch_and_fork() {
    let taking = |input, output| Usage { input, output, ..Usage::default() };
    let model = Scripted::new([
        say_taking("one", taking(1_000, 100)),
        say_taking("two", taking(2_000, 200)),
        say_taking("three", taking(3, 1)),
    ]);
    let setup = SessionSetup::new(model.clone(), Vec::new());
    let mut open = setup.open();
    open.prompt("go").await;
    let events = open.received_events();
    let first = events.iter().find_map(|event| match event {
        SessionEvent::MessageEnd { entry_id, .. } => Some(entry_id.clone()),
        _ => None,
    });
    assert!(events.iter().any(|event| matches!(
        event,
        SessionEvent::Usage {
            usage: Usage { input: 1_000, .. },
            context_tokens: 1_100,
            context_window: 10_000,
            ..
        }
    )));
    // Back to before the reply: its cost stays.
    open.session.branch(first.as_deref()).unwrap();
    within(open.session.resume()).await.unwrap();
    let meters = open.session.state().meters;
    assert_eq!((meters.total().usage, meters.total().calls), (taking(3_000, 300), 2));
    assert_eq!(meters.total().cost_usd.to_string(), "0.0135");
    let file = file(&open.session);
    drop(open);

    let open = Open::start(setup.config.clone(), Start::File(file));
    assert_eq!(open.session.state().meters, meters);
    let leaf = open.session.state().leaf.unwrap();
    open.session.fork(&leaf).unwrap();
    assert_eq!(open.session.state().meters, meters, "a fork begins at its parent's total");
    open.prompt("more").await;
    let forked = open.session.state();
    assert_eq!((forked.meters.total().usage, forked.meters.total().calls), (taking(3_003, 301), 3));
    drop(open);
    let open = Open::start(setup.config.clone(), Start::File(forked.file));
    assert_eq!(open.session.state().meters, forked.meters);
}
