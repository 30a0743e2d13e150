//! The sidecar's own tools over MCP, and the session runner around Claude Code.

use pilothouse_model_server::Step;
use serde_json::json;

use super::Agent;

const TOOL: &str = "mcp__pilothouse__deliverable";

#[tokio::test]
async fn claude_continues_until_its_deliverables_are_settled() {
    let one = json!({ "id": "DL-1", "description": "A greeting", "acceptanceCriteria": ["it is friendly"] });
    let steps = [
        Step::tool(TOOL, json!({ "operation": "create", "deliverables": [one] })),
        Step::text("I made a plan."),
        Step::tool(TOOL, json!({ "operation": "set_status", "deliverableId": "DL-1", "status": "passed" })),
        Step::text("It is done."),
    ];
    let options = json!({ "required": true, "maxIterations": 5 });
    let agent = Agent::with(steps, |begin| begin.config.adapter_options["deliverables"] = options).await;
    let Some(agent) = agent else { return };
    let over = |_: &crate::gateway::Gateway| {
        let (ended, failed) = (agent.events("turn_completed"), agent.events("session_end"));
        ended.into_iter().chain(failed).next()
    };
    let end = agent.gateway.until("the end", over).await;
    assert_eq!(end["type"], "turn_completed", "{end:#}\n{:#?}", agent.prompts());
    let states: Vec<_> =
        agent.events("deliverables").iter().map(|body| body["deliverables"][0]["status"].clone()).collect();
    assert_eq!(states, ["pending", "passed"], "{:#?}", agent.story());
    assert_eq!((agent.events("turn_started").len(), agent.events("turn_completed").len()), (1, 1));
    let prompts = agent.prompts();
    assert!(prompts[0].to_string().contains("There are none yet"));
    assert!(
        prompts[2]["messages"].as_array().unwrap().last().unwrap().to_string().contains("These are open")
    );
}
