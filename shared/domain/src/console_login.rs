//! Browsers that are logged in to the web console (decision 99).

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::DeviceName;
use crate::{ConsoleLoginId, Timestamp};

/// A browser that is logged in until its login expires or is removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsoleLogin {
    /// Names the login in requests.
    pub id: ConsoleLoginId,
    /// What the browser calls itself, such as `Chrome on Android`.
    pub device: DeviceName,
    /// When the browser logged in.
    pub created_at: Timestamp,
    /// When it last sent a request, to the hour.
    pub last_seen_at: Timestamp,
    /// When the login ends by itself.
    pub expires_at: Timestamp,
}

/// All logins of an owner, oldest first. They are stored in one item.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleLogins {
    items: Vec<ConsoleLogin>,
}

impl ConsoleLogins {
    /// A further login ends the one that was not seen for the longest time.
    pub const MAX: usize = 50;
    /// How exact [`ConsoleLogin::last_seen_at`] is. Each change is a write.
    pub const SEEN_STEP: Duration = Duration::from_hours(1);

    /// The logins that have not expired.
    pub fn items(&self, now: Timestamp) -> impl Iterator<Item = &ConsoleLogin> {
        self.items.iter().filter(move |login| login.expires_at > now)
    }

    pub fn get(&self, id: ConsoleLoginId, now: Timestamp) -> Option<&ConsoleLogin> {
        self.items(now).find(|login| login.id == id)
    }

    /// Adds a login. Returns the logins that it ended to make room.
    pub fn add(&mut self, login: ConsoleLogin, now: Timestamp) -> Vec<ConsoleLoginId> {
        self.items.retain(|known| known.expires_at > now);
        let mut ended = Vec::new();
        while self.items.len() >= Self::MAX {
            let known = self.items.iter().enumerate();
            let Some((longest, _)) = known.min_by_key(|(_, known)| known.last_seen_at) else { break };
            ended.push(self.items.remove(longest).id);
        }
        self.items.push(login);
        ended
    }

    /// Removes a login. Returns whether it existed.
    pub fn remove(&mut self, id: ConsoleLoginId) -> bool {
        let before = self.items.len();
        self.items.retain(|known| known.id != id);
        self.items.len() < before
    }

    /// Records that the browser sent a request. Returns whether the time changed.
    pub fn see(&mut self, id: ConsoleLoginId, now: Timestamp) -> bool {
        let known = self.items.iter_mut().find(|known| known.id == id);
        let Some(login) = known.filter(|login| login.last_seen_at + Self::SEEN_STEP <= now) else {
            return false;
        };
        login.last_seen_at = now;
        true
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_millis(minutes * 60_000)
    }

    fn login(number: u128, minutes: i64) -> ConsoleLogin {
        ConsoleLogin {
            id: ConsoleLoginId::new(Uuid::from_u128(number)),
            device: DeviceName::try_from("Chrome on Android".to_owned()).unwrap(),
            created_at: at(minutes),
            last_seen_at: at(minutes),
            expires_at: at(minutes + 600),
        }
    }

    #[test]
    fn expired_login_is_not_listed_and_admits_nobody() {
        let mut all = ConsoleLogins::default();
        all.add(login(1, 0), at(0));
        assert!(all.get(login(1, 0).id, at(599)).is_some());
        assert_eq!(all.get(login(1, 0).id, at(600)), None);
        assert_eq!(all.items(at(600)).count(), 0);
    }

    #[test]
    fn one_login_too_many_ends_the_one_that_was_not_seen_for_the_longest_time() {
        let mut all = ConsoleLogins::default();
        for number in 0..ConsoleLogins::MAX as u128 {
            assert!(all.add(login(number, 0), at(0)).is_empty());
        }
        for number in (0..ConsoleLogins::MAX as u128).filter(|number| *number != 7) {
            assert!(all.see(login(number, 0).id, at(60)));
        }
        assert_eq!(all.add(login(99, 61), at(61)), [login(7, 0).id]);
        assert_eq!(all.items(at(61)).count(), ConsoleLogins::MAX);
        assert!(all.get(login(7, 0).id, at(61)).is_none() && all.get(login(99, 61).id, at(61)).is_some());
    }

    #[test]
    fn expired_logins_make_room_without_an_end() {
        let mut all = ConsoleLogins::default();
        for number in 0..ConsoleLogins::MAX as u128 {
            all.add(login(number, 0), at(0));
        }
        assert!(all.add(login(99, 600), at(600)).is_empty());
        assert_eq!(all.items(at(600)).count(), 1);
    }

    #[test]
    fn browser_is_seen_once_an_hour() {
        let mut all = ConsoleLogins::default();
        all.add(login(1, 0), at(0));
        assert!(!all.see(login(1, 0).id, at(59)));
        assert!(all.see(login(1, 0).id, at(60)) && !all.see(login(1, 0).id, at(61)));
        assert!(!all.see(login(2, 0).id, at(600)), "an unknown login");
        assert_eq!(all.get(login(1, 0).id, at(61)).unwrap().last_seen_at, at(60));
        assert!(all.remove(login(1, 0).id) && !all.remove(login(1, 0).id));
    }
}
