//! Limits an agent while the control plane is unreachable (decision 13). A run with a cap may spend the rest of it; a
//! run without one may spend a few dollars; an agent without a known price may work for a minute. Then the sidecar
//! pauses it until the connection is back. If the cap was reached, the pause stays, because the control plane orders a
//! pause itself once it learns of the spend.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pilothouse_domain::value::Capabilities;
use pilothouse_domain::{MeterId, Usd};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::UsageUpdate;
use pilothouse_wire::launch::OfflineLimits;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::link::Link;

/// The spend of a run, as its adapter reports it. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Spend(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    meters: Mutex<Meters>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Meters {
    /// The last total of each conversation and model.
    totals: HashMap<(MeterId, String), Usd>,
    spent: Usd,
    /// The conversation began in an earlier run, so its first total includes earlier spend.
    continued: bool,
    cost: bool,
}

impl Spend {
    fn meters(&self) -> MutexGuard<'_, Meters> {
        self.0.meters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records whether the agent continues a conversation of an earlier run.
    pub fn begin(&self, continued: bool) {
        self.meters().continued = continued;
    }

    pub fn set_capabilities(&self, can: &Capabilities) {
        self.meters().cost = can.cost;
        self.0.changed.notify_waiters();
    }

    pub(crate) fn record(&self, event: &RawEvent) {
        match event {
            RawEvent::UsageUpdate(update) => self.count(update),
            RawEvent::SidecarReady { capabilities, .. } => self.set_capabilities(capabilities),
            _ => {}
        }
    }

    fn count(&self, update: &UsageUpdate) {
        let Ok(total) = update.cost_usd.parse::<Usd>() else { return };
        let key = (update.meter_id.clone(), update.model_id.clone());
        let mut meters = self.meters();
        let unknown = if meters.continued { total } else { Usd::ZERO };
        let last = meters.totals.get(&key).copied().unwrap_or(unknown);
        meters.spent += total.excess_over(last);
        meters.totals.insert(key, total.max(last));
        drop(meters);
        self.0.changed.notify_waiters();
    }

    fn spent(&self) -> Usd {
        self.meters().spent
    }

    fn is_priced(&self) -> bool {
        self.meters().cost
    }
}

/// Why the agent must be paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The cap of the run is reached.
    Cap,
    /// A run without a cap has spent its offline allowance.
    Allowance(Usd),
    /// The agent does not report its spend.
    Unpriced,
}

impl Reason {
    /// A sentence for the owner.
    pub fn summary(self) -> String {
        let why = match self {
            Self::Cap => "its budget is spent".to_owned(),
            Self::Allowance(usd) => {
                format!("it has spent the {usd} dollars that it may spend offline without a cap")
            }
            Self::Unpriced => "its spend is unknown".to_owned(),
        };
        format!("The control plane cannot be reached and {why}, so the agent was paused.")
    }
}

#[derive(Debug)]
pub struct Offline {
    limits: OfflineLimits,
    spend: Spend,
    cap: Mutex<Option<Usd>>,
    /// When the outage began, and the spend at that time.
    began: Mutex<Option<(Instant, Usd)>>,
}

impl Offline {
    pub fn new(limits: OfflineLimits, spend: Spend) -> Self {
        Self { limits, spend, cap: Mutex::default(), began: Mutex::default() }
    }

    /// Sets the total that the run may spend. `None` removes the cap.
    pub fn set_cap(&self, cap: Option<&str>) {
        let cap = cap.and_then(|cap| cap.parse().ok());
        *self.cap.lock().unwrap_or_else(PoisonError::into_inner) = cap;
        self.spend.0.changed.notify_waiters();
    }

    pub fn is_cap_reached(&self) -> bool {
        let cap = *self.cap.lock().unwrap_or_else(PoisonError::into_inner);
        cap.is_some_and(|cap| self.spend.spent() >= cap)
    }

