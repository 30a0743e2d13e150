//! Requirements of briefs on workspaces, and defaults of templates (decision 92).

use pilothouse_app::placement::WorkerAssigner;
use pilothouse_store::{Commit, WorkerKey};
use pilothouse_wire::worker::Heartbeat;
use serde_json::{Value, json};

use crate::fixture::{ProjectFixture, owner};

fn agent(brief: &Value) -> Value {
    let mut all = json!({ "role": "Builder", "workstream": "api" });
    all.as_object_mut().unwrap().extend(brief.as_object().unwrap().clone());
    json!({ "brief": all, "objective": "Build it", "workingDirectory": "/w", "budgetCapUsd": "5" })
}

impl ProjectFixture {
    /// The worker `gpu-1` of the owner sends a heartbeat.
    async fn worker_announces(&self, workspace: Value) {
        self.announces("gpu-1", workspace).await;
    }

    async fn announces(&self, id: &str, workspace: Value) {
        let assigner = WorkerAssigner::of(&self.app);
        let key = WorkerKey { owner: owner(), id: id.parse().unwrap() };
        let heartbeat = json!({ "capacity": 2, "workspace": workspace });
        let heartbeat: Heartbeat = serde_json::from_value(heartbeat).unwrap();
        assigner.record_heartbeat(&key, &heartbeat).await.unwrap();
    }
}

#[tokio::test]
async fn start_that_no_worker_can_satisfy_is_refused() {
    let fixture = ProjectFixture::spawned().await;
    let needed = agent(&json!({ "workspaceRequirements": { "capabilities": ["terminal", "gpu"] } }));
    let (status, body) = fixture.send("POST", "/api/agents/spawn", needed.clone()).await;
    let violation = &body["violations"][0];
    assert_eq!((status, &violation["field"]), (422, &json!("brief.workspaceRequirements")), "{body}");
    assert_eq!(violation["message"], "no worker satisfies them: there is none");

    fixture.worker_announces(json!({ "capabilities": ["terminal", "git"] })).await;
    let (status, body) = fixture.send("POST", "/api/agents/spawn", needed.clone()).await;
    let why = "no worker satisfies them: the worker gpu-1: it does not announce the capability `gpu`";
    assert_eq!((status, &body["violations"][0]["message"]), (422, &json!(why)), "{body}");
    let path = format!("/api/agents/{}/brief", fixture.agent);
    let change = json!({ "workspaceRequirements": { "capabilities": ["gpu"] } });
    let (status, body) = fixture.send("PATCH", &path, change.clone()).await;
    assert_eq!((status, &body["violations"][0]["field"]), (422, &json!("workspaceRequirements")), "{body}");

    fixture.worker_announces(json!({ "capabilities": ["terminal", "gpu"] })).await;
    let (status, spawned) = fixture.send("POST", "/api/agents/spawn", needed).await;
    assert!(status == 201 || status == 202, "{spawned}");
    assert_eq!(spawned.get("warnings"), None);
    assert_eq!(fixture.send("PATCH", &path, change).await.0, 200);
    let workers = fixture.app.store.workers(&owner(), 10, None).await.unwrap();
    let announced = serde_json::to_value(&workers.items[0].value.workspace.capabilities).unwrap();
    assert_eq!(announced, json!(["terminal", "gpu"]));
}

