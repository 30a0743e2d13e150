//! Parts of scripts that several tests use (`docs/script-format.md`).

use serde_json::{Value, json};

/// A script with these steps.
pub(crate) fn script(steps: &[Value]) -> Value {
    json!({ "steps": steps })
}

/// A turn with these steps.
pub(crate) fn turn(steps: &[Value]) -> Value {
    json!({ "turn": { "steps": steps } })
}

/// A message of the agent.
pub(crate) fn say(text: &str) -> Value {
    json!({ "say": text })
}

/// A turn that says `Working.` and outlasts every test.
pub(crate) fn endless() -> Value {
    script(&[turn(&[say("Working."), json!({ "wait": 600_000 })])])
}

/// A turn that says `Working.` and ends after the first message from the owner.
pub(crate) fn until_told() -> Value {
    script(&[turn(&[say("Working."), json!({ "waitForMessage": {} }), say("Told: {{message}}")])])
}

/// A short turn.
pub(crate) fn short() -> Value {
    script(&[turn(&[say("Done.")])])
}

/// A short turn that submits output.
pub(crate) fn with_output() -> Value {
    json!({ "steps": [{ "turn": {
        "steps": [{ "say": "Done." }],
        "output": { "outputLineCount": 12, "filesChanged": 2, "testsAdded": 1, "allTestsPassing": true }
    } }] })
}
