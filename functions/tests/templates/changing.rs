//! Creating and changing templates (S0 8.9).

use serde_json::{Value, json};

use crate::fixture::{TemplatesFixture, schedule, template};

const NOW: &str = "2026-05-01T12:00:00.000Z";

#[tokio::test]
async fn template_stores_its_input() {
    let fixture = TemplatesFixture::at(NOW).await;
    let all = json!({
        "name": "Triage", "description": "Sorts mail", "modelId": "small", "systemPrompt": "Be brief.",
        "allowedTools": ["Read", "Bash"], "defaultBudgetCapUsd": "2.5", "warnAtPercent": 70,
        "planApprovalRequired": false, "executionMode": "ParallelBatch", "adapter": "claude",
        "adapterOptions": { "effort": "high" }, "requestTimeoutSeconds": 60, "defaultAnswer": "Go on",
        "contextWarnAtPercent": 75,
        "defaultAutoContinueConfig": {
            "validationCriteria": [{ "type": "TestsPassing", "customCommand": "make test" }],
            "maxContinuations": 2, "isEnabled": true,
        },
        "classificationRules": [
            { "matchField": "subject", "matchPattern": "*invoice*", "classifyAs": "invoice", "minPriority": "High" },
        ],
        "schedule": schedule("0 2 * * *"),
    });
    let made = fixture.post("/templates", all).await.expect(201);
    let path = format!("/templates/{}", made["id"].as_str().unwrap());
    assert_eq!(fixture.get(&path).await.expect(200), made);
    assert_eq!((&made["version"], &made["isActive"]), (&json!(1), &json!(true)));
    assert_eq!(
        made["defaultBudget"],
        json!({ "hardCapUsd": "2.5", "warnAtPercent": 70, "allowUnmetered": false })
    );
    assert_eq!(
        (&made["executionMode"], &made["adapterOptions"]["effort"]),
        (&json!("ParallelBatch"), &json!("high"))
    );
    assert_eq!(made["classificationRules"][0]["minPriority"], "High");
    assert_eq!(made["schedule"]["nextRunAt"], "2026-05-02T00:00:00.000Z", "two o'clock in Berlin");
    let list = fixture.get("/templates").await.expect(200);
    assert_eq!((&list["items"][0]["name"], &list["items"][0]["ruleCount"]), (&json!("Triage"), &json!(1)));
}

