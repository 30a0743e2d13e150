//! Selection of the events that a webhook receives.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::announcement::ANNOUNCED_EVENTS;

/// Names of the events that an endpoint receives; empty: all events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
#[schemars(with = "Vec<String>")]
pub struct EventFilter(BTreeSet<String>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is none of {}", ANNOUNCED_EVENTS.join(", "))]
pub struct UnknownEvent {
    /// Shortened.
    pub name: String,
}

impl EventFilter {
    /// Whether the endpoint receives the event.
    pub fn accepts(&self, event: &str) -> bool {
        self.0.is_empty() || self.0.contains(event)
    }

    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<Vec<String>> for EventFilter {
    type Error = UnknownEvent;

    fn try_from(names: Vec<String>) -> Result<Self, UnknownEvent> {
        match names.iter().find(|name| !ANNOUNCED_EVENTS.contains(&name.as_str())) {
            Some(unknown) => Err(UnknownEvent { name: crate::text::cut(unknown, 80) }),
            None => Ok(Self(names.into_iter().collect())),
        }
    }
}

impl From<EventFilter> for Vec<String> {
    fn from(filter: EventFilter) -> Self {
        filter.0.into_iter().collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn filter_names_published_events() {
        let filter = EventFilter::try_from(vec!["AgentSessionFailedEvent".to_owned()]).unwrap();
        assert!(filter.accepts("AgentSessionFailedEvent") && !filter.accepts("AgentSessionApprovedEvent"));
        assert!(EventFilter::default().accepts("anything"));
        assert!(EventFilter::try_from(vec!["Nonsense".to_owned()]).is_err());
    }
}
