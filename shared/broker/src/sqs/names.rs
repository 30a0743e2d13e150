//! Names of queues in SQS.

use crate::queue::{FIFO, QueueError, QueueName};

/// Longest queue name (SQS).
const MAX_NAME: usize = 80;
/// Longest prefix that leaves room for `{prefix}-commands-{run}.fifo` and similar names.
const MAX_PREFIX: usize = 24;
/// Suffix of the names of dead-letter queues, before `.fifo`.
const DEAD: &str = "-dead";

#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not 1 to {MAX_PREFIX} letters, digits and dashes")]
pub struct InvalidPrefix(String);

#[derive(Debug, Clone)]
pub(super) struct Names {
    prefix: String,
}

impl Names {
    pub(super) fn new(prefix: String) -> Result<Self, InvalidPrefix> {
        let fits = (1..=MAX_PREFIX).contains(&prefix.len())
            && prefix.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if fits { Ok(Self { prefix }) } else { Err(InvalidPrefix(prefix)) }
    }

    /// A name, or the beginning of one, in SQS.
    pub(super) fn physical(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    pub(super) fn of(&self, queue: &QueueName) -> Result<String, QueueError> {
        let (stem, end) = parts(queue)?;
        fits(self.physical(stem) + end)
    }

    pub(super) fn dead(&self, queue: &QueueName) -> Result<String, QueueError> {
        let (stem, end) = parts(queue)?;
        fits(self.physical(stem) + DEAD + end)
    }

    /// Name of a queue here; `None` for dead-letter queues and queues of other deployments.
    pub(super) fn logical(&self, name: &str) -> Option<QueueName> {
        let name = name.strip_prefix(&self.prefix)?.strip_prefix('-')?;
        let queue = QueueName::parse(name)?;
        parts(&queue).is_ok_and(|(stem, _)| !stem.ends_with(DEAD)).then_some(queue)
    }
}

/// Splits a name into stem and suffix. SQS allows a dot only in the suffix.
fn parts(queue: &QueueName) -> Result<(&str, &str), QueueError> {
    let name = queue.as_str();
    let (stem, end) = name.strip_suffix(FIFO).map_or((name, ""), |stem| (stem, FIFO));
    if stem.is_empty() || stem.contains('.') {
        return Err(QueueError::Invalid(format!("`{name}` is not a valid queue name in SQS")));
    }
    Ok((stem, end))
}

fn fits(name: String) -> Result<String, QueueError> {
    if name.len() > MAX_NAME {
        return Err(QueueError::Invalid(format!("`{name}` is longer than {MAX_NAME} characters")));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_names_round_trip() {
        let names = Names::new("pilothouse".to_owned()).unwrap();
        let queue = QueueName::parse("events.fifo").unwrap();
        assert_eq!(names.of(&queue).unwrap(), "pilothouse-events.fifo");
        assert_eq!(names.dead(&queue).unwrap(), "pilothouse-events-dead.fifo");
        assert_eq!(names.logical("pilothouse-events.fifo"), Some(queue));
        let standard = QueueName::parse("deadlines").unwrap();
        assert_eq!(names.of(&standard).unwrap(), "pilothouse-deadlines");
        assert_eq!(names.dead(&standard).unwrap(), "pilothouse-deadlines-dead");
        assert_eq!(names.logical("pilothouse-deadlines"), Some(standard));
        let others = [
            "pilothouse-events-dead.fifo",
            "pilothouse-deadlines-dead",
            "pilothouse2-events.fifo",
            "events.fifo",
        ];
        for other in others {
            assert_eq!(names.logical(other), None, "{other}");
        }
        assert!(names.of(&QueueName::parse("a.b.fifo").unwrap()).is_err(), "a dot");
    }

    #[test]
    fn longest_names_fit_with_the_longest_prefix() {
        let names = Names::new("p".repeat(MAX_PREFIX)).unwrap();
        let commands = format!("commands-{}.fifo", "0".repeat(36));
        assert!(names.of(&QueueName::parse(commands).unwrap()).is_ok());
        for prefix in ["", "a.b", "a_b", &"p".repeat(MAX_PREFIX + 1)] {
            assert!(Names::new(prefix.to_owned()).is_err(), "{prefix}");
        }
    }
}
