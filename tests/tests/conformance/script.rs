//! The responses of the scripted model to each verb, and the same run as a script of the adapter `script`.
//!
//! The message of the owner names the verb. A tool call creates the file `MARKER` when it begins. A long call updates `MARKER.beat`
//! until the file `MARKER.go` exists.

use pilothouse_model_server::{Script, Step};
use serde_json::{Value, json};

use crate::agents::Agent;

/// Tool calls while the agent spends; afterwards it says `All spent.`.
pub(crate) const SPENDING_CALLS: usize = 8;
/// In spending calls.
pub(crate) const CALLS_OF_CAP: u32 = 3;
/// Bytes that a spending call prints, for the next model call to read. No agent truncates output of this size.
const PRINTED: usize = 12_000;

/// A command that runs until its `.go` file exists. Only the result contains the output, not the text of the command.
fn lasting(marker: &str) -> String {
    format!(
        "touch {marker}; until [ -e {marker}.go ]; do date +%s%N > {marker}.beat; sleep 0.05; done; echo fin''ished-{marker}"
    )
}

fn brief(marker: &str) -> String {
    format!("touch {marker}; echo fin''ished-{marker}")
}

/// Later verbs come first, because the summary for an agent that lost its conversation names earlier verbs.
pub(crate) fn of_model(agent: Agent) -> Script {
    let says = |when: &str, words: &str| Step { when: Some(when.into()), repeat: true, ..Step::text(words) };
    let calls = |when: &str, command: &str| {
        let (tool, input) = agent.shell(command);
        Step { when: Some(when.into()), repeat: true, ..Step::tool(tool, input) }
    };
    // Some agents truncate long lines and the end of a long output.
    let printing = |marker: &str| format!("{}; yes {} | head -c {PRINTED}", brief(marker), "x".repeat(60));
    // An agent may take equal calls in a row for a loop and hide their results from its model (gemini: the fifth).
    let spends = |when: &str, number: usize| {
        let command = format!("{}; : {number}", printing("spending"));
        Step { repeat: false, ..calls(when, &command) }
    };
    let uses = |when: &str, tool: Option<(&str, Value)>| {
        let (tool, input) = tool?;
        Some(Step { when: Some(when.into()), repeat: true, ..Step::tool(tool, input) })
    };
    let tools = [
        // The subagent has its own conversation. Its prompt contains these words, as does the call in the parent.
        uses("verb-delegate", agent.subagent("the-words-of-the-task")),
        uses("verb-plan", agent.plan("1. Look around")),
        uses("verb-question", agent.question()),
    ];
    let mut steps = vec![
        calls("verb-cancel", &lasting("cancel")),
        says("verb-thinking", "Thought."),
        says("verb-model", "Switched."),
        says("the-words-of-the-task", "Looked around."),
        says("Looked around.", "Delegated."),
        says("Indigo", "Answered."),
    ];
    steps.extend(tools.into_iter().flatten());
    steps.extend([
        says("verb-second-retry", "Retried twice."),
        calls("verb-agent-dies", &lasting("agent-dies")),
        says("verb-first-retry", "Retried once."),
        calls("verb-sidecar-dies", &lasting("sidecar-dies")),
        says("verb-wake", "Awake."),
        spends("verb-spend", 0),
        says("finished-cost", "Spent once."),
        calls("verb-cost", &printing("cost")),
    ]);
    steps.extend((1..SPENDING_CALLS).map(|number| spends("finished-spending", number)));
    steps.extend([
        says("finished-spending", "All spent."),
        says("verb-follow", "Followed."),
        calls("verb-interrupt", &lasting("interrupt")),
        says("finished-call-pause", "After the call."),
        calls("verb-call-pause", &brief("call-pause")).waiting("call"),
        says("finished-tool-pause", "After the tool."),
        calls("verb-tool-pause", &lasting("tool-pause")),
        says("queued-words", "Queued."),
        says("steering-words", "Steered."),
        says("finished-steer", "Worked."),
        calls("verb-steer", &lasting("steer")),
        says("finished-permission", "Permitted."),
        calls("verb-permission", &brief("permission")),
        says("verb-start", "Started."),
    ]);
    let mut script = Script::of(steps);
    script.conversations[0].offers = Some(agent.offers().to_owned());
    // Some agents request a title separately.
    script.otherwise = Some(Step::text("A title"));
    script
}

/// Its tool calls take a fixed time, because the test cannot end them.
pub(crate) fn of_script() -> Value {
    let call = |marker: &str, ms: u64| json!({ "tool": { "name": "bash", "input": { "command": marker }, "result": "ok", "ms": ms } });
    let turn = |steps: Value| json!({ "turn": { "steps": steps } });
    let usage = json!({ "usage": { "costUsd": "0.4", "tokens": { "inputTokens": 100_000, "outputTokens": 2_000 },
        "context": { "tokens": 20_000, "limit": 200_000 } } });
    let price = json!({ "price": "0.4" });
    let wait = json!({ "waitForMessage": {} });
    let turns = [
        turn(json!([{ "say": "Started." }, usage])),
        turn(json!([call("permission", 0), { "say": "Permitted." }])),
        turn(json!([call("steer", 1500), { "say": "Worked." }])),
        turn(json!([{ "say": "Queued." }])),
        turn(json!([call("tool-pause", 1000), { "say": "After the tool." }])),
        turn(json!([{ "wait": 1000 }, call("call-pause", 0), { "say": "After the call." }])),
        turn(json!([call("interrupt", 60_000)])),
        turn(json!([{ "say": "Followed." }])),
        turn(json!([call("cost", 0), price, usage, { "say": "Spent once." }])),
        turn(
            json!([{ "repeat": { "times": SPENDING_CALLS, "steps": [call("spending", 100), price, usage] } }, { "say": "All spent." }]),
        ),
        turn(json!([{ "say": "Awake." }])),
        turn(json!([call("sidecar-dies", 3000), { "say": "Retried once." }])),
        turn(json!([
            { "question": { "questions": [{ "question": "Which colour?", "header": "Colour",
                "options": [{ "label": "Indigo" }, { "label": "Scarlet" }] }] } },
            { "say": "Answered." }
        ])),
        turn(json!([{ "plan": { "text": "1. Look around" } }, { "say": "Planned." }])),
        turn(
            json!([{ "subagent": { "objective": "look around", "steps": [{ "say": "Looked around." }] } }, { "say": "Delegated." }]),
        ),
        turn(json!([{ "say": "Switched." }])),
        turn(json!([{ "say": "Thought." }])),
        turn(json!([call("cancel", 60_000)])),
    ];
    let mut steps = Vec::new();
    for (index, turn) in turns.into_iter().enumerate() {
        if index > 0 {
            steps.push(wait.clone());
        }
        steps.push(turn);
    }
    json!({ "models": ["small", "large"], "steps": steps })
}
