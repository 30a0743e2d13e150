//! The run's allowance (decision 32). The adapter holds the agent once it is spent, in addition to the pause that the
//! control plane orders.
//!
//! Claude Code reports the spend of its process on request (`get_usage`). The adapter asks at the end of a model
//! call, so that the cost is recorded while tools run, and before the next model call, which waits for the response.

use std::time::Duration;

use pilothouse_domain::Usd;
use pilothouse_wire::RawEvent;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::control_channel::ControlRequest;
use super::driver::Driver;
use super::tool_hooks::Mode;
use crate::adapter::{AdapterError, Refusal, Reply};
use crate::kit::json::text;

/// How long a model call waits for the spend before it. If Claude Code does not report it, the call proceeds.
const USAGE_LIMIT: Duration = Duration::from_secs(5);

/// Model calls that wait until earlier spend is known.
#[derive(Debug, Default)]
pub(super) struct Unmetered {
    hooks: Vec<Value>,
    until: Option<Instant>,
}

impl Unmetered {
    /// When the wait ends.
    pub(super) const fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Discards a request that Claude Code has cancelled.
    pub(super) fn cancelled(&mut self, request: &str) {
        self.hooks.retain(|line| text(line, "request_id") != Some(request));
    }

    /// Discards all requests, because the process has ended.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Driver {
    /// The remaining allowance of the run.
    pub(super) fn left(&self) -> Option<Usd> {
        let spent = self
            .translator
            .totals()
            .map(super::driver::cost)
            .unwrap_or_default()
            .excess_over(self.spent_before);
        self.allowance.map(|allowance| allowance.excess_over(spent))
    }

    /// Asks Claude Code for its spend.
    pub(super) async fn ask_usage(&mut self) {
        self.ask("get_usage", json!({}), ControlRequest::Usage).await;
    }

    /// Handles a model call that follows a batch of tools. With an allowance, the call waits until the spend is
    /// known. Returns whether it waits.
    pub(super) async fn waits_for_usage(&mut self, hook: &Value) -> bool {
        let follows =
            hook.get("request").and_then(|request| text(request, "callback_id")) == Some("PostToolBatch");
        if !follows {
            return false;
        }
        self.ask_usage().await;
        if self.allowance.is_none() {
            return false;
        }
        self.unmetered.hooks.push(hook.clone());
        self.unmetered.until.get_or_insert_with(|| Instant::now() + USAGE_LIMIT);
        true
    }

    /// Continues with the waiting model calls, because the spend is known or will not be reported.
    pub(super) async fn usage_is_known(&mut self) -> Result<(), AdapterError> {
        self.unmetered.until = None;
        for hook in std::mem::take(&mut self.unmetered.hooks) {
            self.hook(&hook).await?;
        }
        Ok(())
    }

    /// Holds the agent at its next step if the allowance is spent.
    pub(super) async fn hold_when_spent(&mut self) -> Result<(), AdapterError> {
        if self.over_budget || self.left().is_none_or(|left| !left.is_zero()) {
            return Ok(());
        }
        self.over_budget = true;
        if self.tool_hooks.mode() == Mode::Open {
            self.tool_hooks.pause();
        }
        // Calls are not priced in advance, so the needed amount is unknown.
        let event = RawEvent::BudgetExceeded { needed_usd: String::new(), left_usd: "0".into() };
        Ok(self.events.emit(event).await?)
    }

    /// Changes the allowance of the run.
    pub(super) async fn set_allowance(
        &mut self,
        allowance_usd: Option<String>,
        reply: Reply,
    ) -> Result<(), AdapterError> {
        let Ok(allowance) = allowance_usd.map(|usd| usd.parse::<Usd>()).transpose() else {
            let refusal = Refusal::invalid("the allowance is not an amount of dollars");
            return Ok(reply.refuse(refusal).await?);
        };
        self.allowance = allowance;
        reply.done().await?;
        let spent = self.left().is_some_and(Usd::is_zero);
        if spent {
            return self.hold_when_spent().await;
        }
        if std::mem::take(&mut self.over_budget) && !self.paused && self.tool_hooks.mode() == Mode::Paused {
            self.release().await?;
        }
        Ok(())
    }
}
