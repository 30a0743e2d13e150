//! The default script: a short conversation that contains each kind of event once.

use pilothouse_domain::Usd;
use pilothouse_domain::output::SessionOutput;
use pilothouse_domain::value::{SessionTaskStatus, TokenUsage};
use pilothouse_wire::event::{Content, RawTask};
use serde_json::json;

use super::format::{Context, ScriptFile, Step, Tool, Turn, Usage};

pub(super) fn script() -> ScriptFile {
    let steps = vec![
        say("I was asked to do this: {{objective}}"),
        Step::Think("First I look at what is there, then I change it, then I check it.".into()),
        tasks(0),
        tool("Bash", json!({ "command": "ls" }), "Cargo.toml\nsrc\ntests"),
        tasks(1),
        tool("Edit", json!({ "file_path": "src/lib.rs" }), "The file was updated."),
        usage(),
        tasks(2),
        tool("Bash", json!({ "command": "cargo test" }), "test result: ok. 12 passed; 0 failed"),
        tasks(3),
        usage(),
        say("Done. All tests pass. Tell me if you want anything changed."),
    ];
    let output = SessionOutput {
        output_line_count: 1,
        files_changed: 1,
        all_tests_passing: true,
        ..Default::default()
    };
    let turn = Turn { steps, output: Some(output) };
    ScriptFile {
        continuations: Vec::new(),
        models: Vec::new(),
        model: None,
        steps: vec![Step::Turn(turn)],
        on_message: Some(vec![
            say("You said: {{message}}"),
            tool("Bash", json!({ "command": "git status" }), "nothing to commit, working tree clean"),
            usage(),
            say("That is taken care of."),
        ]),
        on_steer: "Understood, I take this into account: {{message}}".into(),
    }
}

/// The turn that answers a message if the script does not define one.
pub(super) fn reaction() -> Vec<Step> {
    vec![say("You said: {{message}}"), usage()]
}

/// The continuation of a chain if the script does not define one.
pub(super) fn continuation() -> Vec<Step> {
    let steps = vec![say("I go on where the session before me ended. {{handoff}}"), usage()];
    vec![Step::Turn(Turn { steps, output: None })]
}

fn say(text: &str) -> Step {
    Step::Say(text.into())
}

fn tool(name: &str, input: serde_json::Value, result: &str) -> Step {
    Step::Tool(Tool {
        id: None,
        name: name.into(),
        input,
        result: Some(Content::from(result)),
        error: false,
        ms: 150,
    })
}

/// Fixed amounts, which show how spend is counted.
fn usage() -> Step {
    Step::Usage(Usage {
        meter: None,
        model: None,
        cost_usd: "0.0125".parse().unwrap_or(Usd::ZERO),
        tokens: TokenUsage {
            input_tokens: 1200,
            output_tokens: 350,
            cache_read_tokens: 8000,
            cache_write_tokens: 0,
        },
        context: Some(Context { tokens: 9550, limit: 200_000 }),
    })
}

fn tasks(done: usize) -> Step {
    let subjects = ["Look at the project", "Change it", "Run the tests"];
    let status = |at: usize| match at.cmp(&done) {
        std::cmp::Ordering::Less => SessionTaskStatus::Completed,
        std::cmp::Ordering::Equal => SessionTaskStatus::InProgress,
        std::cmp::Ordering::Greater => SessionTaskStatus::Pending,
    };
    let task = |(at, subject): (usize, &&str)| RawTask {
        id: (at + 1).to_string(),
        subject: (*subject).into(),
        status: status(at),
        active_form: None,
    };
    Step::Tasks(subjects.iter().enumerate().map(task).collect())
}
