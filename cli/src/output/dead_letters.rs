use std::fmt::Write as _;

use pilothouse_api::operations::{DeadLettersView, RedriveResponse};
use pilothouse_domain::Timestamp;

use super::style::{Paint, Style};
use super::table::{Cell, Table};
use super::time;

/// The dead letters with their causes, and the latest redrive.
pub fn list(dead: &DeadLettersView, style: Style, now: Timestamp) -> String {
    let mut out = String::new();
    if dead.queues.is_empty() {
        out.push_str("No dead letters\n");
    }
    for queue in &dead.queues {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{}: {}", queue.queue, letters(queue.count));
        let mut table = Table::new(&["GROUP", ">TRIES", ">BYTES", "CAUSE"]);
        for letter in &queue.letters {
            table.row(vec![
                letter.group.as_str().into(),
                letter.receive_count.to_string().into(),
                letter.bytes.to_string().into(),
                Cell::painted(letter.cause.as_str(), Paint::Yellow),
            ]);
        }
        if !queue.letters.is_empty() {
            out.push_str(&table.render(style));
        }
    }
    for redrive in &dead.redrives {
        let _ = writeln!(
            out,
            "{}: {} sent {} of {} again ({} bytes, {} requests)",
            time::ago(redrive.at, now),
            redrive.by,
            letters(redrive.letters),
            redrive.queue,
            redrive.bytes,
            redrive.requests,
        );
    }
    out
}

pub fn redriven(response: &RedriveResponse, _: Style, _: Timestamp) -> String {
    let redrive = &response.redrive;
    let mut out = format!(
        "Sent {} of {} again ({} bytes, {} requests)\n",
        letters(redrive.letters),
        redrive.queue,
        redrive.bytes,
        redrive.requests
    );
    if response.left > 0 {
        let _ = writeln!(out, "{} left", letters(response.left));
    }
    out
}

fn letters(count: u64) -> String {
    if count == 1 { "1 letter".to_owned() } else { format!("{count} letters") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{list, redriven};
    use crate::output::Style;
    use crate::output::fixtures::now;

    #[test]
    fn dead_letters_show_their_causes_and_redrives_their_counts() {
        let redrive = json!({ "id": "1", "at": "2026-11-21T20:01:55.000Z", "by": "local", "queue": "events.fifo",
                              "letters": 1, "bytes": 900, "requests": 5 });
        let dead = json!({
            "queues": [{ "queue": "events.fifo", "count": 2, "letters": [
                { "id": "1", "group": "s1", "cause": "the table failed", "receiveCount": 5, "bytes": 900, "head": "{" },
            ] }],
            "redrives": [redrive],
        });
        let dead = serde_json::from_value(dead).unwrap();
        assert_eq!(
            list(&dead, Style::PLAIN, now()),
            "\
events.fifo: 2 letters
GROUP  TRIES  BYTES  CAUSE
s1         5    900  the table failed
5 s ago: local sent 1 letter of events.fifo again (900 bytes, 5 requests)
"
        );
        let response = serde_json::from_value(json!({ "redrive": redrive, "left": 1 })).unwrap();
        assert_eq!(
            redriven(&response, Style::PLAIN, now()),
            "Sent 1 letter of events.fifo again (900 bytes, 5 requests)\n1 letter left\n"
        );
    }
}
