//! The plan that pays for the runtime, and that it is used up (S4, ruling 39).

use pilothouse_domain::Timestamp;
use pilothouse_wire::event::RawEvent;
use serde_json::Value;

use super::json::{count, one_line, text};
use super::translated::{Signal, Translated};
use super::translator::Translator;

/// What only a limit of the plan has. The provider refuses calls for a moment too, and the runtime then tells a `rejected`
/// without any of these.
const OF_A_PLAN: [&str; 5] = ["rateLimitType", "resetsAt", "overageStatus", "overageResetsAt", "errorCode"];

/// A plan that is used up.
#[derive(Debug, Clone, Copy)]
pub(super) struct UsedUp {
    /// Until then, if the runtime said so.
    until: Option<Timestamp>,
}

impl Translator {
    /// `rate_limit_event`: what the provider says of the plan has changed.
    pub(super) fn rate_limit(&mut self, line: &Value, out: &mut Translated) {
        let info = line.get("rate_limit_info").unwrap_or(line);
        let status = text(info, "status").unwrap_or("changed");
        let of_the_plan = OF_A_PLAN.iter().any(|field| info.get(field).is_some_and(|value| !value.is_null()));
        self.quota = (status == "rejected" && of_the_plan).then(|| UsedUp { until: reset_time(info) });
        out.notice("rate_limit", format!("The plan's rate limit: {status}"), line);
    }

    /// A result with an error: whether it is that the plan is used up. Then the turn stays open and waits.
    pub(super) fn out_of_quota(&mut self, line: &Value, out: &mut Translated) -> bool {
        if self.turn.is_none() || count(line, "api_error_status") != Some(429) {
            return false;
        }
        // Kept: whoever goes on too early is refused again, and the runtime does not repeat why.
        let Some(UsedUp { until: reset_at }) = self.quota else { return false };
        self.calls.clear();
        self.subagents.end_foreground("The plan that pays for the agent is used up", out);
        out.push(RawEvent::QuotaExceeded { message: text(line, "result").map(one_line), reset_at });
        out.signals.push(Signal::OutOfQuota);
        true
    }
}

/// When a limit is lifted: told in seconds since 1970.
fn reset_time(info: &Value) -> Option<Timestamp> {
    let seconds = count(info, "resetsAt").or_else(|| count(info, "overageResetsAt"))?;
    i64::try_from(seconds).ok()?.checked_mul(1000).map(Timestamp::from_millis)
}
