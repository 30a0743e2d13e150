//! A fake of the control plane's verdicts on tool calls, that tests script.

use std::collections::VecDeque;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use pilothouse_domain::value::Answer;
use pilothouse_domain::{CommandId, ToolCallId};
use pilothouse_wire::Command;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::gateway::{Delivered, Gateway};

/// The id of every verdict.
pub(crate) const VERDICT: Uuid = Uuid::from_u128(0x5e7d);

#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Verdict {
    #[default]
    Allow,
    Ask,
    /// With this sentence.
    Deny(&'static str),
    /// An emergency brake.
    Brake,
    /// A failure with this status.
    Fail(u16),
}

#[derive(Default)]
pub(crate) struct Verdicts {
    asked: Vec<Value>,
    next: VecDeque<Verdict>,
    /// The verdict once all of `next` are given.
    otherwise: Verdict,
}

pub(crate) fn routes() -> Router<Gateway> {
    Router::new().route("/api/agent/sessions/{session}/authorize", post(authorize))
}

async fn authorize(
    State(gateway): State<Gateway>,
    Path(session): Path<String>,
    headers: HeaderMap,
    Json(asked): Json<Value>,
) -> (StatusCode, Json<Value>) {
    assert_eq!(session, gateway.session.to_string());
    let token = gateway.secret.gateway_token(gateway.session, gateway.run);
    assert_eq!(headers["authorization"], format!("Bearer {}", token.as_str()));
    let verdict = gateway.with(|inner| {
        inner.verdicts.asked.push(asked);
        inner.verdicts.next.pop_front().unwrap_or(inner.verdicts.otherwise)
    });
    let answer = |verdict: &str, message: Option<&str>| {
        let body =
            json!({ "verdict": verdict, "verdictId": VERDICT, "changedBuildFiles": [], "message": message });
        (StatusCode::OK, Json(body))
    };
    match verdict {
        Verdict::Allow => answer("allow", None),
        Verdict::Ask => answer("ask", None),
        Verdict::Deny(message) => answer("deny", Some(message)),
        Verdict::Brake => (StatusCode::CONFLICT, Json(json!({ "code": "braked" }))),
        Verdict::Fail(status) => (StatusCode::from_u16(status).unwrap(), Json(Value::Null)),
    }
}

impl Gateway {
    /// Gives these verdicts, and then the last one of them to all calls.
    pub(crate) fn verdicts(&self, verdicts: impl IntoIterator<Item = Verdict>) {
        self.with(|inner| {
            inner.verdicts.next = verdicts.into_iter().collect();
            inner.verdicts.otherwise = inner.verdicts.next.back().copied().unwrap_or_default();
        });
    }

    /// The requests for verdicts, repetitions included.
    pub(crate) fn authorizations(&self) -> Vec<Value> {
        self.look(|inner| inner.verdicts.asked.clone())
    }

    /// Waits until this many verdicts were asked for.
    pub(crate) async fn asked_for_verdicts(&self, n: usize) {
        self.until("requests for verdicts", |gateway| (gateway.authorizations().len() >= n).then_some(()))
            .await;
    }

    /// Waits for the nth question about a tool call, and checks that it belongs to a verdict.
    pub(crate) async fn asks_for_permission(&self, n: usize) -> Delivered {
        let at = self.sees_nth("question_asked", n).await;
        let asked = self.delivered().swap_remove(at);
        assert_eq!(asked.body["approval"]["verdictId"], json!(VERDICT), "{:#}", asked.body);
        asked
    }

    /// Answers a question about a tool call.
    pub(crate) fn decide(&self, asked: &Delivered, answer: &str, input: Option<Value>) -> CommandId {
        let question = asked.body["questions"][0]["question"].as_str().unwrap().to_owned();
        let request_id: ToolCallId = asked.body["requestId"].as_str().unwrap().parse().unwrap();
        let answers = vec![Answer { question, answer: answer.into() }];
        self.send(Command::Answer { request_id, answers, modified_input: input.map(Box::new) })
    }

    /// The results of tool calls: whether each is an error, and its content.
    pub(crate) fn results(&self) -> Vec<(bool, Value)> {
        let results = self.delivered().into_iter().filter(|event| event.kind() == "tool_result");
        results.map(|event| (event.body["isError"] == true, event.body["content"].clone())).collect()
    }
}
