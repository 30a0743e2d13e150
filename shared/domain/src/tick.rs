//! Ticks: the logical time of a project (S2, "Tick Service"; decision 67).
//!
//! Ticks are computed, not counted: a clock stores from when and at which tick it runs. It runs while at least one agent of the
//! project works or waits for a person, so that timeouts fire and decay does not punish a project that rests.

use std::collections::BTreeSet;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::named;
use crate::{ProjectAgentId, Timestamp};

/// Number of a tick of a project, from 0.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Tick(u64);

impl Tick {
    pub const ZERO: Self = Self(0);

    pub const fn new(tick: u64) -> Self {
        Self(tick)
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    #[must_use]
    pub const fn plus(self, ticks: u64) -> Self {
        Self(self.0.saturating_add(ticks))
    }

    /// Ticks from `earlier` to `self`; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl std::fmt::Display for Tick {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What advances the ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TickMode {
    /// Time.
    #[default]
    WallClock,
    /// `POST /api/tick/advance`.
    Manual,
}

named!(TickMode {
    WallClock => "wall_clock",
    Manual => "manual",
});

/// S2's `TickConfig`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TickConfig {
    /// Milliseconds of a tick.
    pub interval_ms: u64,
    pub mode: TickMode,
}

impl Default for TickConfig {
    fn default() -> Self {
        Self { interval_ms: 1000, mode: TickMode::WallClock }
    }
}

impl TickConfig {
    pub const MIN_INTERVAL_MS: u64 = 10;
    /// An hour.
    pub const MAX_INTERVAL_MS: u64 = 60 * 60 * 1000;

    pub fn check(&self) -> Result<(), TickError> {
        if (Self::MIN_INTERVAL_MS..=Self::MAX_INTERVAL_MS).contains(&self.interval_ms) {
            Ok(())
        } else {
            Err(TickError::Interval)
        }
    }
}

/// The clock is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TickError {
    #[error("intervalMs must be from {} to {}", TickConfig::MIN_INTERVAL_MS, TickConfig::MAX_INTERVAL_MS)]
    Interval,
    #[error("ticks follow the time; set the project's tick mode to `manual` to advance them")]
    NotManual,
    #[error("ticks must be from 1 to {}", TickClock::MAX_ADVANCE)]
    Advance,
}

impl TickError {
    /// Stable error code (decision 5).
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Interval | Self::Advance => "validation-failed",
            Self::NotManual => "ticks-not-manual",
        }
    }
}

/// The clock of a project. It is stored apart from the project, so that an agent that starts or stops does not conflict with a
/// change of the project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TickClock {
    config: TickConfig,
    /// Tick at `since`, or the current one while the clock is stopped.
    base: Tick,
    /// Since when the clock runs. `None`: no agent is active, or ticks are advanced manually.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    /// Part of a tick that had passed when the clock stopped. Without it, agents that are never active for a whole tick would
    /// keep the clock from advancing.
    #[serde(default)]
    elapsed_ms: u64,
    active: BTreeSet<ProjectAgentId>,
}

/// When a deadline in ticks is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TickDeadline {
    Due,
    /// Estimated time, if the clock keeps running at its rate. Check again then.
    At(Timestamp),
    /// The clock is stopped. Check again when it starts or is advanced.
    Stopped,
}

/// The ticks of a project at one time, with the rate at which they advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TickReading {
    pub tick: Tick,
    /// When the tick began. `None` if ticks are advanced manually.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    began: Option<Timestamp>,
    interval_ms: u64,
}

impl TickReading {
    /// The estimated time of a later tick; `None` if ticks are advanced manually.
    pub fn estimate(&self, due: Tick) -> Option<Timestamp> {
        let after = due.since(self.tick).saturating_mul(self.interval_ms);
        self.began.map(|began| began + Duration::from_millis(after))
    }
}

impl TickClock {
    /// Most ticks of one manual advance.
    pub const MAX_ADVANCE: u64 = 1_000_000;

    /// A clock at tick 0 without active agents.
    pub fn new(config: TickConfig) -> Result<Self, TickError> {
        config.check()?;
        Ok(Self { config, base: Tick::ZERO, since: None, elapsed_ms: 0, active: BTreeSet::new() })
    }

    pub const fn config(&self) -> TickConfig {
        self.config
    }

