//! How long events are kept: a setting of the operator (decision 38).

use std::time::Duration;

/// How long raw events with what agents said and did, activity, logs, notifications and the decision log are kept (decision 38). Sessions
/// and their results are kept without a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    days: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be {} to {} days", Retention::MIN_DAYS, Retention::MAX_DAYS)]
pub struct InvalidRetention;

impl Retention {
    /// Dead letters can be sent again for 14 days. What recognises a repeated message must be kept for longer.
    pub const MIN_DAYS: u16 = 15;
    pub const MAX_DAYS: u16 = 3650;
    const DEFAULT_DAYS: u16 = 90;

    pub fn of_days(days: u16) -> Result<Self, InvalidRetention> {
        if (Self::MIN_DAYS..=Self::MAX_DAYS).contains(&days) {
            Ok(Self { days })
        } else {
            Err(InvalidRetention)
        }
    }

    pub const fn days(self) -> u16 {
        self.days
    }

    pub(crate) fn duration(self) -> Duration {
        Duration::from_hours(u64::from(self.days) * 24)
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self { days: Self::DEFAULT_DAYS }
    }
}

impl std::str::FromStr for Retention {
    type Err = InvalidRetention;

    fn from_str(days: &str) -> Result<Self, InvalidRetention> {
        days.parse().map_err(|_| InvalidRetention).and_then(Self::of_days)
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_domain::journal::{Cause, JournalEntry};
    use pilothouse_domain::{AgentSessionId, RunId, Timestamp, UserId};

    use super::*;
    use crate::commit::{Commit, ParkedEnvelope, StoredResponse};
    use crate::table::Write;

    #[test]
    fn only_retained_items_follow_the_setting() {
        const ID: &str = "01900000-0000-7000-8000-000000000001";
        let (session, run) = (ID.parse::<AgentSessionId>().unwrap(), ID.parse::<RunId>().unwrap());
        let mut commit = Commit::new();
        let now = Timestamp::from_millis(0);
        commit
            .park(session, run, 1, &ParkedEnvelope { body: "{}".to_owned(), occurred_at: None }, now)
            .unwrap();
        let response = StoredResponse {
            function: "sessions-start".to_owned(),
            request_hash: String::new(),
            status: 201,
            etag: None,
            body: serde_json::Value::Null,
        };
        let owner = UserId::parse("ada").unwrap();
        commit.store_response(&owner, "key", &response, now).unwrap();
        let mut entry = JournalEntry {
            id: ID.parse().unwrap(),
            session_id: session,
            owner_id: owner,
            project: None,
            sequence: 1,
            at: now,
            cause: Cause::Agent {
                run_id: run,
                run: 1,
                sequence: Some(1),
                occurred_at: None,
                body: serde_json::Value::Null,
            },
            events: Vec::new(),
            status: None,
            activity: Vec::new(),
            ignored_reason: None,
            repairs: Vec::new(),
            decisions: Vec::new(),
            traceparent: None,
        };
        commit.entry(&entry, None).unwrap();
        (entry.sequence, entry.cause) = (2, Cause::Clock);
        commit.entry(&entry, None).unwrap();
        let (writes, _) = commit.into_writes(Retention::of_days(30).unwrap());
        let expiries = writes.iter().filter_map(|write| match write {
            Write::Put(item, _) => item.expires_at,
            Write::Delete(..) | Write::Check(..) => None,
        });
        let days = |days: u64| now + Duration::from_hours(days * 24);
        let expected = [days(30), days(1), days(30)];
        assert_eq!(expiries.collect::<Vec<_>>(), expected, "an entry of the control plane is kept");
    }

    #[test]
    fn retention_outlasts_dead_letters_and_has_a_limit() {
        assert_eq!(Retention::default().days(), 90);
        for (text, days) in
            [("15", Some(15)), ("3650", Some(3650)), ("14", None), ("3651", None), ("x", None), ("-1", None)]
        {
            assert_eq!(text.parse::<Retention>().ok().map(Retention::days), days, "{text}");
        }
    }
}
