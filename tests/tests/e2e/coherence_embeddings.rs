//! Texts that an embedding model compares: a server process, real agents, and a scripted model on loopback (decision 88).

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;

use pilothouse_model_server::{Embeddings, Failure, ModelServer, Script};
use pilothouse_tests::{Api, PATIENCE};
use serde_json::{Value, json};

use crate::artifacts::{Agent, builder, own_tool, project, writer};
use crate::server::Server;

const KEY: &str = "sk-of-the-embeddings";
const TEA: &str = "Green leaves grow on hills and are picked by hand in the spring.";
const DRINK: &str = "A hot beverage comes from plants.";

/// The vectors of the texts, or a failure of every request.
fn embeds(fail: Option<Failure>) -> Script {
    let vectors = [("leaves", vec![1.0, 0.0]), ("beverage", vec![0.9, 0.44])];
    let embeddings = Embeddings { fail, ..Embeddings::of(vectors) };
    Script { key: Some(KEY.to_owned()), embeddings, ..Script::default() }
}

/// The embedded texts, once for each request that succeeded.
fn embedded(model: &ModelServer) -> Vec<String> {
    let succeeded = model.embeddings().into_iter().filter(|request| request.status == Some(200));
    let inputs = succeeded.flat_map(|request| request.body["input"].as_array().unwrap().clone());
    inputs.map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// The use of the model, once so many texts are embedded.
async fn usage(api: &Api, agent: &Agent, project: &str, texts: u64) -> Value {
    let path = format!("/api/projects/{project}/coherence");
    let look = async || {
        let score = api.get(&path).await.expect(200).body;
        (score["embeddings"]["texts"] == texts).then(|| score["embeddings"].clone())
    };
    agent.session.until_within(PATIENCE, "the embeddings", look).await
}

/// The engines that found the issues, once there are so many.
async fn engines(api: &Api, agent: &Agent, issues: usize) -> BTreeSet<String> {
    let look = async || {
        let listed = api.get("/api/coherence").await.expect(200).body["items"].as_array().unwrap().clone();
        let engine = |issue: &Value| issue["source"]["engine"].as_str().unwrap().to_owned();
        (listed.len() == issues).then(|| listed.iter().map(engine).collect())
    };
    agent.session.until_within(PATIENCE, "the issues", look).await
}

#[tokio::test]
async fn texts_are_embedded_once_and_compared_by_words_in_an_outage() {
    let model = ModelServer::start(embeds(None)).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("embeddings.key");
    std::fs::write(&key, format!("{KEY}\n")).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (url, key) = (model.openai_base_url(), key.display().to_string());
    let environment = [
        ("PILOTHOUSE_EMBEDDINGS_URL", url.as_str()),
        ("PILOTHOUSE_EMBEDDINGS_MODEL", "small"),
        ("PILOTHOUSE_EMBEDDINGS_PRICE", "1000"),
        ("PILOTHOUSE_EMBEDDINGS_KEY_FILE", key.as_str()),
        ("NO_PROXY", "127.0.0.1"),
    ];
    let server = Server::start_with(20, &environment).await;
    let api = server.api();
    let project = project(&api).await;
    let path = format!("/api/projects/{project}");
    api.patch(&path, json!({ "spendingCap": { "usd": "1000" } })).await.expect(200);
    let document = |path: &str, text: &str| json!({ "path": path, "kind": "document", "text": text });
    let copy = format!("{TEA} Or in autumn.");
    let waits = json!({ "waitForMessage": {} });
    let builds = [
        own_tool("b1", "report_artifact", &document("tea.md", TEA)),
        waits.clone(),
        own_tool("b2", "report_artifact", &document("tea.md", TEA)),
    ];
    let building = Agent::spawn(&server, builder(), &builds).await;
    building.result("b1").await;
    usage(&api, &building, &project, 1).await;

    // A report ten ticks later causes the next scan.
    api.post("/api/tick/advance", json!({ "ticks": 10 })).await.expect(200);
    let writes = [
        own_tool("w1", "report_artifact", &document("drink.md", DRINK)),
        waits,
        own_tool("w2", "report_artifact", &document("copy.md", &copy)),
    ];
    let writing = Agent::spawn(&server, writer(&[]), &writes).await;
    writing.result("w1").await;
    assert_eq!(engines(&api, &writing, 1).await, BTreeSet::from(["embeddings".to_owned()]));
    building.session.say("Again", "Immediate").await;
    building.result("b2").await;
    let audit = async || api.post("/api/coherence/audit", json!({})).await.expect(200).body;
    assert_eq!(audit().await["engine"], "embeddings");
    assert_eq!(embedded(&model), [TEA, DRINK], "each text once");

    // During an outage, words are compared.
    model.play(embeds(Some(Failure::ServerError)));
    writing.session.say("Copy it", "Immediate").await;
    writing.result("w2").await;
    let outage = audit().await;
    assert_eq!(
        (&outage["engine"], &outage["fallback"]),
        (&json!("lexical"), &json!("unavailable")),
        "{outage}"
    );
    let both = BTreeSet::from(["embeddings".to_owned(), "lexical".to_owned()]);
    assert_eq!(engines(&api, &writing, 2).await, both);

    // The model is back, and is asked for the new text only.
    model.play(embeds(None));
    assert_eq!(audit().await["engine"], "embeddings");
    assert_eq!(embedded(&model), [TEA, DRINK, copy.as_str()]);

    // The embeddings count against the spending cap.
    let used = usage(&api, &writing, &project, 3).await;
    assert!(used["tokens"].as_u64().unwrap() > 20 && used["spentUsd"] != "0", "{used}");
    let drawn = async || {
        let view = api.get(&path).await.expect(200).body;
        (view["spending"]["drawnUsd"] == used["spentUsd"]).then_some(())
    };
    writing.session.until_within(PATIENCE, "the spending of the project", drawn).await;
    let settings = api.get("/api/settings").await.expect(200).body;
    assert_eq!((&settings["embedsTexts"], &settings["reviewsCoherence"]), (&json!(true), &json!(false)));
}