    /// Waits until the agent must be paused. Cancel-safe.
    pub async fn reached(&self, link: &Link) -> Reason {
        loop {
            let (changed, link_changed) = (self.spend.0.changed.notified(), link.changed());
            let Some(since) = link.failing_since() else {
                link_changed.await;
                continue;
            };
            let unpriced_at = (!self.spend.is_priced()).then(|| since + self.unpriced());
            if unpriced_at.is_some_and(|at| at <= Instant::now()) {
                return Reason::Unpriced;
            }
            if let Some(reason) = self.overspent(since) {
                return reason;
            }
            let due = async {
                match unpriced_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => {}
                () = changed => {}
                () = link_changed => {}
            }
        }
    }

    fn overspent(&self, since: Instant) -> Option<Reason> {
        if self.is_cap_reached() {
            return Some(Reason::Cap);
        }
        if self.cap.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            return None;
        }
        let spent = self.spend.spent();
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match *began {
            Some((at, before)) if at == since => before,
            _ => began.insert((since, spent)).1,
        };
        let allowance = self.limits.allowance_usd;
        (spent.excess_over(before) >= allowance).then_some(Reason::Allowance(allowance))
    }

    fn unpriced(&self) -> Duration {
        Duration::try_from_secs_f64(self.limits.unpriced_seconds).unwrap_or(Duration::from_mins(1))
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_domain::value::TokenUsage;

    use super::*;

    fn usage(total: &str) -> RawEvent {
        RawEvent::UsageUpdate(UsageUpdate {
            meter_id: MeterId::parse("m".to_owned()).unwrap(),
            model_id: "model".into(),
            subagent_id: None,
            cost_usd: total.into(),
            token_usage: TokenUsage::default(),
            context_window: None,
        })
    }

    fn offline(priced: bool) -> (Offline, Spend, Link) {
        let spend = Spend::default();
        spend.set_capabilities(&Capabilities { cost: priced, ..Capabilities::default() });
        (Offline::new(OfflineLimits::default(), spend.clone()), spend, Link::default())
    }

    /// The reason for a pause, if there is one within `seconds`.
    async fn within(offline: &Offline, link: &Link, seconds: u64) -> Option<Reason> {
        tokio::time::timeout(Duration::from_secs(seconds), offline.reached(link)).await.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn agent_without_a_cap_may_spend_five_dollars_per_absence() {
        let (offline, spend, link) = offline(true);
        spend.record(&usage("100"));
        assert_eq!(within(&offline, &link, 3600).await, None, "the control plane is reachable");
        for (absence, total) in [("first", "104.99"), ("second", "109.98")] {
            link.failed();
            assert_eq!(within(&offline, &link, 3600).await, None, "{absence}");
            spend.record(&usage(total));
            assert_eq!(within(&offline, &link, 3600).await, None, "{absence}");
            link.published(Instant::now());
        }
        link.failed();
        assert_eq!(within(&offline, &link, 1).await, None);
        spend.record(&usage("114.98"));
        assert_eq!(within(&offline, &link, 1).await, Some(Reason::Allowance(Usd::whole(5))));
    }

    #[tokio::test(start_paused = true)]
    async fn agent_with_a_cap_may_spend_the_remainder() {
        let (offline, spend, link) = offline(true);
        offline.set_cap(Some("20"));
        spend.record(&usage("12"));
        link.failed();
        spend.record(&usage("19.99"));
        assert_eq!(within(&offline, &link, 3600).await, None, "more than without a cap");
        spend.record(&usage("20"));
        assert_eq!(within(&offline, &link, 1).await, Some(Reason::Cap));
        offline.set_cap(Some("30"));
        assert!(!offline.is_cap_reached());
    }

    #[tokio::test(start_paused = true)]
    async fn unpriced_agent_works_offline_for_a_minute() {
        let (offline, _, link) = offline(false);
        link.failed();
        let start = Instant::now();
        assert_eq!(within(&offline, &link, 3600).await, Some(Reason::Unpriced));
        assert_eq!(start.elapsed(), Duration::from_mins(1));
    }

    #[test]
    fn first_total_of_a_continued_conversation_is_not_run_spend() {
        let spend = Spend::default();
        spend.begin(true);
        for total in ["7", "7.5", "7.2", "8"] {
            spend.record(&usage(total));
        }
        assert_eq!(spend.spent(), Usd::whole(1));
    }
}
