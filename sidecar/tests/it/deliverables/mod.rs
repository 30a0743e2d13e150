//! The session runner in the real program: around the script adapter here, and around real agents in the submodules.

mod native;

use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::sidecar::{Folders, begin, turn};

fn options(max: u32) -> Value {
    json!({
        "script": { "steps": [turn(json!([{ "say": "first" }]))], "onMessage": [{ "say": "more" }] },
        "deliverables": { "required": true, "maxIterations": max },
    })
}

fn write_status(folders: &Folders, status: &str) {
    let folder = folders.root().join(".pilothouse");
    std::fs::create_dir_all(&folder).unwrap();
    let one = json!({ "id": "DL-1", "description": "d", "acceptanceCriteria": ["c"], "status": status });
    let file = json!({ "createdAt": "2026-11-01", "updatedAt": "2026-11-01", "deliverables": [one] });
    std::fs::write(folder.join("status.json"), file.to_string()).unwrap();
}

#[tokio::test]
async fn required_deliverables_loop_is_one_turn_with_a_limit() {
    let gateway = Gateway::start().await;
    let folders = Folders::new(&gateway);
    write_status(&folders, "pending");
    let _sidecar = folders.start();
    gateway.send(begin(options(3)));
    let at = gateway.sees("turn_completed").await;
    let story = gateway.story();
    let of_turns = |line: &&String| {
        ["deliverables", "turn_", "notice", "assistant"].iter().any(|start| line.starts_with(start))
    };
    let story: Vec<_> = story.iter().filter(of_turns).map(String::as_str).collect();
    assert_eq!(
        story,
        [
            "deliverables",
            "turn_started turn-1-1",
            "assistant_message text first",
            "notice deliverables_iteration",
            "assistant_message text more",
            "notice deliverables_iteration",
            "assistant_message text more",
            "turn_completed turn-1-1",
        ]
    );
    assert_eq!(gateway.delivered()[at].body["outcome"], "max_iterations");
}

#[tokio::test]
async fn settled_deliverables_end_the_turn_at_once() {
    let gateway = Gateway::start().await;
    let folders = Folders::new(&gateway);
    write_status(&folders, "blocked");
    let _sidecar = folders.start();
    gateway.send(begin(options(3)));
    let at = gateway.sees("turn_completed").await;
    assert_eq!(gateway.delivered()[at].body.get("outcome"), None);
    assert!(!gateway.story().iter().any(|line| line.starts_with("notice")));
}
