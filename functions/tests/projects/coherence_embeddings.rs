//! Layer 1 with an embedding model whose vectors are scripted at the HTTP boundary (decision 88), and artifacts that do not fit a decision.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use pilothouse_app::models::{
    EmbeddingClient, EmbeddingSettings, ModelClient, ModelKey, ModelProtocol, ModelRequest, ModelResponse,
    ModelSettings, ModelTransport, NoResponse,
};
use pilothouse_app::queues;
use pilothouse_domain::Usd;
use pilothouse_domain::text::ModelId;
use pilothouse_functions::events::coherence_review;
use serde_json::{Value, json};

use crate::artifacts::{Artifacts, violations};
use crate::coherence::proposes;

/// The same in other words.
const TEA: &str = "Green leaves grow on hills.";
const DRINK: &str = "A hot beverage comes from plants.";
/// The vector of the texts that contain a word.
const VECTORS: [(&str, [f64; 2]); 5] = [
    ("leaves", [1.0, 0.0]),
    ("beverage", [0.9, 0.435_889_9]),
    ("harbour", [0.0, 1.0]),
    ("Which store", [0.2, 0.979_795_9]),
    ("order totals", [0.7, -0.714]),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Works,
    IsUnreachable,
    Refuses,
    /// Each request with a text that contains `forbidden` is invalid.
    RefusesText,
    /// Each request is invalid.
    RefusesTexts,
    /// A vector is missing in each response.
    LeavesOneOut,
    /// The vectors have another dimension, which is 0.
    HasOtherModel,
}

/// An endpoint with scripted vectors, which records its requests. A request has a million tokens.
struct ScriptedEmbeddings {
    mode: Mutex<Mode>,
    requests: Mutex<Vec<(Option<String>, Value)>>,
}

#[async_trait]
impl ModelTransport for ScriptedEmbeddings {
    async fn post(&self, request: &ModelRequest) -> Result<ModelResponse, NoResponse> {
        assert_eq!(request.url, "https://embeddings.example/v1/embeddings");
        let key = request.headers.iter().find(|(name, _)| *name == "authorization");
        let body: Value = serde_json::from_str(&request.body).unwrap();
        self.requests.lock().unwrap().push((key.map(|(_, value)| value.clone()), body.clone()));
        let mode = *self.mode.lock().unwrap();
        let (status, body) = match mode {
            Mode::IsUnreachable => return Err(NoResponse("connection refused".to_owned())),
            Mode::Refuses => (401, "wrong key".to_owned()),
            Mode::RefusesTexts => (400, "invalid input".to_owned()),
            Mode::RefusesText if request.body.contains("forbidden") => (400, "invalid input".to_owned()),
            Mode::Works | Mode::RefusesText | Mode::LeavesOneOut | Mode::HasOtherModel => {
                let vector = |text: &Value| {
                    let known = VECTORS.iter().find(|(word, _)| text.as_str().unwrap().contains(word));
                    let (_, known) = known.unwrap_or_else(|| panic!("no vector is scripted for {text}"));
                    known
                        .iter()
                        .copied()
                        .chain((mode == Mode::HasOtherModel).then_some(0.0))
                        .collect::<Vec<_>>()
                };
                let texts = body["input"].as_array().unwrap().iter().enumerate();
                let texts = texts.skip(usize::from(mode == Mode::LeavesOneOut));
                let data: Vec<_> =
                    texts.map(|(index, text)| json!({ "index": index, "embedding": vector(text) })).collect();
                let usage = json!({ "prompt_tokens": 1_000_000, "total_tokens": 1_000_000 });
                (200, json!({ "data": data, "usage": usage }).to_string())
            }
        };
        Ok(ModelResponse { status, body })
    }
}

