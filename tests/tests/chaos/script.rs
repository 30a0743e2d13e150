//! Scripts of the agents: a few turns with every kind of event, mixed with faults between agent and control plane
//! (docs/script-format.md).

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use serde_json::{Value, json};

/// Precedes the text of a message in the agent's answer during a turn.
pub(crate) const STEERED: &str = "Steered: ";
/// What an agent says that works on after a stop.
pub(crate) const AFTER_STOP: &str = "I go on all the same.";

/// A script that ends, and then answers messages.
pub(crate) fn script(rng: &mut StdRng) -> Value {
    let turns = rng.random_range(2..=5);
    let steps: Vec<Value> = (0..turns).map(|_| turn(rng)).collect();
    let mut on_message = vec![json!({ "say": "Begun: {{message}}" })];
    for _ in 0..rng.random_range(1..=4) {
        on_message.push(if rng.random_bool(0.25) { fault(rng) } else { work(rng) });
    }
    on_message.push(pause(rng));
    json!({ "steps": steps, "onMessage": on_message, "onSteer": format!("{STEERED}{{{{message}}}}") })
}

fn turn(rng: &mut StdRng) -> Value {
    let mut steps = Vec::new();
    for _ in 0..rng.random_range(4..=14) {
        steps.push(match rng.random_range(0..100) {
            0..50 => work(rng),
            50..72 => pause(rng),
            72..76 => question(),
            76..79 => json!({ "plan": { "text": "First this, then that.", "revisions": ["First that, then this."] } }),
            _ => fault(rng),
        });
    }
    let mut turn = json!({ "steps": steps });
    if rng.random_bool(0.3) {
        turn["output"] = json!({ "filesChanged": rng.random_range(0..9), "allTestsPassing": true });
    }
    json!({ "turn": turn })
}

fn pause(rng: &mut StdRng) -> Value {
    json!({ "wait": rng.random_range(20..250) })
}

fn question() -> Value {
    json!({ "question": { "questions": [{ "question": "Which way?", "options": [{ "label": "left" }, { "label": "right" }] }] } })
}

/// Steps that only emit events; envelope faults apply to these.
fn event(rng: &mut StdRng) -> Value {
    match rng.random_range(0..4) {
        0 => json!({ "say": "I look at it." }),
        1 => json!({ "think": "Where to begin?" }),
        2 => json!({ "log": { "text": "a line of the log" } }),
        _ => json!({ "notice": { "name": "api_retry", "summary": "Tried once more" } }),
    }
}

fn usage(rng: &mut StdRng) -> Value {
    // Fractions of cents, so that rounding errors show.
    let cost = format!("0.{:07}", rng.random_range(1..400_000));
    let mut usage = json!({ "costUsd": cost, "tokens": { "inputTokens": rng.random_range(1..900), "outputTokens": rng.random_range(1..90) } });
    if rng.random_bool(0.2) {
        usage["model"] = json!("small");
    }
    if rng.random_bool(0.2) {
        usage["meter"] = json!("side");
    }
    if rng.random_bool(0.2) {
        usage["context"] = json!({ "tokens": rng.random_range(1..200), "limit": 200 });
    }
    json!({ "usage": usage })
}

fn work(rng: &mut StdRng) -> Value {
    match rng.random_range(0..10) {
        0..3 => event(rng),
        3..6 => usage(rng),
        6 | 7 => {
            json!({ "tool": { "name": "Bash", "input": { "command": "make" }, "result": "done", "ms": rng.random_range(0..120) } })
        }
        8 => json!({ "subagent": { "objective": "Look it up", "steps": [
            { "say": "I search." }, usage(rng), { "wait": rng.random_range(1..60) }, { "tool": { "name": "Read", "result": "text" } }, { "say": "Found." },
        ] } }),
        _ => json!({ "tasks": [{ "id": "1", "subject": "All of it", "status": "InProgress" }] }),
    }
}

fn fault(rng: &mut StdRng) -> Value {
    match rng.random_range(0..100) {
        0..10 => {
            let body = [
                json!({ "type": "no_such_event" }),
                json!(null),
                json!([1, 2]),
                json!({ "type": "tool_result" }),
            ];
            json!({ "malformed": body.choose(rng) })
        }
        10..32 => json!({ "duplicate": event(rng) }),
        32..54 => json!({ "reorder": [event(rng), event(rng)] }),
        54..72 => json!({ "gap": { "step": event(rng) } }),
        72..78 => json!({ "gap": { "step": event(rng), "forever": true } }),
        78..86 => json!({ "silence": rng.random_range(50..900) }),
        86..91 => {
            let command = ["pause", "interrupt", "resume", "stop"].choose(rng);
            json!({ "ignore": { "command": command, "untilRepeated": rng.random_bool(0.6) } })
        }
        91..95 => {
            let command = ["pause", "interrupt"].choose(rng);
            json!({ "afterStop": { "command": command, "steps": [{ "say": AFTER_STOP }] } })
        }
        95..98 => json!({ "crash": "kill" }),
        _ => json!({ "crash": { "exit": rng.random_range(0..3) } }),
    }
}
