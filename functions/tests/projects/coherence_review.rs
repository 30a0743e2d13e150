//! Reviews of coherence issues by a model whose answers are scripted at the HTTP boundary (decision 91).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join;
use pilothouse_app::models::{
    ModelClient, ModelKey, ModelPrice, ModelProtocol, ModelRequest, ModelResponse, ModelSettings,
    ModelTransport, NoResponse,
};
use pilothouse_domain::Usd;
use pilothouse_domain::text::ModelId;
use pilothouse_functions::events::coherence_review;
use pilothouse_store::AggregateRef;
use pilothouse_test_support::received;
use serde_json::{Value, json};

use crate::artifacts::{Artifacts, violations};
use crate::coherence::proposes;

/// A model with scripted answers, which records its requests.
#[derive(Default)]
struct ScriptedModel {
    answers: Mutex<VecDeque<Result<(u16, String), String>>>,
    requests: Mutex<Vec<ModelRequest>>,
}

#[async_trait]
impl ModelTransport for ScriptedModel {
    async fn post(&self, request: &ModelRequest) -> Result<ModelResponse, NoResponse> {
        self.requests.lock().unwrap().push(request.clone());
        let answer = self.answers.lock().unwrap().pop_front().expect("no request is expected");
        answer.map(|(status, body)| ModelResponse { status, body }).map_err(NoResponse)
    }
}

impl ScriptedModel {
    fn asked(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    fn answers(&self, text: &str) {
        let usage = json!({ "prompt_tokens": 1_000_000, "completion_tokens": 100_000 });
        let body = json!({ "choices": [{ "message": { "content": text } }], "usage": usage });
        self.answers.lock().unwrap().push_back(Ok((200, body.to_string())));
    }

    fn judges(&self, issue: &Value, changes: &Value) {
        self.judges_all(&[issue], changes);
    }

    fn judges_all(&self, issues: &[&Value], changes: &Value) {
        let results: Vec<_> = issues.iter().map(|issue| Self::judgment(issue, changes)).collect();
        self.answers(&json!({ "results": results }).to_string());
    }

    fn judgment(issue: &Value, changes: &Value) -> Value {
        let mut result = json!({
            "candidateId": issue["id"], "confirmed": true, "category": "contradiction", "severity": "high",
            "explanation": "One counts cents, the other dollars.", "suggestedResolution": "Count cents.",
        });
        for (field, value) in changes.as_object().unwrap() {
            result[field] = value.clone();
        }
        result
    }

    /// The ids of the candidates of a request.
    fn candidates(&self, request: usize) -> Vec<Value> {
        let body: Value = serde_json::from_str(&self.requests.lock().unwrap()[request].body).unwrap();
        let input = body["messages"][1]["content"].as_str().unwrap();
        // A correction may follow the document.
        let input: Value = serde_json::Deserializer::from_str(input).into_iter().next().unwrap().unwrap();
        input["candidates"].as_array().unwrap().iter().map(|it| it["candidateId"].clone()).collect()
    }

    fn fails(&self) {
        self.answers.lock().unwrap().push_back(Err("connection refused".to_owned()));
    }

    fn refuses(&self, status: u16) {
        self.answers.lock().unwrap().push_back(Ok((status, "refused".to_owned())));
    }
}

struct Reviews {
    artifacts: Artifacts,
    model: Arc<ScriptedModel>,
}

impl Reviews {
    /// Two agents that have reported the same file, and a model with a configured price.
    async fn new() -> Self {
        Self::priced(Some(ModelPrice { input: Usd::whole(1), output: Usd::whole(10) })).await
    }

    async fn priced(price: Option<ModelPrice>) -> Self {
        let mut artifacts = Artifacts::new().await;
        let model = Arc::new(ScriptedModel::default());
        let settings = ModelSettings {
            url: "https://models.example/v1".to_owned(),
            protocol: ModelProtocol::OpenAi,
            model: ModelId::parse("mini").unwrap(),
            price,
        };
        let key = Some(ModelKey("sk-test".to_owned()));
        let transport = Arc::clone(&model);
        artifacts.fixture.set_model(ModelClient::new(settings, key, transport));
        let reviews = Self { artifacts, model };
        reviews.conflict("src/price.ts").await;
        reviews
    }

