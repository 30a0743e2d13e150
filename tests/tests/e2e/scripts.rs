//! Parts of scripts that several tests use (`docs/script-format.md`).

use serde_json::{Value, json};

pub(crate) fn script(steps: &[Value]) -> Value {
    json!({ "steps": steps })
}

pub(crate) fn turn(steps: &[Value]) -> Value {
    json!({ "turn": { "steps": steps } })
}

pub(crate) fn say(text: &str) -> Value {
    json!({ "say": text })
}

/// Says `Working.` and outlasts every test.
pub(crate) fn endless() -> Value {
    script(&[turn(&[say("Working."), json!({ "wait": 600_000 })])])
}

/// Says `Working.` and ends after the first message from the owner.
pub(crate) fn works_until_message() -> Value {
    script(&[turn(&[say("Working."), json!({ "waitForMessage": {} }), say("Told: {{message}}")])])
}

pub(crate) fn short() -> Value {
    script(&[turn(&[say("Done.")])])
}

pub(crate) fn with_output() -> Value {
    json!({ "steps": [{ "turn": {
        "steps": [{ "say": "Done." }],
        "output": { "outputLineCount": 12, "filesChanged": 2, "testsAdded": 1, "allTestsPassing": true }
    } }] })
}
