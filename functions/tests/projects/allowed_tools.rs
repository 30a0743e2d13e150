//! The list of tools in a brief or a template is a gate (S2, "Security boundaries"; decision 75).

use serde_json::{Value, json};

use crate::authorization::call;
use crate::fixture::ProjectFixture;

impl ProjectFixture {
    async fn verdict_on(&self, call: &Value) -> (String, String) {
        let (status, body) = self.ask(self.run().await, call).await;
        assert_eq!(status, 200, "{body}");
        let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
        (text("verdict"), text("message"))
    }
}

#[tokio::test]
async fn a_tool_that_the_brief_does_not_list_is_denied() {
    let fixture = ProjectFixture::working().await;
    assert_eq!(fixture.verdict_on(&call("t1", "Bash", "ls")).await.0, "allow");
    let listed = json!({
        "allowedTools": ["Read", "Bash(git *)", "lookup"],
        "mcpServers": [{ "uri": "https://tools.example.com/mcp",
            "tools": [{ "name": "lookup", "description": "Looks up", "inputSchema": "{}" }] }],
    });
    let (status, body) = fixture.change_brief(listed).await;
    assert_eq!(status, 200, "{body}");
    let (verdict, message) = fixture.verdict_on(&call("t2", "WebFetch", "")).await;
    assert_eq!(verdict, "deny");
    assert!(message.contains("`WebFetch`") && message.contains("`Read`, `lookup`"), "{message}");
    let (verdict, message) = fixture.verdict_on(&call("t3", "Bash", "ls; git status")).await;
    assert_eq!(verdict, "deny");
    assert!(message.contains("`git *`"), "{message}");
    for (id, tool, command) in
        [("t4", "Bash", "git status"), ("t5", "mcp__tools__lookup", ""), ("t6", "request_decision", "")]
    {
        assert_ne!(fixture.verdict_on(&call(id, tool, command)).await.0, "deny", "{tool}");
    }
    let log = fixture.log().await;
    let denied = log.iter().find(|entry| entry["toolCallId"] == "t2").unwrap();
    assert_eq!(denied["rule"], json!({ "type": "notAllowed", "tool": "WebFetch" }));
}

/// A template lists the tools where the brief does not, and skills add theirs.
#[tokio::test]
async fn tools_of_the_template_and_of_skills_are_listed() {
    let mut fixture = ProjectFixture::working().await;
    let template =
        json!({ "name": "Reader", "modelId": "m", "allowedTools": ["Read"], "defaultBudgetCapUsd": "2" });
    let (status, template) = fixture.send("POST", "/api/agents/templates", template).await;
    assert_eq!(status, 201, "{template}");
    let tool = json!({ "name": "publish", "description": "Publishes", "inputSchema": "{}", "serverUri": "https://x.example/mcp" });
    let skill = json!({ "name": "Publishing", "description": "Publishes", "instructions": "Do it", "toolDefinitions": [tool] });
    let (status, skill) = fixture.send("POST", "/api/agents/skills", skill).await;
    assert_eq!(status, 201, "{skill}");
    let spawn = json!({
        "brief": { "role": "Reader", "workstream": "api" }, "objective": "Read it", "workingDirectory": "/w",
        "templateId": template["id"], "skillIds": [skill["id"]],
    });
    let (status, spawned) = fixture.send("POST", "/api/agents/spawn", spawn).await;
    assert_eq!(status, 201, "{spawned}");
    fixture.session = spawned["session"]["id"].as_str().unwrap().parse().unwrap();
    fixture.agent = spawned["agent"]["id"].as_str().unwrap().parse().unwrap();
    fixture.react().await;
    fixture.start_turn().await;
    assert_eq!(fixture.verdict_on(&call("t1", "Bash", "ls")).await.0, "deny");
    for tool in ["Read", "publish"] {
        assert_ne!(fixture.verdict_on(&call(tool, tool, "")).await.0, "deny", "{tool}");
    }
    assert_eq!(fixture.change_brief(json!({ "allowedTools": ["Bash"] })).await.0, 200);
    assert_eq!(
        fixture.verdict_on(&call("t2", "Read", "")).await.0,
        "deny",
        "the brief replaces the template"
    );
    assert_ne!(fixture.verdict_on(&call("t3", "Bash", "ls")).await.0, "deny");
}

/// An agent of the ACP adapter may name the kind of a call only, or nothing.
#[tokio::test]
async fn calls_without_a_tool_are_judged_by_kind_or_by_a_person() {
    let fixture = ProjectFixture::working().await;
    let brief =
        json!({ "role": "Tester", "workstream": "api", "adapter": "acp", "allowedTools": ["Read", "Bash"] });
    let spawn = json!({ "brief": brief, "objective": "Test it", "workingDirectory": "/w", "budgetCapUsd": "1",
        "allowUnmetered": true });
    let (status, spawned) = fixture.send("POST", "/api/agents/spawn", spawn).await;
    assert_eq!(status, 201, "{spawned}");
    let mut fixture = fixture;
    fixture.session = spawned["session"]["id"].as_str().unwrap().parse().unwrap();
    fixture.react().await;
    fixture.start_turn().await;
    let of_kind = |id: &str, tool: &str, kind: Value| {
        let mut call = call(id, tool, "ls");
        call["kind"] = kind;
        call
    };
    assert_ne!(fixture.verdict_on(&of_kind("t1", "terminal/create", json!("execute"))).await.0, "deny");
    assert_ne!(fixture.verdict_on(&of_kind("t2", "read", json!("read"))).await.0, "deny");
    assert_eq!(fixture.verdict_on(&of_kind("t3", "fs/write_text_file", json!("edit"))).await.0, "deny");
    assert_eq!(fixture.verdict_on(&of_kind("t4", "tool", Value::Null)).await.0, "ask");
}
