use pilothouse_api::messages::QueueView;
use pilothouse_domain::Timestamp;
use pilothouse_domain::queue::SessionMessage;
use pilothouse_domain::value::MessageSource;

use super::style::{Paint, Style};
use super::table::{Cell, Table};
use super::text::{count, line};
use super::time;

fn state(message: &SessionMessage) -> (&'static str, Paint) {
    if message.delivery_uncertain {
        ("delivery uncertain", Paint::Yellow)
    } else if message.sent {
        ("sent", Paint::Cyan)
    } else {
        ("waits", Paint::Plain)
    }
}

pub fn list(queue: &QueueView, style: Style, now: Timestamp) -> String {
    if queue.items.is_empty() {
        return "The queue is empty.\n".into();
    }
    let mut table = Table::new(&[">#", "MESSAGE", "PRIORITY", "STATE", "SINCE", "TEXT"]);
    for (at, message) in queue.items.iter().enumerate() {
        let (state, paint) = state(message);
        let from = match message.source {
            MessageSource::User => String::new(),
            other => format!("[{other}] "),
        };
        let images = match message.images.len() {
            0 => String::new(),
            images => format!(" [{}]", count(images, "image")),
        };
        table.row(vec![
            (at + 1).to_string().into(),
            Cell::painted(message.message_id.to_string(), Paint::Bold),
            message.priority.to_string().into(),
            Cell::painted(state, paint),
            time::ago(message.created_at, now).into(),
            line(&format!("{from}{}{images}", message.content.as_str()), 60).into(),
        ]);
    }
    let mut out = table.render(style);
    if queue.held {
        let held = format!(
            "{} held since the interrupt: send, promote or release one to continue.\n",
            if queue.items.len() == 1 {
                "1 message is".into()
            } else {
                count(queue.items.len(), "message") + " are"
            }
        );
        out.push_str(&style.paint(Paint::Yellow, &held));
    }
    out
}

#[cfg(test)]
mod tests {
    use pilothouse_api::messages::QueueView;
    use serde_json::json;

    use super::list;
    use crate::output::Style;
    use crate::output::fixtures::now;

    #[test]
    fn messages_are_listed_in_delivery_order_with_their_state() {
        let message = |n: u8, priority: &str, sent: bool, text: &str| {
            json!({
                "messageId": format!("0197b1c0-0000-7000-8000-00000000000{n}"), "content": text, "priority": priority,
                "status": "Pending", "source": if n == 2 { "System" } else { "User" }, "sent": sent,
                "createdAt": "2026-11-21T20:01:00.000Z",
            })
        };
        let items = [message(1, "Immediate", true, "look left"), message(2, "Queued", false, "then\nright")];
        let queue: QueueView =
            serde_json::from_value(json!({ "items": items, "held": true, "version": 1 })).unwrap();
        assert_eq!(
            list(&queue, Style::PLAIN, now()),
            "\
#  MESSAGE                               PRIORITY   STATE  SINCE     TEXT
1  0197b1c0-0000-7000-8000-000000000001  Immediate  sent   60 s ago  look left
2  0197b1c0-0000-7000-8000-000000000002  Queued     waits  60 s ago  [System] then right
2 messages are held since the interrupt: send, promote or release one to continue.
"
        );
    }
}
