//! The run's allowance (decision 32). Once it is spent, the adapter holds the agent, in addition to the pause from the
//! control plane.
//!
//! Claude Code reports the spend of its process on request (`get_usage`). The adapter asks at the end of a model call,
//! so that the cost is recorded while tools run, and again before the next model call, which waits for the response.

use std::time::Duration;

use pilothouse_domain::Usd;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::control_channel::ControlRequest;
use super::driver::Driver;
use super::tool_hooks::Mode;
use crate::adapter::{AdapterError, Reply};
use crate::kit::allowance;
use crate::kit::json::text;
use crate::kit::usage::cost;

/// How long a model call waits for the spend before it. If Claude Code does not report it, the call proceeds.
const USAGE_LIMIT: Duration = Duration::from_secs(5);

impl Driver {
    pub(super) fn spent(&self) -> Usd {
        self.translator.totals().map(cost).unwrap_or_default()
    }

    /// `None` also in an untested version, which does not report its spend within a turn. The control plane then
    /// pauses the session at its cap.
    pub(super) fn left(&self) -> Option<Usd> {
        if self.untested { None } else { self.allowance.left(self.spent()) }
    }

    /// Not documented, so that an untested version is not asked.
    pub(super) fn ask_usage(&mut self) {
        if !self.untested {
            self.ask("get_usage", json!({}), ControlRequest::Usage);
        }
    }

    /// Handles a model call that follows a batch of tools. With an allowance, the call waits until the spend is
    /// known. Returns whether it waits.
    pub(super) fn waits_for_usage(&mut self, hook: &Value) -> bool {
        let follows =
            hook.get("request").and_then(|request| text(request, "callback_id")) == Some("PostToolBatch");
        if !follows {
            return false;
        }
        self.ask_usage();
        if self.untested || !self.allowance.is_limited() {
            return false;
        }
        self.unmetered.hooks.push(hook.clone());
        self.unmetered.until.get_or_insert_with(|| Instant::now() + USAGE_LIMIT);
        true
    }

    /// Continues the waiting model calls, because the spend is known or will not be reported.
    pub(super) fn usage_is_known(&mut self) {
        self.unmetered.until = None;
        for hook in std::mem::take(&mut self.unmetered.hooks) {
            self.hook(&hook);
        }
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
        Ok(self.events.emit(allowance::exceeded(None, Usd::ZERO)).await?)
    }

    pub(super) async fn set_allowance(
        &mut self,
        allowance_usd: Option<String>,
        reply: Reply,
    ) -> Result<(), AdapterError> {
        if let Err(invalid) = self.allowance.set(allowance_usd.as_deref()) {
            return Ok(reply.refuse(invalid.refusal()).await?);
        }
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
