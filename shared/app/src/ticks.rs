//! The ticks of a project (S2, "Tick Service"; decision 76).

use pilothouse_domain::tick::{Tick, TickClock, TickError, TickReading};
use pilothouse_domain::{AgentSession, Project, ProjectId, Timestamp};
use pilothouse_store::{Commit, Loaded, LoadedAggregate};

use crate::App;
use crate::problem::Problem;

/// A project with its clock.
#[derive(Debug, Clone, PartialEq)]
pub struct ProjectTime {
    pub project: LoadedAggregate<Project>,
    /// `None` until the clock is needed.
    clock: Option<Loaded<TickClock>>,
}

impl App {
    /// Loads a project of any owner with its clock; `None` if there is no such project.
    ///
    /// The clock is read first. The configuration of the project is then at least as recent as that of the clock, and a commit of the
    /// clock never restores an earlier one.
    pub async fn project_time(&self, id: ProjectId) -> Result<Option<ProjectTime>, Problem> {
        let clock = self.store.tick_clock(id).await?;
        let project = self.store.any_aggregate::<Project>(id).await?;
        Ok(project.map(|project| ProjectTime { project, clock }))
    }

    /// Reads the ticks for a session in a project; `None` if it is in no project.
    ///
    /// # Errors
    /// [`Problem`] when the clock cannot be read.
    pub async fn ticks_of(&self, session: &AgentSession) -> Result<Option<TickReading>, Problem> {
        let Some(membership) = session.project() else { return Ok(None) };
        let Some(time) = self.project_time(membership.project_id).await? else { return Ok(None) };
        let now = self.now();
        Ok(Some(time.clock(now)?.read_for(membership.agent_id, now)))
    }
}

impl ProjectTime {
    /// The clock with the configuration of the project, which may not have reached the stored clock yet.
    ///
    /// # Errors
    /// [`TickError`] when the stored configuration is invalid.
    pub fn clock(&self, now: Timestamp) -> Result<TickClock, TickError> {
        let config = self.project.value.definition().tick_config;
        let Some(stored) = &self.clock else { return TickClock::new(config) };
        let mut clock = stored.value.clone();
        clock.configure(config, now)?;
        Ok(clock)
    }

    /// The version of the stored clock; 0 without one.
    pub fn version(&self) -> u64 {
        self.clock.as_ref().map_or(0, |stored| stored.version)
    }

    /// Whether a clock is stored.
    pub const fn has_clock(&self) -> bool {
        self.clock.is_some()
    }

    /// The current tick.
    ///
    /// # Errors
    /// [`TickError`] when the stored configuration is invalid.
    pub fn tick(&self, now: Timestamp) -> Result<Tick, TickError> {
        Ok(self.clock(now)?.at(now))
    }

    /// The commit that stores the clock as `changed`; `None` if it is stored like that.
    ///
    /// # Errors
    /// [`Problem`] when the clock cannot be written.
    pub fn commit(&self, changed: TickClock) -> Result<Option<Commit>, Problem> {
        if self.clock.as_ref().is_some_and(|stored| stored.value == changed) {
            return Ok(None);
        }
        let version = self.version();
        let mut commit = Commit::new();
        commit.tick_clock(self.project.value.id(), &Loaded { value: changed, version })?;
        Ok(Some(commit))
    }
}
