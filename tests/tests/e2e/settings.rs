//! Settings of the server.

use pilothouse_tests::Session;
use reqwest::Method;
use serde_json::{Value, json};

use crate::scripts::short;
use crate::server::Server;

#[tokio::test]
async fn settings_of_the_operator_are_shown() {
    let settings = [("PILOTHOUSE_RETENTION_DAYS", "30"), ("PILOTHOUSE_ALLOWED_MODELS", "small, gpt-*")];
    let server = Server::start_with(1, &settings).await;
    let settings = server.api().get("/api/settings").await.expect(200).body;
    assert_eq!(
        settings,
        json!({
            "defaultAdapter": "script", "allowedModels": ["small", "gpt-*"], "retentionDays": 30,
            "reviewsCoherence": false, "embedsTexts": false,
        })
    );
    server.api_with(None).get("/api/settings").await.refused(401, "unauthenticated");
}

#[tokio::test]
async fn only_models_that_the_operator_allows_are_used() {
    let server = Server::start_with(1, &[("PILOTHOUSE_ALLOWED_MODELS", "small,large-*")]).await;
    let api = server.api();
    let start = |model: Option<&str>| {
        json!({
            "workingDirectory": server.work_folder(), "objective": "Do it", "budgetCapUsd": "1", "adapter": "script",
            "adapterOptions": { "script": short() }, "modelId": model,
        })
    };
    let refused = async |method: Method, path: &str, body: Value, field: &str, sentence: &str| {
        let reply = api.send(method, path, &[], Some(body.to_string().into_bytes())).await;
        let problem = reply.expect(422).body;
        assert_eq!(problem["violations"], json!([{ "field": field, "message": sentence }]), "{problem}");
    };
    let other = "must be `small` or `large-*`, not `other`";
    let sessions = "/api/agents/sessions";
    refused(Method::POST, sessions, start(Some("other")), "modelId", other).await;
    let default = "must be `small` or `large-*`, not `default`";
    refused(Method::POST, sessions, start(None), "modelId", default).await;
    let mut fallback = start(Some("small"));
    fallback["adapterOptions"]["fallbackModel"] = json!("other");
    refused(Method::POST, sessions, fallback, "adapterOptions.fallbackModel", other).await;
    let template = json!({
        "name": "T", "modelId": "other", "allowedTools": ["Read"], "defaultBudgetCapUsd": "1", "adapter": "script",
    });
    refused(Method::POST, "/api/agents/templates", template, "modelId", other).await;
    let project = json!({ "name": "P", "description": "d", "goals": [], "workstreams": [{ "id": "api", "name": "API" }] });
    api.post("/api/projects", project).await.expect(201);
    let agent = json!({
        "objective": "Do it", "workingDirectory": server.work_folder(), "budgetCapUsd": "1",
        "brief": { "role": "Builder", "workstream": "api", "adapter": "script", "modelPreference": "other" },
    });
    refused(Method::POST, "/api/agents/spawn", agent, "brief.modelPreference", other).await;

    let session = Session::start(&api, start(Some("large-2"))).await;
    session.until_status("Idle").await;
    let path = session.path("");
    refused(Method::PATCH, &path, json!({ "modelId": "other" }), "modelId", other).await;
    let cycle =
        "cannot be used on this server, because the model must be `small` or `large-*`; name it with modelId";
    refused(Method::PATCH, &path, json!({ "cycleModel": "forward" }), "cycleModel", cycle).await;
    session.patch("", json!({ "modelId": "small" })).await.expect(202);
    session.until("the model", |view| view["modelId"] == "small").await;
}