#[tokio::test]
async fn invalid_template_reports_all_violations_and_creates_nothing() {
    let fixture = TemplatesFixture::at(NOW).await;
    let wrong = json!({
        "name": "x".repeat(101), "allowedTools": [], "defaultBudgetCapUsd": "0", "warnAtPercent": 100,
        "adapter": "no spaces", "requestTimeoutSeconds": 0, "executionMode": "Sometimes", "colour": "red",
        "classificationRules": [{ "matchField": "", "matchPattern": "a\\", "classifyAs": "x", "minPriority": "Soon" }],
        "schedule": { "cronExpression": "0 0 30 2 *", "timeZone": "Europe/Bonn", "launch": { "objective": "" } },
    });
    let fields = fixture.post("/templates", wrong).await.violations();
    assert_eq!(
        fields,
        [
            "adapter",
            "allowedTools",
            "classificationRules[0].matchField",
            "classificationRules[0].matchPattern",
            "classificationRules[0].minPriority",
            "colour",
            "defaultBudgetCapUsd",
            "executionMode",
            "modelId",
            "name",
            "requestTimeoutSeconds",
            "schedule.cronExpression",
            "schedule.launch.objective",
            "schedule.launch.workingDirectory",
            "schedule.timeZone",
            "warnAtPercent",
        ]
    );
    assert_eq!(fixture.get("/templates").await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn update_changes_named_fields_and_null_clears_them() {
    let fixture = TemplatesFixture::at(NOW).await;
    let path = fixture.template(json!({ "systemPrompt": "Be brief.", "description": "Sorts mail" })).await;
    let update = json!({
        "name": "Sorter", "systemPrompt": null, "warnAtPercent": 50, "defaultAnswer": "Yes",
        "allowedTools": ["Bash"], "defaultBudgetCapUsd": "3", "planApprovalRequired": false,
    });
    let changed = fixture.ask("PUT", &path, update).await.expect(200);
    assert_eq!((&changed["name"], &changed["version"]), (&json!("Sorter"), &json!(2)));
    assert_eq!((&changed["systemPrompt"], &changed["description"]), (&Value::Null, &json!("Sorts mail")));
    assert_eq!(
        changed["defaultBudget"],
        json!({ "hardCapUsd": "3", "warnAtPercent": 50, "allowUnmetered": false })
    );
    assert_eq!(
        (&changed["allowedTools"], &changed["planApprovalRequired"]),
        (&json!(["Bash"]), &json!(false))
    );
    assert_eq!(changed["defaultAnswer"], "Yes");
    // An update without a difference changes nothing.
    assert_eq!(fixture.ask("PUT", &path, json!({ "name": "Sorter" })).await.expect(200), changed);
    let wrong = json!({ "allowedTools": [], "contextWarnAtPercent": 0, "description": "" });
    assert_eq!(
        fixture.ask("PUT", &path, wrong).await.violations(),
        ["allowedTools", "contextWarnAtPercent", "description"]
    );
    assert_eq!(fixture.get(&path).await.expect(200), changed);
}

#[tokio::test]
async fn fallback_model_of_a_template_is_an_allowed_one() {
    let mut fixture = TemplatesFixture::at(NOW).await;
    let options = |model: &str| json!({ "adapterOptions": { "fallbackModel": model } });
    let limited = |model: &str| {
        let mut all = template(options(model));
        all["allowedModels"] = json!(["small", "medium"]);
        all
    };
    let refused = ["adapterOptions.fallbackModel"];
    assert_eq!(fixture.post("/templates", limited("large")).await.violations(), refused);
    let made = fixture.post("/templates", limited("medium")).await.expect(201);
    let path = format!("/templates/{}", made["id"].as_str().unwrap());
    assert_eq!(fixture.ask("PUT", &path, options("large")).await.violations(), refused);
    assert_eq!(fixture.ask("PUT", &path, json!({ "allowedModels": ["small"] })).await.violations(), refused);

    let start = |options: Value| {
        let mut all = json!({ "workingDirectory": "/w", "objective": "Do it", "templateId": made["id"] });
        all["adapterOptions"] = options;
        all
    };
    let large = json!({ "fallbackModel": "large" });
    assert_eq!(fixture.post("/sessions", start(large)).await.violations(), refused);
    fixture.post("/sessions", start(Value::Null)).await.expect(201);

    // The list of the operator applies to the options of the template, too.
    fixture.allow_models(&["small"]);
    assert_eq!(fixture.post("/sessions", start(Value::Null)).await.violations(), refused);
    assert_eq!(fixture.post("/templates", template(options("medium"))).await.violations(), refused);
    assert_eq!(fixture.ask("PUT", &path, options("other")).await.violations(), refused);
    let skill = fixture.skill("One").await;
    let mut consolidation = options("medium");
    consolidation["workingDirectory"] = json!("/w");
    consolidation["budgetCapUsd"] = json!("1");
    consolidation["modelId"] = json!("small");
    let reply = fixture.post(&format!("/skills/{skill}/consolidate"), consolidation).await;
    assert_eq!(reply.violations(), refused);
}

/// Claude Code's options as a list: the permission mode and the fallback model would not be checked.
#[tokio::test]
async fn options_of_an_adapter_are_an_object() {
    let fixture = TemplatesFixture::at(NOW).await;
    let path = fixture.template(json!({ "allowedModels": ["small"] })).await;
    let list = json!({ "adapterOptions": [null, "bypassPermissions", false, null, "large"] });
    let refused = ["adapterOptions"];
    assert_eq!(fixture.post("/templates", template(list.clone())).await.violations(), refused);
    assert_eq!(fixture.ask("PUT", &path, list.clone()).await.violations(), refused);
    let mut start = list;
    start["workingDirectory"] = json!("/w");
    start["objective"] = json!("Do it");
    start["templateId"] = path.rsplit('/').next().into();
    assert_eq!(fixture.post("/sessions", start.clone()).await.violations(), refused);
    start["adapterOptions"] = json!({});
    fixture.post("/sessions", start).await.expect(201);
}

#[tokio::test]
async fn rules_are_added_and_removed_individually() {
    let fixture = TemplatesFixture::at(NOW).await;
    let path = fixture.template(Value::Null).await;
    let rule = json!({ "matchField": "from", "matchPattern": "*@example.com", "classifyAs": "ours" });
    let with = fixture.post(&format!("{path}/rules"), rule).await.expect(201);
    let id = with["classificationRules"][0]["id"].as_str().unwrap().to_owned();
    let without = fixture.ask("DELETE", &format!("{path}/rules/{id}"), Value::Null).await.expect(200);
    assert_eq!(without["classificationRules"], json!([]));
    assert_eq!(
        fixture.ask("DELETE", &format!("{path}/rules/{id}"), Value::Null).await.code(404),
        "not-found"
    );
    assert_eq!(fixture.ask("DELETE", &format!("{path}/rules/x"), Value::Null).await.code(404), "not-found");
}

#[tokio::test]
async fn tools_need_unique_names_and_valid_schemas() {
    let fixture = TemplatesFixture::at(NOW).await;
    let path = fixture.template(Value::Null).await;
    let tools = format!("{path}/tools");
    let tool = |name: &str, schema: &str, server: &str| json!({ "name": name, "description": "Looks things up", "inputSchema": schema, "serverUri": server });
    let find = tool("find", r#"{"type":"object"}"#, "https://a.example/mcp");
    let with = fixture.post(&tools, find.clone()).await.expect(201);
    assert_eq!(with["customToolDefinitions"], json!([find]));
    assert_eq!(
        fixture.post(&tools, find).await.expect(201)["version"],
        with["version"],
        "a repeated tool changes nothing"
    );
    let other = tool("find", "{}", "https://b.example/mcp");
    assert_eq!(fixture.post(&tools, other).await.code(409), "tool-exists");
    let wrong = tool("look", r#"{"type":"text"}"#, "b.example");
    assert_eq!(fixture.post(&tools, wrong).await.violations(), ["inputSchema", "serverUri"]);
    assert_eq!(fixture.ask("DELETE", &format!("{tools}/look"), Value::Null).await.code(404), "not-found");
    let without = fixture.ask("DELETE", &format!("{tools}/find"), Value::Null).await.expect(200);
    assert_eq!(without["customToolDefinitions"], json!([]));
    let twice = json!({ "customToolDefinitions": [
        tool("find", "{}", "https://a.example"), tool("find", "{}", "https://b.example"),
    ]});
    let reply = fixture.post("/templates", crate::fixture::template(twice)).await;
    assert_eq!(reply.violations(), ["customToolDefinitions"]);
}

#[tokio::test]
async fn default_skills_must_exist_and_be_active() {
    let fixture = TemplatesFixture::at(NOW).await;
    let path = fixture.template(Value::Null).await;
    let skill = fixture.skill("Care").await;
    let at = format!("{path}/skills/{skill}");
    let with = fixture.post(&at, Value::Null).await.expect(200);
    assert_eq!(with["defaultSkillIds"], json!([skill]));
    assert_eq!(fixture.post(&at, Value::Null).await.expect(200)["version"], with["version"]);
    let without = fixture.ask("DELETE", &at, Value::Null).await.expect(200);
    assert_eq!(without["defaultSkillIds"], json!([]));
    assert_eq!(fixture.ask("DELETE", &at, Value::Null).await.code(404), "not-found");

    let gone = "01900000-0000-7000-8000-000000000001";
    assert_eq!(fixture.post(&format!("{path}/skills/{gone}"), Value::Null).await.code(404), "not-found");
    fixture.post(&format!("/skills/{skill}/deactivate"), Value::Null).await.expect(200);
    assert_eq!(fixture.post(&at, Value::Null).await.code(409), "skill-inactive");
    let both = json!({ "defaultSkillIds": [gone, skill] });
    let reply = fixture.post("/templates", crate::fixture::template(both)).await;
    assert_eq!(reply.violations(), ["defaultSkillIds[0]", "defaultSkillIds[1]"]);
}

#[tokio::test]
async fn schedule_can_be_set_and_removed() {
    let fixture = TemplatesFixture::at(NOW).await;
    let path = fixture.template(Value::Null).await;
    let set = fixture.ask("PUT", &format!("{path}/schedule"), schedule("30 14 * * *")).await.expect(200);
    assert_eq!(set["schedule"]["nextRunAt"], "2026-05-01T12:30:00.000Z");
    let again = fixture.ask("PUT", &format!("{path}/schedule"), schedule("30 14 * * *")).await.expect(200);
    assert_eq!(again, set);
    let mut off = schedule("30 14 * * *");
    off["isEnabled"] = json!(false);
    let off = fixture.ask("PUT", &format!("{path}/schedule"), off).await.expect(200);
    assert_eq!(off["schedule"]["nextRunAt"], Value::Null);
    let wrong = fixture.ask("PUT", &format!("{path}/schedule"), schedule("61 * * * *")).await.violations();
    assert_eq!(wrong, ["cronExpression"]);
    let without = fixture.ask("DELETE", &format!("{path}/schedule"), Value::Null).await.expect(200);
    assert_eq!(without["schedule"], Value::Null);
}

#[tokio::test]
async fn list_can_be_limited_to_active_templates() {
    let fixture = TemplatesFixture::at(NOW).await;
    let first = fixture.template(json!({ "name": "First" })).await;
    fixture.template(json!({ "name": "Second" })).await;
    fixture.post(&format!("{first}/deactivate"), Value::Null).await.expect(200);
    let names = async |query: &str| {
        let page = fixture.get(&format!("/templates{query}")).await.expect(200);
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("").await, ["Second", "First"], "newest first");
    assert_eq!(names("?isActive=true").await, ["Second"]);
    assert_eq!(names("?isActive=false").await, ["First"]);
    assert_eq!(fixture.get("/templates?isActive=maybe").await.violations(), ["isActive"]);
    let page = fixture.get("/templates?limit=1").await.expect(200);
    let cursor = page["nextCursor"].as_str().unwrap();
    let next = fixture.get(&format!("/templates?limit=1&cursor={cursor}")).await.expect(200);
    assert_eq!(next["items"][0]["name"], "First");
}

#[tokio::test]
async fn another_owner_sees_no_templates() {
    let fixture = TemplatesFixture::at(NOW).await;
    let path = fixture.template(Value::Null).await;
    let asks = [
        ("GET", "", Value::Null),
        ("PUT", "", json!({ "name": "Mine" })),
        ("PUT", "/schedule", schedule("* * * * *")),
        ("DELETE", "/schedule", Value::Null),
        ("POST", "/deactivate", Value::Null),
        ("POST", "/activate", Value::Null),
        ("POST", "/rules", json!({ "matchField": "a", "matchPattern": "*", "classifyAs": "b" })),
        ("DELETE", "/skills/01900000-0000-7000-8000-000000000001", Value::Null),
        ("POST", "/events", json!({ "event": { "a": "b" }, "workingDirectory": "/w" })),
    ];
    for (method, rest, body) in asks {
        let reply = fixture.ask_as("eve", method, &format!("{path}{rest}"), body, None).await;
        assert_eq!(reply.code(404), "not-found", "{method} {rest}");
    }
    assert_eq!(
        fixture.ask_as("eve", "GET", "/templates", Value::Null, None).await.expect(200)["items"],
        json!([])
    );
    assert_eq!(fixture.get(&path).await.expect(200)["version"], 1);
}

#[tokio::test]
async fn repeated_idempotency_key_creates_one_template() {
    let fixture = TemplatesFixture::at(NOW).await;
    let make = async || fixture.ask_as("ada", "POST", "/templates", template(Value::Null), Some("k1")).await;
    let first = make().await.expect(201);
    assert_eq!(make().await.expect(201), first);
    let other =
        fixture.ask_as("ada", "POST", "/templates", template(json!({ "name": "Other" })), Some("k1")).await;
    assert_eq!(other.code(409), "idempotency-mismatch");
}