impl ScriptedEmbeddings {
    fn enter(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    fn requests(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// The texts of all requests, sorted.
    fn texts(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        let inputs = requests.iter().flat_map(|(_, body)| body["input"].as_array().unwrap().clone());
        let mut texts: Vec<_> = inputs.map(|text| text.as_str().unwrap().to_owned()).collect();
        texts.sort();
        texts
    }
}

/// A model for reviews that fails the test if it is asked.
struct SilentModel;

#[async_trait]
impl ModelTransport for SilentModel {
    async fn post(&self, _: &ModelRequest) -> Result<ModelResponse, NoResponse> {
        Err(NoResponse("not scripted".to_owned()))
    }
}

struct Compared {
    artifacts: Artifacts,
    endpoint: Arc<ScriptedEmbeddings>,
}

impl Compared {
    async fn new() -> Self {
        Self::configured(None, false).await
    }

    async fn configured(price: Option<Usd>, has_model: bool) -> Self {
        let mut artifacts = Artifacts::new().await;
        let endpoint =
            Arc::new(ScriptedEmbeddings { mode: Mutex::new(Mode::Works), requests: Mutex::default() });
        let settings = EmbeddingSettings {
            url: "https://embeddings.example/v1".to_owned(),
            model: ModelId::parse("small").unwrap(),
            price,
        };
        let transport = Arc::clone(&endpoint);
        let embeddings = EmbeddingClient::new(settings, Some(ModelKey("sk-embed".to_owned())), transport);
        let model = has_model.then(|| {
            let settings = ModelSettings {
                url: "https://models.example/v1".to_owned(),
                protocol: ModelProtocol::OpenAi,
                model: ModelId::parse("mini").unwrap(),
                price: None,
            };
            ModelClient::new(settings, None, Arc::new(SilentModel))
        });
        artifacts.fixture.set_models(model, Some(embeddings));
        Self { artifacts, endpoint }
    }

    async fn audit(&self) -> Value {
        let (status, audit) = self.artifacts.fixture.send("POST", "/api/coherence/audit", json!({})).await;
        assert_eq!(status, 200, "{audit}");
        audit
    }

    async fn configure(&self, coherence: Value) {
        let path = format!("/api/projects/{}", self.artifacts.fixture.project);
        let (status, body) =
            self.artifacts.fixture.send("PATCH", &path, json!({ "coherence": coherence })).await;
        assert_eq!(status, 200, "{body}");
    }

    /// Processes the requested scans. Returns the pauses before the next attempts.
    async fn scan(&self) -> Vec<Duration> {
        let app = &self.artifacts.fixture.app;
        let received = app.broker.receive(&queues::reviews(), 10, Duration::ZERO).await.unwrap();
        let outcome = coherence_review::process(app, received).await;
        let pauses = outcome.retry.iter().map(|(_, pause)| *pause).collect();
        pilothouse_app::batch::settle(app.broker.as_ref(), &queues::reviews(), outcome).await.unwrap();
        pauses
    }

    /// The Builder reports a text, and the reaction to it runs.
    async fn report(&self, path: &str, text: &str) {
        let reported = self.artifacts.report(path, text).await;
        self.artifacts.react_to(&reported["artifactId"], 1).await;
    }

    /// The engine and similarity of the only issue.
    async fn found(&self) -> (Value, u64) {
        let issue = self.artifacts.only_issue().await;
        (issue["source"]["engine"].clone(), issue["source"]["percent"].as_u64().unwrap())
    }

    /// An agent proposes stores, names the artifact, and a person chooses one.
    async fn decide(&self, artifact: &Value) {
        let fixture = &self.artifacts.fixture;
        fixture.observe(proposes("q1", "SQLite", artifact)).await;
        let choice = json!({ "resolutionType": "choose_option", "chosenOptionId": "SQLite", "rationale": "No server." });
        fixture.resolve("q1", choice).await;
    }
}

#[tokio::test]
async fn audit_compares_texts_by_embeddings_and_says_so() {
    let compared = Compared::new().await;
    compared.artifacts.report("tea.md", TEA).await;
    compared.artifacts.write("drink.md", DRINK).await;
    compared.artifacts.write("harbour.md", "Ships enter the harbour.").await;
    let audit = compared.audit().await;
    assert_eq!((&audit["engine"], audit.get("fallback")), (&json!("embeddings"), None), "{audit}");
    assert_eq!((&audit["similarPairs"], &audit["raisedIssues"]), (&json!(1), &json!(1)));
    let (engine, percent) = compared.found().await;
    assert_eq!(engine, "embeddings");
    assert!((89..=90).contains(&percent), "{percent}");
    assert_eq!(compared.artifacts.only_issue().await["severity"], "medium");
    let (key, body) = compared.endpoint.requests.lock().unwrap()[0].clone();
    assert_eq!((key.as_deref(), &body["model"]), (Some("Bearer sk-embed"), &json!("small")));
}

#[tokio::test]
async fn text_is_embedded_once_for_each_model() {
    let compared = Compared::new().await;
    compared.artifacts.report("tea.md", TEA).await;
    compared.artifacts.write("drink.md", DRINK).await;
    compared.artifacts.write("copy.md", TEA).await;
    compared.audit().await;
    compared.audit().await;
    assert_eq!(compared.endpoint.texts(), [DRINK, TEA]);
    compared.artifacts.report("tea.md", "Dry leaves.").await;
    compared.audit().await;
    assert_eq!(compared.endpoint.texts(), [DRINK, "Dry leaves.", TEA], "only the new version");
    compared.configure(json!({ "embeddingModel": "large" })).await;
    compared.audit().await;
    assert_eq!(compared.endpoint.texts().len(), 6);
    let last = compared.endpoint.requests.lock().unwrap().last().unwrap().1.clone();
    assert_eq!(last["model"], "large");
}

#[tokio::test]
async fn many_texts_are_embedded_in_batches() {
    let compared = Compared::new().await;
    for n in 0..40 {
        let text = format!("leaves of tree {n}");
        let body =
            json!({ "path": format!("{n}.md"), "kind": "document", "workstream": "api", "text": text });
        assert_eq!(compared.artifacts.upload(body).await.0, 201);
    }
    assert_eq!(compared.audit().await["engine"], "embeddings");
    let sizes: Vec<_> = compared
        .endpoint
        .requests
        .lock()
        .unwrap()
        .iter()
        .map(|(_, body)| body["input"].as_array().unwrap().len())
        .collect();
    assert_eq!(sizes, [32, 8]);
}

#[tokio::test]
async fn texts_are_embedded_again_after_the_endpoint_changed_its_model() {
    let compared = Compared::new().await;
    compared.artifacts.report("tea.md", TEA).await;
    compared.audit().await;
    compared.endpoint.enter(Mode::HasOtherModel);
    compared.artifacts.write("drink.md", DRINK).await;
    let audit = compared.audit().await;
    assert_eq!((&audit["engine"], &audit["similarPairs"]), (&json!("embeddings"), &json!(1)), "{audit}");
    assert_eq!(compared.endpoint.texts(), [DRINK, TEA, TEA]);
    compared.audit().await;
    assert_eq!(compared.endpoint.requests(), 3, "both vectors are stored");
}

#[tokio::test]
async fn tokens_of_an_invalid_response_are_counted() {
    let compared = Compared::configured(Some(Usd::whole(2)), false).await;
    compared.endpoint.enter(Mode::LeavesOneOut);
    compared.artifacts.report("tea.md", TEA).await;
    assert_eq!(compared.audit().await["fallback"], "unavailable");
    let expected = json!({ "texts": 0, "tokens": 1_000_000, "spentUsd": "2" });
    assert_eq!(compared.artifacts.score().await["embeddings"], expected);
    let briefing = format!("/api/projects/{}/briefing", compared.artifacts.fixture.project);
    let (_, briefing) = compared.artifacts.fixture.send("GET", &briefing, Value::Null).await;
    let sentence = &briefing["cost"]["sentences"].as_array().unwrap().last().unwrap()["text"];
    assert_eq!(sentence, "Embeddings of 0 texts cost $2 so far.");
}

#[tokio::test]
async fn further_audit_raises_what_the_first_one_left_out() {
    let compared = Compared::new().await;
    for n in 0..8 {
        compared.artifacts.report(&format!("{n}.ts"), &format!("leaves of tree {n}")).await;
        compared.artifacts.write(&format!("{n}.md"), &format!("leaves in guide {n}")).await;
    }
    let first = compared.audit().await;
    assert_eq!((&first["similarPairs"], &first["raisedIssues"]), (&json!(64), &json!(50)), "{first}");
    let mut raised = Vec::new();
    for _ in 0..2 {
        raised.push(compared.audit().await["raisedIssues"].clone());
    }
    assert_eq!(raised, [14, 0]);
}

#[tokio::test]
async fn failing_endpoint_falls_back_to_the_lexical_engine() {
    for (mode, fallback) in [(Mode::IsUnreachable, "unavailable"), (Mode::Refuses, "refused")] {
        let compared = Compared::new().await;
        compared.endpoint.enter(mode);
        let text = "The order totals are computed on the server from quantities and prices in cents.";
        compared.artifacts.report("totals.ts", text).await;
        compared.artifacts.write("guide.md", &format!("{text} Clients show them.")).await;
        let audit = compared.audit().await;
        assert_eq!((&audit["engine"], &audit["fallback"]), (&json!("lexical"), &json!(fallback)), "{audit}");
        assert_eq!(compared.found().await.0, "lexical");
        assert!(compared.artifacts.score().await.get("embeddings").is_none());
        compared.endpoint.enter(Mode::Works);
        assert_eq!(compared.audit().await["engine"], "embeddings");
    }
}

#[tokio::test]
async fn only_the_refused_text_is_compared_by_its_words() {
    let compared = Compared::new().await;
    compared.endpoint.enter(Mode::RefusesText);
    compared.artifacts.report("tea.md", TEA).await;
    compared.artifacts.write("drink.md", DRINK).await;
    let text = "The order totals are computed on the server from quantities and prices in cents.";
    compared.artifacts.report("totals.ts", text).await;
    compared.artifacts.write("guide.md", &format!("{text} Clients are forbidden to.")).await;
    let audit = compared.audit().await;
    assert_eq!((&audit["engine"], audit.get("fallback")), (&json!("embeddings"), None), "{audit}");
    assert_eq!(audit["similarPairs"], 2, "{audit}");
    let issues = compared.artifacts.issues("").await;
    let mut engines: Vec<_> =
        issues.iter().map(|issue| issue["source"]["engine"].as_str().unwrap()).collect();
    engines.sort_unstable();
    assert_eq!(engines, ["embeddings", "lexical"], "{issues:?}");
    let asked = compared.endpoint.requests();
    assert_eq!(compared.audit().await["engine"], "embeddings");
    assert_eq!(compared.endpoint.requests(), asked, "the refused text is sent no more");
}

#[tokio::test]
async fn model_that_refuses_every_text_is_asked_again() {
    let compared = Compared::new().await;
    compared.artifacts.report("tea.md", TEA).await;
    compared.audit().await;
    compared.endpoint.enter(Mode::RefusesTexts);
    compared.artifacts.write("drink.md", DRINK).await;
    let audit = compared.audit().await;
    assert_eq!((&audit["engine"], &audit["fallback"]), (&json!("lexical"), &json!("refused")), "{audit}");
    for n in 0..40 {
        let text = format!("leaves of tree {n}");
        let body =
            json!({ "path": format!("{n}.md"), "kind": "document", "workstream": "api", "text": text });
        assert_eq!(compared.artifacts.upload(body).await.0, 201);
    }
    let before = compared.endpoint.requests();
    assert_eq!(compared.audit().await["fallback"], "refused");
    let asked = compared.endpoint.requests() - before;
    assert!(asked < 20, "{asked} requests");
    compared.endpoint.enter(Mode::Works);
    let audit = compared.audit().await;
    assert_eq!((&audit["engine"], audit.get("fallback")), (&json!("embeddings"), None), "{audit}");
    assert_eq!(audit["similarPairs"], 41, "the tea and the trees are like the drink");
}

#[tokio::test]
async fn project_may_keep_its_texts_from_the_embedding_model() {
    let compared = Compared::new().await;
    compared.configure(json!({ "embeddings": { "enabled": false } })).await;
    compared.artifacts.report("tea.md", TEA).await;
    compared.artifacts.write("drink.md", DRINK).await;
    let audit = compared.audit().await;
    assert_eq!((&audit["engine"], audit.get("fallback")), (&json!("lexical"), None), "{audit}");
    assert_eq!(compared.endpoint.requests(), 0);
    let wrong = json!({ "coherence": { "embeddings": { "advisoryThreshold": 0.9 } } });
    let path = format!("/api/projects/{}", compared.artifacts.fixture.project);
    let (status, body) = compared.artifacts.fixture.send("PATCH", &path, wrong).await;
    assert_eq!((status, violations(&body)), (422, vec!["coherence.embeddings.advisoryThreshold"]));
}

#[tokio::test]
async fn cost_of_embeddings_counts_against_the_spending_cap() {
    let compared = Compared::configured(Some(Usd::whole(2)), false).await;
    let fixture = &compared.artifacts.fixture;
    let path = format!("/api/projects/{}", fixture.project);
    let (status, _) = fixture.send("PATCH", &path, json!({ "spendingCap": { "usd": "2" } })).await;
    assert_eq!(status, 200);
    compared.artifacts.react_to_project().await;
    compared.artifacts.report("tea.md", TEA).await;
    compared.artifacts.write("drink.md", DRINK).await;
    compared.audit().await;
    let (_, project) = fixture.send("GET", &path, Value::Null).await;
    assert_eq!(project["spending"]["drawnUsd"], "2");
    let score = compared.artifacts.score().await;
    assert_eq!(score["embeddings"], json!({ "texts": 2, "tokens": 1_000_000, "spentUsd": "2" }), "{score}");
    assert_eq!(score.get("reviews"), None);
    let briefing = format!("{path}/briefing");
    let (_, briefing) = fixture.send("GET", &briefing, Value::Null).await;
    let sentence = &briefing["cost"]["sentences"].as_array().unwrap().last().unwrap()["text"];
    assert_eq!(sentence, "Embeddings of 2 texts cost $2 so far.");
    compared.artifacts.write("harbour.md", "Ships enter the harbour.").await;
    assert_eq!(compared.audit().await["fallback"], "spending_cap");
    assert_eq!(compared.endpoint.requests(), 1, "nothing is asked at the cap");
}

#[tokio::test]
async fn tokens_without_a_known_price_are_counted() {
    let compared = Compared::new().await;
    compared.artifacts.report("tea.md", TEA).await;
    compared.audit().await;
    let expected = json!({ "texts": 1, "tokens": 1_000_000, "unpricedTokens": 1_000_000, "spentUsd": "0" });
    assert_eq!(compared.artifacts.score().await["embeddings"], expected);
}

#[tokio::test]
async fn report_requests_a_scan_by_embeddings() {
    let compared = Compared::new().await;
    compared.artifacts.write("drink.md", DRINK).await;
    compared.report("tea.md", TEA).await;
    assert_eq!(
        (compared.endpoint.requests(), compared.artifacts.issues("").await.len()),
        (0, 0),
        "reactions do not wait"
    );
    assert_eq!(compared.scan().await, [] as [Duration; 0]);
    assert_eq!(compared.found().await.0, "embeddings");
    assert_eq!(compared.endpoint.requests(), 1);
    compared.artifacts.fixture.advance(Duration::from_secs(10));
    compared.report("dry.md", "Dry leaves.").await;
    compared.scan().await;
    assert_eq!(compared.endpoint.texts().len(), 3, "only the new text");
}

#[tokio::test]
async fn scan_is_repeated_when_the_endpoint_is_back() {
    let compared = Compared::new().await;
    compared.endpoint.enter(Mode::IsUnreachable);
    compared.artifacts.write("drink.md", DRINK).await;
    compared.report("tea.md", TEA).await;
    assert_eq!(compared.scan().await, [Duration::from_mins(2)]);
    assert_eq!(compared.artifacts.issues("").await.len(), 0, "their words differ");
    // The lexical engine compares a version that is reported during the outage.
    compared.artifacts.fixture.advance(Duration::from_secs(10));
    compared.artifacts.write("copy.md", "Green leaves grow on hills. Really.").await;
    compared.report("other.md", "Ships enter the harbour.").await;
    assert_eq!(compared.found().await.0, "lexical");
    compared.artifacts.fixture.advance(Duration::from_mins(2));
    assert_eq!(compared.scan().await, [Duration::from_mins(4)]);
    compared.endpoint.enter(Mode::Works);
    compared.artifacts.fixture.advance(Duration::from_secs(241));
    assert_eq!(compared.scan().await, [] as [Duration; 0]);
    let issues = compared.artifacts.issues("").await;
    let engines: Vec<_> = issues.iter().map(|issue| issue["source"]["engine"].as_str().unwrap()).collect();
    assert_eq!(engines.iter().filter(|engine| **engine == "embeddings").count(), 1, "{issues:?}");
    assert_eq!(engines.len(), 2, "{issues:?}");
}

#[tokio::test]
async fn artifact_that_a_decision_names_must_reflect_it() {
    let compared = Compared::new().await;
    let guide = compared.artifacts.write("guide.md", TEA).await["artifactId"].clone();
    compared.decide(&guide).await;
    let audit = compared.audit().await;
    assert_eq!((&audit["comparedDecisions"], &audit["misalignedPairs"]), (&json!(1), &json!(1)), "{audit}");
    let issue = compared.artifacts.only_issue().await;
    assert_eq!(
        (&issue["source"]["type"], &issue["source"]["check"]),
        (&json!("alignment"), &json!("not_reflected"))
    );
    assert_eq!((&issue["category"], &issue["severity"]), (&json!("gap"), &json!("medium")));
    assert_eq!(issue["affectedArtifactIds"], json!([guide]));
    assert_eq!(issue["affectedWorkstreams"], json!(["docs", "api"]));
    assert!(compared.endpoint.texts().contains(&"Which store?\nSQLite\nNo server.".to_owned()));
    assert_eq!(compared.audit().await["raisedIssues"], 0, "it is raised once");
}

#[tokio::test]
async fn artifact_on_the_subject_of_a_decision_waits_for_a_model() {
    for (has_model, issues) in [(true, 1), (false, 0)] {
        let compared = Compared::configured(None, has_model).await;
        let code = compared.artifacts.report("src/code.ts", "The tea leaves.").await["artifactId"].clone();
        compared.artifacts.write("ships.md", "Ships enter the harbour.").await;
        compared.decide(&code).await;
        let audit = compared.audit().await;
        // The decision names the code, which is about something else, and is 97 % similar to the document.
        assert_eq!(audit["misalignedPairs"], 1 + issues, "{audit}");
        let found = compared.artifacts.issues("category=contradiction").await;
        assert_eq!(found.len(), issues);
        if let Some(issue) = found.first() {
            assert_eq!(issue["source"]["check"], "same_subject");
        }
    }
}

#[tokio::test]
async fn choice_is_compared_when_it_is_made() {
    let artifacts = Artifacts::new().await;
    let code = artifacts.report("src/log.ts", "Logs rotate daily.").await["artifactId"].clone();
    artifacts.react_to(&code, 1).await;
    artifacts.fixture.advance(Duration::from_secs(10));
    artifacts.fixture.observe(proposes("q1", "SQLite", &code)).await;
    artifacts
        .fixture
        .resolve("q1", json!({ "resolutionType": "choose_option", "chosenOptionId": "Redis" }))
        .await;
    assert_eq!(artifacts.issues("").await, [] as [Value; 0]);
    artifacts.fixture.react().await;
    let issue = artifacts.only_issue().await;
    assert_eq!(
        (&issue["source"]["check"], &issue["source"]["engine"]),
        (&json!("not_reflected"), &json!("lexical"))
    );
    assert_eq!(issue["title"], "src/log.ts does not reflect “Redis”");
}
