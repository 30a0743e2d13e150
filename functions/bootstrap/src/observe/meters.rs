//! Collects metrics from events with the target [`METRICS`](pilothouse_app::METRICS), and writes those of an invocation once, at
//! its end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use pilothouse_domain::Timestamp;
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};

const NAMESPACE: &str = "Pilothouse";

/// Clones share the same values.
#[derive(Debug, Clone, Default)]
pub struct Meters(Arc<Mutex<BTreeMap<&'static str, f64>>>);

struct Kind {
    name: &'static str,
    unit: &'static str,
    /// Whether the maximum is reported instead of the sum.
    largest: bool,
}

const KINDS: [(&str, Kind); 8] = [
    ("commands", count("Commands")),
    ("conflicts", count("Conflicts")),
    ("events_applied", count("EventsApplied")),
    ("events_quarantined", count("EventsQuarantined")),
    ("events_merged", count("EventsMerged")),
    ("event_lag_ms", Kind { name: "EventLag", unit: "Milliseconds", largest: true }),
    ("cold_start", count("ColdStarts")),
    ("failed", count("Failures")),
];

const fn count(name: &'static str) -> Kind {
    Kind { name, unit: "Count", largest: false }
}

impl Meters {
    fn add(&self, field: &str, value: f64) {
        let Some((name, kind)) = KINDS.iter().find(|(name, _)| *name == field) else { return };
        let mut numbers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = numbers.entry(name).or_default();
        *number = if kind.largest { number.max(value) } else { *number + value };
    }

    /// The line that `CloudWatch` extracts metrics from, per function and in total. `None` if there are none.
    pub fn line(&self, function: &str, at: Timestamp) -> Option<Value> {
        let numbers = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let values: Vec<_> = KINDS
            .iter()
            .filter_map(|(field, kind)| Some((kind, *numbers.get(field)?)))
            .filter(|(kind, value)| *value != 0.0 || kind.largest)
            .collect();
        if values.is_empty() {
            return None;
        }
        let definitions: Vec<_> =
            values.iter().map(|(kind, _)| json!({ "Name": kind.name, "Unit": kind.unit })).collect();
        let mut line = Map::new();
        line.insert(
            "_aws".to_owned(),
            json!({
                "Timestamp": at.as_millis(),
                "CloudWatchMetrics": [{
                    "Namespace": NAMESPACE,
                    "Dimensions": [[], ["function"]],
                    "Metrics": definitions,
                }],
            }),
        );
        line.insert("function".to_owned(), function.into());
        line.extend(values.into_iter().map(|(kind, value)| (kind.name.to_owned(), value.into())));
        Some(Value::Object(line))
    }
}

impl Visit for Meters {
    #[allow(clippy::cast_precision_loss)] // counts and milliseconds of one invocation
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field.name(), value as f64);
    }

    #[allow(clippy::cast_precision_loss)]
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field.name(), value as f64);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field.name(), f64::from(u8::from(value)));
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_the_largest_lag_is_reported() {
        let meters = Meters::default();
        for (field, value) in
            [("events_applied", 3.0), ("events_applied", 2.0), ("event_lag_ms", 40.0), ("event_lag_ms", 9.0)]
        {
            meters.add(field, value);
        }
        meters.add("conflicts", 0.0);
        meters.add("unknown", 1.0);
        let line = meters.line("intake", Timestamp::from_millis(5)).unwrap();
        assert_eq!((line["EventsApplied"].as_f64(), line["EventLag"].as_f64()), (Some(5.0), Some(40.0)));
        assert!(line.get("Conflicts").is_none());
        let metrics = &line["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(metrics["Metrics"][0], json!({ "Name": "EventsApplied", "Unit": "Count" }));
        assert_eq!(line["_aws"]["Timestamp"], 5);
    }

    #[test]
    fn no_measurements_write_no_line() {
        assert!(Meters::default().line("health", Timestamp::from_millis(0)).is_none());
    }
}