    async fn conflict(&self, path: &str) {
        self.artifacts.report(path, "price in cents").await;
        self.artifacts.write(path, "price in dollars").await;
    }

    /// The latest issue.
    async fn issue(&self) -> Value {
        self.artifacts.issues("").await[0].clone()
    }

    /// The states of the reviews of all issues; `null` without one.
    async fn states(&self) -> Vec<Value> {
        let issues = self.artifacts.issues("").await;
        issues.iter().map(|issue| issue["review"]["state"].clone()).collect()
    }

    /// Reviews the issue. Returns the pause before the next attempt, if there is one.
    async fn review(&self, issue: &Value) -> Option<Duration> {
        self.review_entry(issue, 1).await
    }

    async fn review_entry(&self, issue: &Value, sequence: u64) -> Option<Duration> {
        let id = issue["id"].as_str().unwrap().to_owned();
        let aggregate = AggregateRef { kind: "coherence-issue".to_owned(), id };
        let app = &self.artifacts.fixture.app;
        let entry = app.store.aggregate_journal_entry(&aggregate, sequence).await.unwrap().unwrap();
        let message = coherence_review::message_for_aggregate(&entry).unwrap();
        let outcome = coherence_review::process(app, vec![received(message)]).await;
        assert_eq!(outcome.done.len() + outcome.retry.len(), 1);
        outcome.retry.first().map(|(_, pause)| *pause)
    }

    async fn configure(&self, coherence: Value) {
        let path = format!("/api/projects/{}", self.artifacts.fixture.project);
        let body = json!({ "coherence": coherence });
        let (status, body) = self.artifacts.fixture.send("PATCH", &path, body).await;
        assert_eq!(status, 200, "{body}");
    }

    /// Like [`Self::new`], in a control mode that informs agents of severe issues.
    async fn orchestrated() -> Self {
        let reviews = Self::new().await;
        let fixture = &reviews.artifacts.fixture;
        let mode = json!({ "projectId": fixture.project, "mode": "orchestrator" });
        assert_eq!(fixture.send("PUT", "/api/control-mode", mode).await.0, 200);
        reviews
    }

    /// Reacts to an entry of the issue. Returns whether an injection waits for the Builder.
    async fn informs(&self, issue: &Value, sequence: u64) -> bool {
        self.artifacts.react_to_issue(issue, sequence).await;
        let pending = self.artifacts.fixture.pending().await;
        pending.is_some_and(|it| it.content.as_str().contains("A coherence issue (high, contradiction)"))
    }

    async fn decisions(&self, query: &str) -> Vec<Value> {
        let path = format!("/api/decisions?kind=coherence_review{query}");
        let (status, page) = self.artifacts.fixture.send("GET", &path, Value::Null).await;
        assert_eq!(status, 200, "{page}");
        page["items"].as_array().unwrap().clone()
    }

    async fn choose(&self, decision: &Value, option: &str) -> (u16, Value) {
        let path = format!("/api/decisions/{}/resolve", decision["id"].as_str().unwrap());
        let body = json!({ "resolutionType": "choose_option", "chosenOptionId": option });
        self.artifacts.fixture.send("POST", &path, body).await
    }

