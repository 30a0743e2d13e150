//! Parts of scripts that many tests play (`docs/script-format.md`).

use serde_json::{Value, json};

/// A script of these steps.
pub(crate) fn script(steps: &[Value]) -> Value {
    json!({ "steps": steps })
}

/// A turn of these steps.
pub(crate) fn turn(steps: &[Value]) -> Value {
    json!({ "turn": { "steps": steps } })
}

/// The agent says something.
pub(crate) fn say(text: &str) -> Value {
    json!({ "say": text })
}

/// One turn that begins with `Working.` and does not end by itself while a test runs.
pub(crate) fn endless() -> Value {
    script(&[turn(&[say("Working."), json!({ "wait": 600_000 })])])
}

/// One turn that says `Working.`, and ends when it is told to.
pub(crate) fn until_told() -> Value {
    script(&[turn(&[say("Working."), json!({ "waitForMessage": {} }), say("Told: {{message}}")])])
}

/// One short turn.
pub(crate) fn short() -> Value {
    script(&[turn(&[say("Done.")])])
}

/// One short turn with output to review.
pub(crate) fn with_output() -> Value {
    json!({ "steps": [{ "turn": {
        "steps": [{ "say": "Done." }],
        "output": { "outputLineCount": 12, "filesChanged": 2, "testsAdded": 1, "allTestsPassing": true }
    } }] })
}
