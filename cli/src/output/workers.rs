use pilothouse_api::workers::WorkerView;
use pilothouse_domain::Timestamp;

use super::style::{Paint, Style};
use super::table::{Cell, Table};
use super::text::line;
use super::time;

pub fn list(workers: &[WorkerView], style: Style, now: Timestamp) -> String {
    let mut table = Table::new(&["WORKER", "STATE", ">RUNS", "HEARD", "LABELS"]);
    for worker in workers {
        let state = match (worker.alive, worker.draining) {
            (false, _) => Cell::painted("unreachable", Paint::Yellow),
            (true, true) => Cell::painted("ending", Paint::Dim),
            (true, false) => Cell::painted("alive", Paint::Green),
        };
        let labels: Vec<_> = worker.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        table.row(vec![
            Cell::painted(line(worker.id.as_str(), 40), Paint::Bold),
            state,
            format!("{} of {}", worker.runs.len(), worker.capacity).into(),
            time::ago(worker.seen_at, now).into(),
            line(&labels.join(", "), 60).into(),
        ]);
    }
    table.render(style)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::list;
    use crate::output::Style;
    use crate::output::fixtures::now;

    #[test]
    fn worker_without_recent_heartbeat_is_unreachable() {
        let worker = |id: &str, alive: bool, runs: serde_json::Value| {
            serde_json::from_value(json!({
                "id": id, "alive": alive, "draining": false, "shared": false, "labels": { "gpu": "a100" },
                "capacity": 4, "runs": runs, "seenAt": "2026-11-21T20:00:00.000Z",
                "registeredAt": "2026-11-21T19:00:00.000Z", "workspace": {},
            }))
            .unwrap()
        };
        let workers = [
            worker("mini", true, json!([])),
            worker("tower", false, json!(["0197b1c0-1111-7000-8000-00000000ffff"])),
        ];
        assert_eq!(
            list(&workers, Style::PLAIN, now()),
            "\
WORKER  STATE          RUNS  HEARD      LABELS
mini    alive        0 of 4  2 min ago  gpu=a100
tower   unreachable  1 of 4  2 min ago  gpu=a100
"
        );
    }
}