    pub const fn active_agents(&self) -> &BTreeSet<ProjectAgentId> {
        &self.active
    }

    pub const fn is_running(&self) -> bool {
        self.since.is_some()
    }

    /// The current tick: `base + floor((now − since) / interval)`.
    pub fn at(&self, now: Timestamp) -> Tick {
        self.base.plus(self.running_ms(now) / self.interval_ms())
    }

    /// Keeps the set of active agents. Returns whether the clock changed.
    pub fn set_active(&mut self, agent: ProjectAgentId, is_active: bool, now: Timestamp) -> bool {
        if self.active.contains(&agent) == is_active {
            return false;
        }
        if is_active {
            self.agent_active(agent, now);
        } else {
            self.agent_inactive(agent, now);
        }
        true
    }

    /// Starts the clock with the first active agent. Repeating it changes nothing. Returns whether the clock started.
    pub fn agent_active(&mut self, agent: ProjectAgentId, now: Timestamp) -> bool {
        self.active.insert(agent);
        let starts = self.since.is_none() && self.config.mode == TickMode::WallClock;
        if starts {
            self.start(now);
        }
        starts
    }

    /// Stops the clock with the last active agent. Repeating it changes nothing. Returns whether the clock stopped.
    pub fn agent_inactive(&mut self, agent: ProjectAgentId, now: Timestamp) -> bool {
        self.active.remove(&agent);
        let stops = self.active.is_empty() && self.is_running();
        if stops {
            self.stop(now);
        }
        stops
    }

    /// Advances the ticks in manual mode (`POST /api/tick/advance`).
    pub fn advance(&mut self, ticks: u64) -> Result<Tick, TickError> {
        if self.config.mode != TickMode::Manual {
            return Err(TickError::NotManual);
        }
        if !(1..=Self::MAX_ADVANCE).contains(&ticks) {
            return Err(TickError::Advance);
        }
        self.base = self.base.plus(ticks);
        Ok(self.base)
    }

    /// Changes interval or mode. The current tick stays, and a new tick begins. Returns whether estimated times of deadlines changed,
    /// so that open deadlines have to be entered again.
    pub fn configure(&mut self, config: TickConfig, now: Timestamp) -> Result<bool, TickError> {
        config.check()?;
        if config == self.config {
            return Ok(false);
        }
        self.stop(now);
        self.elapsed_ms = 0;
        self.config = config;
        if config.mode == TickMode::WallClock && !self.active.is_empty() {
            self.start(now);
        }
        Ok(true)
    }

    /// When `due` is reached.
    pub fn deadline(&self, due: Tick, now: Timestamp) -> TickDeadline {
        if self.at(now) >= due {
            return TickDeadline::Due;
        }
        match self.since {
            Some(since) => {
                let after = due.since(self.base).saturating_mul(self.interval_ms());
                TickDeadline::At(since + Duration::from_millis(after))
            }
            None => TickDeadline::Stopped,
        }
    }

    /// Reads the clock for an agent that is active, even if the clock does not know it yet.
    pub fn read_for(&self, agent: ProjectAgentId, now: Timestamp) -> TickReading {
        let mut clock = self.clone();
        clock.set_active(agent, true, now);
        let (tick, interval_ms) = (clock.at(now), clock.interval_ms());
        let passed = Duration::from_millis(tick.since(clock.base).saturating_mul(interval_ms));
        TickReading { tick, began: clock.since.map(|since| since + passed), interval_ms }
    }

    fn start(&mut self, now: Timestamp) {
        let elapsed = i64::try_from(self.elapsed_ms).unwrap_or(0);
        self.since = Some(Timestamp::from_millis(now.as_millis().saturating_sub(elapsed)));
        self.elapsed_ms = 0;
    }

    fn stop(&mut self, now: Timestamp) {
        if self.is_running() {
            let running = self.running_ms(now);
            self.base = self.base.plus(running / self.interval_ms());
            self.elapsed_ms = running % self.interval_ms();
            self.since = None;
        }
    }

    fn running_ms(&self, now: Timestamp) -> u64 {
        self.since.map_or(0, |since| u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX))
    }

    /// A stored interval of zero would divide by zero.
    fn interval_ms(&self) -> u64 {
        self.config.interval_ms.max(1)
    }
}
