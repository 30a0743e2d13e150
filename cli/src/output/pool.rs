use pilothouse_api::pool::PoolView;
use pilothouse_domain::Timestamp;

use super::sessions::short_id;
use super::style::{Paint, Style};
use super::table::{Cell, Table};
use super::time;

/// The load of the pool, the sessions with a slot, and the waiting sessions.
pub fn show(pool: &PoolView, style: Style, now: Timestamp) -> String {
    let mut out = format!(
        "{} of {} slots in use ({} %), {} free\n",
        pool.active_count, pool.max_count, pool.utilization_percent, pool.available_slots
    );
    if pool.leases.is_empty() && pool.waiting.is_empty() {
        return out;
    }
    let mut table = Table::new(&["SESSION", "STATE", "SINCE"]);
    for lease in &pool.leases {
        let since = time::ago(lease.since, now);
        let state = match lease.unreachable_since {
            None => Cell::painted("has a slot", Paint::Cyan),
            Some(_) => Cell::painted("has a slot, unreachable", Paint::Yellow),
        };
        table.row(vec![short_id(lease.session_id).into(), state, since.into()]);
    }
    for (at, waiting) in pool.waiting.iter().enumerate() {
        let state = format!("waits, place {} ({})", at + 1, waiting.cause);
        let since = time::ago(waiting.since, now);
        table.row(vec![
            short_id(waiting.session_id).into(),
            Cell::painted(state, Paint::Yellow),
            since.into(),
        ]);
    }
    out.push_str(&table.render(style));
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::show;
    use crate::output::Style;
    use crate::output::fixtures::now;

    #[test]
    fn pool_shows_slot_holders_and_waiting_sessions() {
        let pool = serde_json::from_value(json!({
            "activeCount": 1, "maxCount": 1, "availableSlots": 0, "utilizationPercent": "100",
            "leases": [{ "sessionId": "0197b1c0-1111-7000-8000-00000000aaaa",
                         "runId": "0197b1c0-1111-7000-8000-00000000ffff", "since": "2026-11-21T20:00:00.000Z" }],
            "waiting": [{ "sessionId": "0197b1c0-2222-7000-8000-00000000bbbb", "cause": "Start",
                          "since": "2026-11-21T20:01:55.000Z" }],
            "version": 3,
        }))
        .unwrap();
        assert_eq!(
            show(&pool, Style::PLAIN, now()),
            "\
1 of 1 slots in use (100 %), 0 free
SESSION        STATE                   SINCE
0197b1c0-1111  has a slot              2 min ago
0197b1c0-2222  waits, place 1 (Start)  5 s ago
"
        );
    }
}
