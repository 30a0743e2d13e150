//! The inbox on both engines: its order, its pages, and its two lists (decision 74).

use axum::body::Body;
use http::Request;
use pilothouse_app::http::auth::VerifiedOwner;
use pilothouse_app::{App, FreshIds, Parts};
use pilothouse_domain::effect::BlastRadius;
use pilothouse_domain::escalation::ToolApproval;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::{Capabilities, OptionAssessment, OptionProposal, ProposedOption, Question};
use pilothouse_domain::{AgentSessionId, ToolCallId, TurnId, UserId};
use pilothouse_sqlite::system_clock;
use pilothouse_store::contract::Subject;
use pilothouse_store::{Commit, Store};
use pilothouse_test_support::EmbeddedEngines;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::sqlite::Sqlite;
use crate::table::Dynamo;

struct InboxFixture {
    app: App,
    _engines: EmbeddedEngines,
}

impl InboxFixture {
    async fn new(subject: &dyn Subject) -> Self {
        let engines = EmbeddedEngines::open(system_clock()).await;
        let app = App::new(Parts { store: Store::new(subject.table()), ..engines.parts() });
        Self { app, _engines: engines }
    }

    async fn call(&self, owner: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
        let request = Request::builder().method(method).uri(path).body(Body::from(body.to_string()));
        let mut request = request.unwrap();
        request.extensions_mut().insert(VerifiedOwner(UserId::parse(owner).unwrap()));
        let response = pilothouse_functions::router(self.app.clone()).oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    async fn get(&self, path: &str) -> Value {
        let (status, body) = self.call("owner", "GET", path, Value::Null).await;
        assert_eq!(status, 200, "{body}");
        body
    }

    /// A session whose agent asks this in its first turn.
    async fn asking(
        &self,
        request: &str,
        approval: Option<ToolApproval>,
        proposal: Option<OptionProposal>,
    ) -> AgentSessionId {
        let body = json!({ "workingDirectory": "/w", "objective": "Do it", "budgetCapUsd": "1" });
        let (status, body) = self.call("owner", "POST", "/api/agents/sessions", body).await;
        assert_eq!(status, 201, "{body}");
        let id = body["session"]["id"].as_str().unwrap().parse().unwrap();
        let question = Question {
            question: "Which?".to_owned(),
            header: None,
            options: Vec::new(),
            multi_select: false,
        };
        self.observe(id, AgentFact::SidecarReady(Capabilities { cost: true, ..Capabilities::default() }))
            .await;
        let turn = TurnId::parse("turn-1").unwrap();
        self.observe(id, AgentFact::TurnStarted { turn, message: None }).await;
        let request = ToolCallId::parse(request).unwrap();
        self.observe(
            id,
            AgentFact::QuestionAsked {
                request,
                questions: vec![question],
                approval,
                proposal,
                timeout: None,
            },
        )
        .await;
        id
    }

    async fn observe(&self, id: AgentSessionId, fact: AgentFact) {
        let mut loaded = self.app.store.conversation(id).await.unwrap().unwrap();
        let mut ids = FreshIds;
        let mut ctx = self.app.domain_context(&mut ids);
        let observed = loaded.conversation.observe(fact, "hash", &mut ctx);
        let events = self.app.with_consequences(&mut loaded.conversation, observed.events, &mut ctx);
        let mut commit = Commit::new();
        self.app.record(&mut commit, &mut loaded, Cause::Clock, events).unwrap();
        self.app.store.commit(commit).await.unwrap();
    }
}

fn ids(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|d| d["id"].as_str().unwrap().to_owned()).collect()
}

/// Tool calls precede older questions, as does an option with a larger blast radius; pages follow one another;
/// a resolved decision moves to the other list.
async fn inbox_is_ordered_paged_and_emptied(subject: &dyn Subject) {
    let fixture = InboxFixture::new(subject).await;
    let first = fixture.asking("q1", None, None).await;
    let second = fixture.asking("q2", None, None).await;
    let approval = ToolApproval {
        tool_name: "Bash".to_owned(),
        input: "{}".to_owned(),
        input_blob: None,
        allow: "Allow".to_owned(),
        deny: "Deny".to_owned(),
        verdict: None,
        modifiable: false,
    };
    let third = fixture.asking("t1", Some(approval), None).await;
    // Of the same severity as the questions.
    let assessment =
        OptionAssessment { blast_radius: Some(BlastRadius::Large), ..OptionAssessment::default() };
    let option =
        ProposedOption { id: "a".to_owned(), label: "A".to_owned(), description: None, tradeoffs: None };
    let proposal = OptionProposal { options: vec![option], assessment };
    let fourth = fixture.asking("o1", None, Some(proposal)).await;
    let page = fixture.get("/api/decisions?counts=true").await;
    let sessions: Vec<_> =
        page["items"].as_array().unwrap().iter().map(|d| d["sessionId"].as_str().unwrap()).collect();
    assert_eq!(sessions, [third, fourth, first, second].map(|id| id.to_string()));
    let by_kind = json!({ "option": 1, "question": 2, "tool_approval": 1 });
    assert_eq!(page["counts"], json!({ "pending": 4, "byKind": by_kind }));
    let all = ids(&page);

    let mut paged = Vec::new();
    let mut path = "/api/decisions?limit=1".to_owned();
    loop {
        let page = fixture.get(&path).await;
        paged.extend(ids(&page));
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        path = format!("/api/decisions?limit=1&cursor={cursor}");
    }
    assert_eq!(paged, all);
    let page = fixture.get(&format!("/api/decisions?session={second}")).await;
    assert_eq!(ids(&page), all[3..]);
    let cursor = fixture.get("/api/decisions?limit=1").await["nextCursor"].as_str().unwrap().to_owned();
    for other in ["state=resolved", "kind=question"] {
        let path = format!("/api/decisions?{other}&cursor={cursor}");
        let (status, body) = fixture.call("owner", "GET", &path, Value::Null).await;
        assert_eq!((status, &body["violations"][0]["field"]), (422, &json!("cursor")));
    }

    let path = format!("/api/decisions/{}/resolve", all[0]);
    let (status, _) = fixture.call("stranger", "POST", &path, json!({ "resolutionType": "approve" })).await;
    assert_eq!(status, 404);
    let (status, resolved) =
        fixture.call("owner", "POST", &path, json!({ "resolutionType": "approve" })).await;
    assert_eq!((status, &resolved["state"]), (202, &json!("resolving")));
    assert_eq!(ids(&fixture.get("/api/decisions").await), all[1..]);
    assert_eq!(ids(&fixture.get("/api/decisions?state=resolving").await), all[..1]);
    let (status, over) = fixture.call("owner", "POST", &path, json!({ "resolutionType": "reject" })).await;
    assert_eq!((status, &over["code"]), (409, &json!("decision-over")));
    assert_eq!(over["decision"]["endedAt"], resolved["resolvedAt"]);
}

#[tokio::test]
async fn inbox_is_ordered_paged_and_emptied_on_sqlite() {
    inbox_is_ordered_paged_and_emptied(&Sqlite::start().await).await;
}

#[tokio::test]
async fn inbox_is_ordered_paged_and_emptied_on_dynamodb() {
    inbox_is_ordered_paged_and_emptied(&Dynamo::start().await).await;
}