    /// An issue that the model confirmed as severe, and its decision.
    async fn decided() -> (Self, Value, Value) {
        let reviews = Self::new().await;
        let issue = reviews.issue().await;
        reviews.model.judges(&issue, &json!({}));
        assert_eq!(reviews.review(&issue).await, None);
        let decision = reviews.decisions("").await.remove(0);
        (reviews, issue, decision)
    }
}

fn state(issue: &Value) -> (&Value, &Value) {
    (&issue["status"]["state"], &issue["review"]["state"])
}

#[tokio::test]
async fn model_receives_the_texts_and_confirms_a_contradiction() {
    let reviews = Reviews::new().await;
    let issue = reviews.issue().await;
    assert_eq!(issue["review"], Value::Null);
    let fixture = &reviews.artifacts.fixture;
    fixture.observe(proposes("q1", "SQLite", &issue["affectedArtifactIds"][0])).await;
    fixture.react().await;
    reviews.model.judges(&issue, &json!({}));
    assert_eq!(reviews.review(&issue).await, None);
    let request = reviews.model.requests.lock().unwrap()[0].clone();
    assert_eq!(request.url, "https://models.example/v1/chat/completions");
    assert!(request.headers.contains(&("authorization", "Bearer sk-test".to_owned())));
    let body: Value = serde_json::from_str(&request.body).unwrap();
    assert_eq!(body["model"], "mini");
    let input: Value = serde_json::from_str(body["messages"][1]["content"].as_str().unwrap()).unwrap();
    let texts: Vec<_> =
        input["artifactContents"].as_object().unwrap().values().map(|it| &it["text"]).collect();
    assert!(
        texts.contains(&&json!("price in cents")) && texts.contains(&&json!("price in dollars")),
        "{input}"
    );
    let candidate = &input["candidates"][0];
    for (field, of_issue) in [
        ("candidateId", "id"),
        ("candidateCategory", "category"),
        ("severity", "severity"),
        ("title", "title"),
        ("description", "description"),
        ("artifactIds", "affectedArtifactIds"),
        ("workstreams", "affectedWorkstreams"),
        ("detectedAt", "detectedAt"),
    ] {
        assert!(!candidate[field].is_null(), "{field} is missing: {candidate}");
        assert_eq!(candidate[field], issue[of_issue], "{field}");
    }
    assert_eq!(
        input["workstreamBriefs"],
        json!([
            { "id": "docs", "name": "Guides", "goals": [] },
            { "id": "api", "name": "The API", "goals": [] },
        ])
    );
    let decision = &input["relevantDecisions"][0];
    assert_eq!(
        (&decision["workstream"], &decision["question"], &decision["option"], &decision["isResolved"]),
        (&json!("api"), &json!("Which store?"), &json!("SQLite"), &json!(false))
    );
    let issue = reviews.issue().await;
    assert_eq!(state(&issue), (&json!("open"), &json!("confirmed")));
    assert_eq!((&issue["review"]["model"], &issue["category"]), (&json!("mini"), &json!("contradiction")));
}

#[tokio::test]
async fn waiting_issues_are_judged_in_one_review() {
    let reviews = Reviews::new().await;
    let first = reviews.issue().await;
    for path in ["src/tax.ts", "src/vat.ts"] {
        reviews.conflict(path).await;
    }
    let others = reviews.artifacts.issues("").await;
    let others: Vec<_> = others.iter().filter(|issue| issue["id"] != first["id"]).collect();
    reviews.model.judges_all(&[&first, others[0], others[1]], &json!({}));
    assert_eq!(reviews.review(&first).await, None);
    let mut candidates = reviews.model.candidates(0);
    assert_eq!(candidates.remove(0), first["id"], "the issue of the message is the first candidate");
    assert_eq!(candidates.len(), 2);
    for issue in reviews.artifacts.issues("").await {
        assert_eq!(state(&issue), (&json!("open"), &json!("confirmed")), "{issue}");
    }
    assert_eq!(reviews.decisions("").await.len(), 3);
    for other in others {
        assert_eq!(reviews.review(other).await, None);
    }
    assert_eq!(reviews.model.asked(), 1);
    assert_eq!(reviews.artifacts.score().await["reviews"]["spentUsd"], "2", "paid once");
}

#[tokio::test]
async fn invalid_answer_about_several_issues_is_corrected_for_one() {
    let reviews = Reviews::new().await;
    let first = reviews.issue().await;
    reviews.conflict("src/tax.ts").await;
    reviews.model.judges(&first, &json!({}));
    reviews.model.judges(&first, &json!({}));
    assert_eq!(reviews.review(&first).await, None);
    assert_eq!(reviews.model.candidates(0).len(), 2);
    assert_eq!(reviews.model.candidates(1), [first["id"].clone()]);
    let states = reviews.states().await;
    assert!(states.contains(&json!("confirmed")) && states.contains(&Value::Null), "{states:?}");
}

#[tokio::test]
async fn issue_whose_texts_do_not_fit_in_waits_for_its_own_review() {
    let reviews = Reviews::new().await;
    let first = reviews.issue().await;
    let artifacts = &reviews.artifacts;
    artifacts.report("src/long.ts", &"a long text ".repeat(1000)).await;
    artifacts.write("src/long.ts", &"another one ".repeat(1000)).await;
    reviews.model.judges(&first, &json!({}));
    assert_eq!(reviews.review(&first).await, None);
    assert_eq!(reviews.model.candidates(0), [first["id"].clone()]);
}

#[tokio::test]
async fn at_most_five_issues_are_judged_in_one_review() {
    let reviews = Reviews::new().await;
    let first = reviews.issue().await;
    for file in 0..6 {
        reviews.conflict(&format!("src/{file}.ts")).await;
    }
    reviews.model.fails();
    assert!(reviews.review(&first).await.is_some());
    assert_eq!(reviews.model.candidates(0).len(), 5);
    let states: Vec<_> = reviews.states().await.into_iter().filter(|state| *state != Value::Null).collect();
    assert_eq!(states, ["failed"], "the others are not blamed");
}

#[tokio::test]
async fn repeated_message_asks_the_model_once() {
    let reviews = Reviews::new().await;
    let issue = reviews.issue().await;
    reviews.model.judges(&issue, &json!({}));
    let (first, second) = Box::pin(join(reviews.review(&issue), reviews.review(&issue))).await;
    assert!(first.is_none() || second.is_none());
    assert_eq!(reviews.review(&issue).await, None);
    assert_eq!(reviews.model.asked(), 1);
    assert_eq!(reviews.decisions("").await.len(), 1);
}

#[tokio::test]
async fn false_positive_is_dismissed_without_a_decision() {
    let reviews = Reviews::new().await;
    let issue = reviews.issue().await;
    reviews.model.judges(&issue, &json!({ "confirmed": false, "category": null, "severity": null }));
    reviews.review(&issue).await;
    let issue = reviews.issue().await;
    assert_eq!(state(&issue), (&json!("dismissed"), &json!("false_positive")));
    assert_eq!(issue["status"].get("by"), None);
    assert_eq!(reviews.decisions("").await, [] as [Value; 0]);
}

#[tokio::test]
async fn invalid_answer_is_corrected_once() {
    let reviews = Reviews::new().await;
    let issue = reviews.issue().await;
    reviews.model.answers("I confirm it.");
    reviews.model.judges(&issue, &json!({ "severity": "low" }));
    assert_eq!(reviews.review(&issue).await, None);
    let second = reviews.model.requests.lock().unwrap()[1].body.clone();
    assert!(second.contains("Your answer was invalid"), "{second}");
    let issue = reviews.issue().await;
    assert_eq!(state(&issue), (&json!("open"), &json!("confirmed")));
    assert_eq!((&issue["severity"], &issue["category"]), (&json!("low"), &json!("contradiction")));
    let (why, how) = (&issue["review"]["explanation"], &issue["review"]["suggestedResolution"]);
    assert_eq!((why, how), (&json!("One counts cents, the other dollars."), &json!("Count cents.")));
    assert_eq!(reviews.decisions("").await, [] as [Value; 0], "it is not severe");
}

#[tokio::test]
async fn two_invalid_answers_leave_the_issue_unconfirmed() {
    let reviews = Reviews::new().await;
    let issue = reviews.issue().await;
    reviews.model.answers("I confirm it.");
    reviews.model.judges(&issue, &json!({ "candidateId": reviews.artifacts.fixture.project }));
    assert_eq!(reviews.review(&issue).await, None);
    let failed = reviews.issue().await;
    assert_eq!(state(&failed), (&json!("open"), &json!("failed")));
    assert_eq!(failed["review"]["failure"], "invalid_answer");
    assert_eq!((&failed["severity"], &failed["category"]), (&issue["severity"], &issue["category"]));
    let score = reviews.artifacts.score().await;
    assert_eq!(
        score["reviews"],
        json!({ "reviews": 1, "inputTokens": 2_000_000, "outputTokens": 200_000, "spentUsd": "4" })
    );
}

#[tokio::test]
async fn unavailable_model_is_asked_again_a_few_times() {
    let reviews = Reviews::new().await;
    let issue = reviews.issue().await;
    let mut pauses = Vec::new();
    for _ in 0..5 {
        reviews.model.fails();
        let pause = reviews.review(&issue).await;
        reviews.artifacts.fixture.advance(pause.unwrap_or_default());
        pauses.push(pause.map(|pause| pause.as_secs() / 60));
    }
    assert_eq!(pauses, [Some(2), Some(4), Some(8), Some(16), None]);
    let failed = reviews.issue().await;
    assert_eq!(state(&failed), (&json!("open"), &json!("failed")));
    assert_eq!(failed["review"]["attempts"], 5);

    reviews.artifacts.fixture.advance(Duration::from_secs(1));
    let audit = json!({ "projectId": reviews.artifacts.fixture.project });
    let (_, audited) = reviews.artifacts.fixture.send("POST", "/api/coherence/audit", audit.clone()).await;
    assert_eq!(audited["requestedReviews"], 1, "{audited}");
    let (_, audited) = reviews.artifacts.fixture.send("POST", "/api/coherence/audit", audit).await;
    assert_eq!(audited["requestedReviews"], 0, "{audited}");
    reviews.artifacts.fixture.advance(Duration::from_hours(1));
    reviews.model.judges(&issue, &json!({}));
    assert_eq!(reviews.review_entry(&issue, 7).await, None);
    assert_eq!(state(&reviews.issue().await), (&json!("open"), &json!("confirmed")));
}

#[tokio::test]
async fn refused_request_is_not_repeated() {
    let reviews = Reviews::new().await;
    let issue = reviews.issue().await;
    reviews.model.refuses(429);
    assert_eq!(reviews.review(&issue).await, Some(Duration::from_mins(2)), "the model is busy");
    reviews.model.refuses(401);
    assert_eq!(reviews.review(&issue).await, None);
    assert_eq!(reviews.issue().await["review"]["failure"], "invalid_answer");
}

#[tokio::test]
async fn working_agent_learns_of_an_issue_after_its_review() {
    let reviews = Reviews::orchestrated().await;
    let issue = reviews.issue().await;
    assert!(!reviews.informs(&issue, 1).await, "the model has not judged it");
    reviews.model.judges(&issue, &json!({}));
    reviews.review(&issue).await;
    assert!(reviews.informs(&issue, 2).await);
    let pending = reviews.artifacts.fixture.pending().await;
    assert!(reviews.informs(&issue, 2).await);
    assert_eq!(reviews.artifacts.fixture.pending().await, pending, "once");
}

#[tokio::test]
async fn working_agent_learns_of_an_issue_whose_review_failed() {
    let reviews = Reviews::orchestrated().await;
    let issue = reviews.issue().await;
    assert!(!reviews.informs(&issue, 1).await);
    for (attempt, is_last) in [(2, false), (3, false), (4, false), (5, false), (6, true)] {
        reviews.model.fails();
        let pause = reviews.review(&issue).await;
        assert_eq!(reviews.informs(&issue, attempt).await, is_last, "{attempt}");
        reviews.artifacts.fixture.advance(pause.unwrap_or_default());
    }
}

#[tokio::test]
async fn working_agent_learns_of_an_issue_that_is_not_reviewed() {
    let reviews = Reviews::orchestrated().await;
    let issue = reviews.issue().await;
    assert!(!reviews.informs(&issue, 1).await);
    assert_eq!(reviews.artifacts.settle(&issue, "confirm", Value::Null).await.0, 200);
    assert!(reviews.informs(&issue, 2).await, "a person confirmed it first");

    let reviews = Reviews::orchestrated().await;
    reviews.configure(json!({ "layer2MaxReviewsPerHour": 0 })).await;
    let issue = reviews.issue().await;
    assert!(reviews.informs(&issue, 1).await, "no review is permitted");
}

#[tokio::test]
async fn audit_requests_reviews_behind_many_other_issues() {
    let reviews = Reviews::new().await;
    let fixture = &reviews.artifacts.fixture;
    fixture.advance(Duration::from_secs(1));
    for issue in 0..200 {
        let body = json!({
            "title": format!("Names differ {issue}"), "description": "Two names", "severity": "low",
            "category": "contradiction", "affectedWorkstreams": ["api"],
        });
        assert_eq!(fixture.send("POST", "/api/coherence", body).await.0, 201);
    }
    fixture.advance(Duration::from_secs(1));
    let audit = json!({ "projectId": fixture.project });
    let (_, audited) = fixture.send("POST", "/api/coherence/audit", audit).await;
    assert_eq!(audited["requestedReviews"], 1, "{audited}");
}

#[tokio::test]
async fn reviews_above_the_limit_of_the_hour_wait() {
    let reviews = Reviews::new().await;
    reviews.configure(json!({ "layer2MaxReviewsPerHour": 1 })).await;
    let first = reviews.issue().await;
    reviews.model.judges(&first, &json!({}));
    assert_eq!(reviews.review(&first).await, None);
    reviews.artifacts.fixture.advance(Duration::from_mins(10));
    reviews.conflict("src/tax.ts").await;
    let issues = reviews.artifacts.issues("").await;
    let second = issues.iter().find(|issue| issue["id"] != first["id"]).unwrap();
    assert_eq!(reviews.review(second).await, Some(Duration::from_mins(50)));
    assert_eq!((reviews.model.asked(), &second["review"]), (1, &Value::Null));
    reviews.artifacts.fixture.advance(Duration::from_mins(50));
    reviews.model.judges(second, &json!({}));
    assert_eq!(reviews.review(second).await, None);
    assert_eq!(reviews.model.asked(), 2);
}

#[tokio::test]
async fn project_without_layer_2_asks_no_model() {
    let reviews = Reviews::new().await;
    reviews.configure(json!({ "enableLayer2": false })).await;
    let issue = reviews.issue().await;
    assert_eq!(reviews.review(&issue).await, None);
    assert_eq!((reviews.model.asked(), reviews.issue().await), (0, issue));
    // An audit requests reviews of issues from before it.
    reviews.artifacts.fixture.advance(Duration::from_secs(1));
    let audit = json!({ "projectId": reviews.artifacts.fixture.project });
    let (_, audited) = reviews.artifacts.fixture.send("POST", "/api/coherence/audit", audit).await;
    assert_eq!(audited["requestedReviews"], 0);
}

#[tokio::test]
async fn cost_of_reviews_counts_against_the_spending_cap() {
    let reviews = Reviews::new().await;
    let fixture = &reviews.artifacts.fixture;
    let path = format!("/api/projects/{}", fixture.project);
    let (status, _) = fixture.send("PATCH", &path, json!({ "spendingCap": { "usd": "3" } })).await;
    assert_eq!(status, 200);
    reviews.artifacts.react_to_project().await;
    let issue = reviews.issue().await;
    reviews.model.judges(&issue, &json!({ "severity": "low" }));
    reviews.review(&issue).await;
    let drawn = async || {
        let (_, project) = fixture.send("GET", &path, Value::Null).await;
        project["spending"].clone()
    };
    assert_eq!(drawn().await["drawnUsd"], "2", "1 for the input, 1 for the output");
    reviews.conflict("src/tax.ts").await;
    let issues = reviews.artifacts.issues("").await;
    let second = issues.iter().find(|it| it["id"] != issue["id"]).unwrap();
    reviews.model.judges(second, &json!({ "severity": "low" }));
    reviews.review(second).await;
    assert_eq!(
        (drawn().await["drawnUsd"].clone(), drawn().await["isExhausted"].clone()),
        (json!("4"), json!(true))
    );
    fixture.advance(Duration::from_secs(1));
    reviews.conflict("src/vat.ts").await;
    let third = reviews.issue().await;
    for _ in 0..2 {
        assert_eq!(reviews.review(&third).await, Some(Duration::from_hours(1)));
        let review = reviews.issue().await["review"].clone();
        assert_eq!((&review["failure"], &review["attempts"]), (&json!("spending_cap"), &json!(0)));
    }
    assert_eq!(reviews.model.asked(), 2);
    let (status, _) = fixture.send("PATCH", &path, json!({ "spendingCap": { "usd": "9" } })).await;
    assert_eq!(status, 200);
    reviews.artifacts.react_to_project().await;
    reviews.model.judges(&third, &json!({ "severity": "low" }));
    assert_eq!(reviews.review(&third).await, None);
    assert_eq!(state(&reviews.issue().await), (&json!("open"), &json!("confirmed")));
}

#[tokio::test]
async fn decision_about_an_issue_settles_it() {
    for (option, settled) in [("resolve", "resolved"), ("keep_open", "confirmed"), ("dismiss", "dismissed")] {
        let (reviews, issue, decision) = Reviews::decided().await;
        assert_eq!((&decision["severity"], &decision["issueId"]), (&json!("high"), &issue["id"]));
        let project = reviews.artifacts.fixture.project;
        assert_eq!(
            reviews.decisions(&format!("&projectId={project}")).await,
            std::slice::from_ref(&decision)
        );
        let other = reviews.decisions(&format!("&projectId={}", issue["id"].as_str().unwrap())).await;
        assert_eq!(other, [] as [Value; 0], "another project");
        assert_eq!(
            reviews.artifacts.fixture.send_as("eve", "GET", "/api/decisions", Value::Null).await.1["items"],
            json!([])
        );
        let (status, resolved) = reviews.choose(&decision, option).await;
        assert_eq!((status, &resolved["state"]), (200, &json!("resolved")), "{resolved}");
        let issue = reviews.issue().await;
        assert_eq!(issue["status"]["state"], settled);
        if option == "resolve" {
            assert_eq!(issue["status"]["resolution"], "Count cents.", "the suggestion of the model");
        }
        assert_eq!(reviews.choose(&decision, option).await.0, 409);
        assert_eq!(reviews.decisions("").await, [] as [Value; 0]);
    }
}

#[tokio::test]
async fn settled_issue_cancels_its_decision() {
    let actions = [
        ("resolve", json!({ "resolution": "Cents" }), "resolved"),
        ("dismiss", json!({}), "dismissed"),
        ("confirm", Value::Null, "confirmed"),
    ];
    for (action, body, settled) in actions {
        let (reviews, issue, decision) = Reviews::decided().await;
        assert_eq!(reviews.artifacts.settle(&issue, action, body.clone()).await.0, 200);
        let ended = reviews.decisions("&state=cancelled").await;
        assert_eq!((&ended[0]["id"], &ended[0]["reason"]), (&decision["id"], &json!("issue_settled")));
        assert_eq!(reviews.choose(&decision, "dismiss").await.0, 409);
        assert_eq!(reviews.artifacts.settle(&issue, action, body).await.0, 200, "again");
        assert_eq!(reviews.issue().await["status"]["state"], settled);
    }
}

/// Of a decision and a command at the same time, one settles the issue, and the other one is refused or changes nothing.
#[tokio::test]
async fn decision_and_command_at_the_same_time_settle_an_issue_once() {
    for _ in 0..3 {
        let (reviews, issue, decision) = Reviews::decided().await;
        let resolution = json!({ "resolution": "By hand" });
        let (chosen, settled) = Box::pin(join(
            reviews.choose(&decision, "resolve"),
            reviews.artifacts.settle(&issue, "resolve", resolution),
        ))
        .await;
        assert_eq!(settled.0, 200, "{}", settled.1);
        let text = reviews.issue().await["status"]["resolution"].clone();
        if chosen.0 == 200 {
            assert_eq!(text, "Count cents.");
        } else {
            assert_eq!((chosen.0, text), (409, json!("By hand")));
        }
        assert_eq!(reviews.decisions("").await, [] as [Value; 0]);
    }
}

/// A million input tokens and 100,000 output tokens of a review.
#[tokio::test]
async fn review_costs_the_list_price_of_its_model_and_the_briefing_names_it() {
    let reviews = Reviews::priced(None).await;
    let fixture = &reviews.artifacts.fixture;
    let spent = async || {
        let issues = reviews.artifacts.issues("").await;
        let issue = issues.iter().find(|issue| issue.get("review").is_none()).unwrap().clone();
        reviews.model.judges(&issue, &json!({}));
        reviews.review(&issue).await;
        let path = format!("/api/projects/{}/briefing", fixture.project);
        let (_, briefing) = fixture.send("GET", &path, Value::Null).await;
        let sentences = briefing["cost"]["sentences"].as_array().unwrap().clone();
        (briefing["cost"]["reviewsUsd"].clone(), sentences.last().unwrap()["text"].clone())
    };
    // The model of the project is in the table of models, with 1 and 5 dollars.
    reviews.configure(json!({ "layer2Model": "claude-haiku-4-5" })).await;
    assert_eq!(
        spent().await,
        (json!("1.5"), json!("1 review of coherence issues by a model cost $1.5 so far."))
    );
    // The table does not have this one. The estimate of S2 is 3 and 15 dollars.
    reviews.configure(json!({ "layer2Model": "our-own" })).await;
    reviews.conflict("src/tax.ts").await;
    assert_eq!(
        spent().await,
        (json!("6"), json!("2 reviews of coherence issues by a model cost $6 so far."))
    );
}

#[tokio::test]
async fn settings_of_a_project_are_shown_and_checked() {
    let reviews = Reviews::new().await;
    let fixture = &reviews.artifacts.fixture;
    let path = format!("/api/projects/{}", fixture.project);
    let settings =
        json!({ "layer2MaxReviewsPerHour": 3, "layer2Model": "big", "feedbackLoop": { "enabled": true } });
    reviews.configure(settings).await;
    let (_, project) = fixture.send("GET", &path, Value::Null).await;
    let shown = &project["coherence"];
    assert_eq!((&shown["layer2MaxReviewsPerHour"], &shown["layer2Model"]), (&json!(3), &json!("big")));
    assert_eq!(
        (&shown["layer1ScanIntervalTicks"], &shown["feedbackLoop"]["enabled"]),
        (&json!(10), &json!(true))
    );
    let issue = reviews.issue().await;
    reviews.model.judges(&issue, &json!({}));
    reviews.review(&issue).await;
    assert!(reviews.model.requests.lock().unwrap()[0].body.contains(r#""model":"big""#));

    let wrong = json!({ "coherence": {
        "layer1ScanIntervalTicks": 0, "layer1AdvisoryThreshold": 2, "layer2MaxReviewsPerHour": 1001, "speed": 1,
    } });
    let (status, body) = fixture.send("PATCH", &path, wrong).await;
    assert_eq!(status, 422, "{body}");
    let mut fields = violations(&body);
    fields.sort_unstable();
    let expected = ["layer1AdvisoryThreshold", "layer1ScanIntervalTicks", "layer2MaxReviewsPerHour", "speed"];
    assert_eq!(fields, expected.map(|field| format!("coherence.{field}")));
    let (_, project) = fixture.send("PATCH", &path, json!({ "coherence": null })).await;
    assert_eq!(project.get("coherence"), None);
}

#[tokio::test]
async fn scan_follows_the_settings_of_its_project() {
    let reviews = Reviews::new().await;
    let audit = json!({ "projectId": reviews.artifacts.fixture.project });
    let audited = async || {
        let (_, audit) = reviews.artifacts.fixture.send("POST", "/api/coherence/audit", audit.clone()).await;
        (audit["isTooLarge"].as_bool().unwrap(), audit["similarPairs"].as_u64().unwrap())
    };
    assert_eq!(audited().await, (false, 0), "a common word is not enough");
    reviews.configure(json!({ "layer1AdvisoryThreshold": 0.1 })).await;
    assert_eq!(audited().await, (false, 1));
    reviews.configure(json!({ "layer1AdvisoryThreshold": 0.99, "layer1PromotionThreshold": 0.99 })).await;
    assert_eq!(audited().await, (false, 0));
    reviews.configure(json!({ "layer1MaxArtifactsPerScan": 1 })).await;
    assert_eq!(audited().await, (true, 0));
}