#[tokio::test]
async fn start_that_needs_more_disk_than_workers_announce_is_refused() {
    let fixture = ProjectFixture::spawned().await;
    let spawn = async |disk: u64| {
        let limits = json!({ "workspaceRequirements": { "resourceLimits": { "diskMb": disk } } });
        fixture.send("POST", "/api/agents/spawn", agent(&limits)).await
    };
    for (announced, lacks) in [
        (json!({}), "it does not announce its free disk, which `diskMb` needs"),
        (json!({ "freeDiskMb": 10239 }), "it has 10239 MiB of free disk, and `diskMb` is 10240"),
    ] {
        fixture.worker_announces(announced).await;
        let (status, body) = spawn(10240).await;
        let why = format!("no worker satisfies them: the worker gpu-1: {lacks}");
        assert_eq!((status, &body["violations"][0]["message"]), (422, &json!(why)), "{body}");
        assert_eq!(body["violations"][0]["field"], "brief.workspaceRequirements");
    }
    fixture.worker_announces(json!({ "freeDiskMb": 10240 })).await;
    let (status, spawned) = spawn(10240).await;
    assert!(status == 201 || status == 202, "{spawned}");

    let (status, body) = spawn(16_777_217).await;
    let field = "brief.workspaceRequirements.resourceLimits.diskMb";
    assert_eq!((status, &body["violations"][0]["field"]), (422, &json!(field)), "{body}");
}

#[tokio::test]
async fn requirements_that_the_place_of_a_session_lacks_are_refused() {
    let fixture = ProjectFixture::spawned().await;
    fixture.announces("small", json!({ "capabilities": ["terminal"] })).await;
    fixture.announces("large", json!({ "capabilities": ["terminal", "gpu"] })).await;
    // The session has run on the worker without a GPU.
    let mut commit = Commit::new();
    let small = WorkerKey { owner: owner(), id: "small".parse().unwrap() };
    commit.record_session_worker(fixture.session, &small).unwrap();
    fixture.app.store.commit(commit).await.unwrap();
    let path = format!("/api/agents/{}/brief", fixture.agent);
    let needed = |capability: &str| json!({ "workspaceRequirements": { "capabilities": [capability] } });
    let (status, body) = fixture.send("PATCH", &path, needed("gpu")).await;
    let why = "the session of the agent stays where it has run: the worker small: it does not announce the capability `gpu`";
    assert_eq!((status, &body["violations"][0]["message"]), (422, &json!(why)), "{body}");
    assert_eq!(body["violations"][0]["field"], "workspaceRequirements");
    assert_eq!(fixture.send("PATCH", &path, needed("terminal")).await.0, 200);
}

/// The files of the session use the disk there, and a worker of an earlier version announces none.
#[tokio::test]
async fn required_disk_can_change_where_a_session_has_run() {
    let fixture = ProjectFixture::spawned().await;
    let path = format!("/api/agents/{}/brief", fixture.agent);
    let change = async |disk: u64| {
        let limits = json!({ "workspaceRequirements": { "resourceLimits": { "diskMb": disk } } });
        fixture.send("PATCH", &path, limits).await
    };
    fixture.worker_announces(json!({ "freeDiskMb": 99 })).await;
    let (status, body) = change(100).await;
    let why = "no worker satisfies them: the worker gpu-1: it has 99 MiB of free disk, and `diskMb` is 100";
    assert_eq!((status, &body["violations"][0]["message"]), (422, &json!(why)), "{body}");

    let mut commit = Commit::new();
    let home = WorkerKey { owner: owner(), id: "gpu-1".parse().unwrap() };
    commit.record_session_worker(fixture.session, &home).unwrap();
    fixture.app.store.commit(commit).await.unwrap();
    for (announced, disk) in [(json!({ "freeDiskMb": 99 }), 100), (json!({}), 200)] {
        fixture.worker_announces(announced).await;
        let (status, body) = change(disk).await;
        assert_eq!(status, 200, "{body}");
    }
}

#[tokio::test]
async fn brief_without_requirements_warns_of_what_it_suggests() {
    let fixture = ProjectFixture::spawned().await;
    fixture.worker_announces(json!({ "capabilities": ["terminal"] })).await;
    for (brief, expected) in [
        (json!({ "allowedTools": ["Bash"] }), None),
        (json!({ "allowedTools": ["WebFetch"] }), Some("suggest browser, network_external")),
        (json!({}), None),
    ] {
        let (status, spawned) = fixture.send("POST", "/api/agents/spawn", agent(&brief)).await;
        assert!(status == 201 || status == 202, "{spawned}");
        let warnings = spawned["warnings"].as_array().cloned().unwrap_or_default();
        assert_eq!(warnings.len(), usize::from(expected.is_some()), "{warnings:?}");
        assert!(expected.is_none_or(|text| warnings[0].as_str().unwrap().contains(text)), "{warnings:?}");
    }
}

