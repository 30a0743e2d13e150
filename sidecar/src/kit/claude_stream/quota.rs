//! The quota of the subscription that pays for the runtime (S4, decision 39), and models that do not answer
//! (decision 93).

use pilothouse_domain::Timestamp;
use pilothouse_wire::event::RawEvent;
use serde_json::Value;

use super::translated::{Signal, Translated};
use super::translator::{Translator, UsedUp};
use crate::kit::json::{count, one_line, text};
use crate::kit::outage::{is_transient, is_transient_status};

/// Fields that only a subscription limit has. If the provider rejects calls briefly, the runtime reports `rejected`
/// without any of them.
const OF_A_PLAN: [&str; 5] = ["rateLimitType", "resetsAt", "overageStatus", "overageResetsAt", "errorCode"];

impl Translator {
    /// `rate_limit_event`: the provider reports a change of the quota.
    pub(super) fn rate_limit(&mut self, line: &Value, out: &mut Translated) {
        let info = line.get("rate_limit_info").unwrap_or(line);
        let status = text(info, "status").unwrap_or("changed");
        let of_the_plan = OF_A_PLAN.iter().any(|field| info.get(field).is_some_and(|value| !value.is_null()));
        self.quota = (status == "rejected" && of_the_plan).then(|| UsedUp { until: reset_time(info) });
        out.notice("rate_limit", format!("The plan's rate limit: {status}"), line);
    }

    /// Whether an error result means an exceeded quota. If so, the turn stays open and waits.
    pub(super) fn out_of_quota(&mut self, line: &Value, out: &mut Translated) -> bool {
        if self.turn.is_none() || count(line, "api_error_status") != Some(429) {
            return false;
        }
        // Kept, because the provider rejects calls until the reset and the runtime does not repeat the reason.
        let Some(UsedUp { until: reset_at }) = self.quota else { return false };
        let message = text(line, "result").map(one_line);
        let exceeded = RawEvent::QuotaExceeded { message, reset_at };
        self.wait("The plan that pays for the agent is used up", exceeded, out);
        true
    }

    /// Whether an error result means that the model does not answer. If so, the turn stays open and waits.
    pub(super) fn lost_model(&mut self, line: &Value, out: &mut Translated) -> bool {
        let message = text(line, "result").map(one_line);
        let transient = match count(line, "api_error_status") {
            Some(status) => is_transient_status(status),
            None => {
                text(line, "terminal_reason") == Some("api_error")
                    && message.as_deref().is_some_and(is_transient)
            }
        };
        if self.turn.is_none() || !transient {
            return false;
        }
        // An SDK repeats the result as an exception.
        self.ended = true;
        let unavailable = RawEvent::ModelUnavailable { message, retry_at: None };
        self.wait("The model of the agent does not answer", unavailable, out);
        true
    }

    fn wait(&mut self, why: &str, event: RawEvent, out: &mut Translated) {
        self.calls.clear();
        self.subagents.end_foreground(why, out);
        out.push(event);
        out.signals.push(Signal::WaitsForModel);
    }
}

/// Given in seconds since 1970.
fn reset_time(info: &Value) -> Option<Timestamp> {
    let seconds = count(info, "resetsAt").or_else(|| count(info, "overageResetsAt"))?;
    i64::try_from(seconds).ok()?.checked_mul(1000).map(Timestamp::from_millis)
}
