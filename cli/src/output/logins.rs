//! The table of `pilothouse logins`.

use pilothouse_domain::Timestamp;
use pilothouse_domain::console_login::ConsoleLogin;

use super::style::{Paint, Style};
use super::table::{Cell, Table};
use super::text::line;
use super::time;

pub fn list(logins: &[ConsoleLogin], style: Style, now: Timestamp) -> String {
    let mut table = Table::new(&["LOGIN", "DEVICE", "LOGGED IN", "SEEN"]);
    for login in logins {
        table.row(vec![
            login.id.to_string().into(),
            Cell::painted(line(login.device.as_str(), 40), Paint::Bold),
            time::ago(login.created_at, now).into(),
            time::ago(login.last_seen_at, now).into(),
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
    fn logins_are_listed_with_their_device() {
        let login = serde_json::from_value(json!({
            "id": "0197b1c0-1111-7000-8000-00000000ffff", "device": "Chrome on Android",
            "createdAt": "2026-11-21T19:00:00.000Z", "lastSeenAt": "2026-11-21T20:00:00.000Z",
            "expiresAt": "2026-11-28T19:00:00.000Z",
        }))
        .unwrap();
        assert_eq!(
            list(&[login], Style::PLAIN, now()),
            "\
LOGIN                                 DEVICE             LOGGED IN   SEEN
0197b1c0-1111-7000-8000-00000000ffff  Chrome on Android  62 min ago  2 min ago
"
        );
    }
}