#[tokio::test]
async fn template_supplies_fields_of_a_brief_that_a_spawn_overrides() {
    let fixture = ProjectFixture::spawned().await;
    let template = json!({
        "name": "Reviewer", "modelId": "m", "allowedTools": ["Read"], "defaultBudgetCapUsd": "5",
        "briefDefaults": {
            "role": "Reviewer", "constraints": ["Change nothing"],
            "sessionPolicy": { "historyPolicy": "summarized" },
            "delegationPolicy": { "canSpawnSubagents": false },
        },
    });
    let (status, made) = fixture.send("POST", "/api/agents/templates", template).await;
    assert_eq!((status, &made["briefDefaults"]["role"]), (201, &json!("Reviewer")), "{made}");
    let spawn = |brief: Value| json!({ "templateId": made["id"], "brief": brief, "objective": "Review it", "workingDirectory": "/w" });
    let given = json!({ "workstream": "api", "constraints": ["Be short"], "delegationPolicy": null });
    let (status, spawned) = fixture.send("POST", "/api/agents/spawn", spawn(given)).await;
    assert!(status == 201 || status == 202, "{spawned}");
    let brief = &spawned["agent"]["brief"];
    assert_eq!((&brief["role"], &brief["constraints"]), (&json!("Reviewer"), &json!(["Be short"])));
    assert_eq!(brief["sessionPolicy"], json!({ "historyPolicy": "summarized" }));
    assert_eq!(brief.get("delegationPolicy"), None, "the spawn removes it");
    let (status, body) = fixture.send("POST", "/api/agents/spawn", spawn(json!({}))).await;
    assert_eq!((status, &body["violations"][0]["field"]), (422, &json!("brief.workstream")), "{body}");
    let (status, body) =
        fixture.send("POST", "/api/agents/spawn", spawn(json!({ "colour": 1, "maxTurns": 2 }))).await;
    let fields: Vec<_> = body["violations"].as_array().unwrap().iter().map(|it| &it["field"]).collect();
    assert_eq!((status, fields), (422, vec![&json!("brief.colour"), &json!("brief.maxTurns")]), "{body}");
}

#[tokio::test]
async fn wrong_defaults_of_a_template_are_all_named() {
    let fixture = ProjectFixture::spawned().await;
    let template = |defaults: Value| {
        json!({ "name": "T", "modelId": "m", "allowedTools": ["Read"], "defaultBudgetCapUsd": "5",
            "briefDefaults": defaults })
    };
    for (defaults, expected) in [
        (
            json!({ "adapter": "acp", "allowedTools": ["x"] }),
            vec!["briefDefaults.adapter", "briefDefaults.allowedTools"],
        ),
        (json!({ "role": "", "colour": 1 }), vec!["briefDefaults.role", "briefDefaults.colour"]),
        (json!([1]), vec!["briefDefaults"]),
    ] {
        let (status, body) = fixture.send("POST", "/api/agents/templates", template(defaults)).await;
        assert_eq!(status, 422, "{body}");
        let fields: Vec<_> =
            body["violations"].as_array().unwrap().iter().map(|it| it["field"].as_str().unwrap()).collect();
        assert_eq!(fields.len(), expected.len(), "{body}");
        assert!(expected.iter().all(|field| fields.contains(field)), "{fields:?}");
    }
    let (_, made) = fixture.send("POST", "/api/agents/templates", template(json!({ "role": "R" }))).await;
    let path = format!("/api/agents/templates/{}", made["id"].as_str().unwrap());
    let (status, changed) = fixture.send("PUT", &path, json!({ "briefDefaults": null })).await;
    assert_eq!((status, changed.get("briefDefaults")), (200, None), "{changed}");
}
