//! The briefing of a project (decision 87): reads its facts with a bounded number of reads, and composes sentences from them.
//!
//! | module | contents |
//! |---|---|
//! | [`facts`] | the facts of a project and a period |
//! | `journal` | reads the work of an agent from the journals of its sessions |
//! | `unreported` | reads the files that an agent left without an artifact |
//! | `compose` | the sections. It and the following modules are pure |
//! | `finished`, `risks` | two of the sections |
//! | `automatic` | decisions without a person, from the decision log |
//! | `draft` | sentences before they are ordered and limited |
//! | `words` | the wording of sentences |

mod automatic;
mod compose;
mod draft;
pub mod facts;
mod finished;
mod journal;
mod risks;
#[cfg(test)]
mod tests;
mod unreported;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::try_join_all;
use pilothouse_api::briefing::{Briefing, BriefingLimit};
use pilothouse_domain::decision::{Decision, DecisionLogEntry, DecisionSubject};
use pilothouse_domain::{Brake, DecisionId, Project, ProjectAccount, ProjectId, Timestamp, UserId};

use crate::App;
use crate::problem::Problem;
use crate::projects::{CONCURRENT_READS, brake_concerns};
pub use compose::compose;
use facts::{AgentFacts, BrakeFacts, BriefingFacts, Period, SpendingFacts};

/// The period of a briefing without `since`.
const DEFAULT_PERIOD: Duration = Duration::from_hours(24);
/// The longest period. Journals and the decision log are kept for as long.
const LONGEST_PERIOD: Duration = Duration::from_hours(90 * 24);
const LOG_PAGES: usize = 5;
const LOG_ENTRIES: usize = 200;
/// The most decisions of the log whose content is read.
const LOGGED_DECISIONS: usize = 20;

impl Period {
    /// The period until `now`: from `since`, or of the last 24 hours.
    fn until(now: Timestamp, since: Option<Timestamp>) -> Result<Self, Problem> {
        let earliest = |length: Duration| {
            let millis = i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
            Timestamp::from_millis(now.as_millis().saturating_sub(millis))
        };
        let since = since.unwrap_or_else(|| earliest(DEFAULT_PERIOD));
        if since > now {
            return Err(Problem::invalid("since", format!("must be in the past; it is {now} now")));
        }
        if since < earliest(LONGEST_PERIOD) {
            return Err(Problem::invalid("since", "must be at most 90 days ago; older records are deleted"));
        }
        Ok(Self { since, until: now })
    }
}

impl App {
    /// The briefing of a project of `owner` about the time since `since`; by default about the last 24 hours.
    ///
    /// # Errors
    /// [`Problem::NotFound`] if the owner has no such project; [`Problem::Invalid`] if `since` is in the future or too old.
    pub async fn briefing(
        &self,
        owner: &UserId,
        id: ProjectId,
        since: Option<Timestamp>,
    ) -> Result<Briefing, Problem> {
        let project = self.store.aggregate::<Project>(owner, id).await?.ok_or_else(Problem::no_project)?;
        let period = Period::until(self.now(), since)?;
        Ok(compose(&self.briefing_facts(&project.value, period).await?))
    }

    async fn briefing_facts(&self, project: &Project, period: Period) -> Result<BriefingFacts, Problem> {
        let mut incomplete = BTreeSet::new();
        let agents = self.agent_facts(project, period, &mut incomplete).await?;
        let brakes = self.brake_facts(project, &agents).await?;
        let spending = self.spending_facts(project, &brakes).await?;
        let ledger = self.store.review_ledger(project.id()).await?.value;
        let mut open = Vec::new();
        let is_of_project = |decision: &Decision| match &decision.subject {
            DecisionSubject::BrakeRelease { brake_id, .. } => {
                brakes.iter().any(|brake| brake.id == *brake_id)
            }
            _ => decision.project_id() == Some(project.id()),
        };
        let has_more = self.first_open_decisions(project.owner_id(), |decision| {
            if is_of_project(&decision) {
                open.push(decision);
            }
        });
        if has_more.await? {
            incomplete.insert(BriefingLimit::Decisions);
        }
        let (log, has_more) = self.log_of(project.id(), period).await?;
        if has_more {
            incomplete.insert(BriefingLimit::DecisionLog);
        }
        let logged = self.logged_decisions(project.owner_id(), &log, &open).await?;
        Ok(BriefingFacts {
            project_id: project.id(),
            name: project.definition().brief.name.to_string(),
            archived_at: project.archived_at(),
            period,
            agents,
            open,
            log,
            logged,
            brakes,
            spending,
            reviews: ledger.usage(),
            embeddings: ledger.embeddings(),
            incomplete,
        })
    }

    async fn agent_facts(
        &self,
        project: &Project,
        period: Period,
        incomplete: &mut BTreeSet<BriefingLimit>,
    ) -> Result<Vec<AgentFacts>, Problem> {
        let agents = self.agents_of(project).await?;
        let mut facts = Vec::with_capacity(agents.len());
        for some in agents.chunks(CONCURRENT_READS) {
            let work = some.iter().map(|(agent, session)| self.work_of_agent(&agent.value, session, period));
            for ((agent, session), (work, limit)) in some.iter().zip(try_join_all(work).await?) {
                incomplete.extend(limit);
                facts.push(AgentFacts::of(&agent.value, session, work));
            }
        }
        Ok(facts)
    }

    /// The brakes in force that stop agents of the project. An owner has at most 20, and one for each spending cap.
    async fn brake_facts(
        &self,
        project: &Project,
        agents: &[AgentFacts],
    ) -> Result<Vec<BrakeFacts>, Problem> {
        let in_force = self.store.brakes(project.owner_id()).await?;
        let has_session = |session| agents.iter().any(|agent| agent.session.id == session);
        let mut facts = Vec::new();
        for brake in in_force.iter().filter(|brake| brake_concerns(&brake.scope, project, has_session)) {
            let loaded = self.store.aggregate::<Brake>(project.owner_id(), brake.id).await?;
            facts.extend(loaded.map(|loaded| BrakeFacts::of(&loaded.value)));
        }
        Ok(facts)
    }

    async fn spending_facts(
        &self,
        project: &Project,
        brakes: &[BrakeFacts],
    ) -> Result<Option<SpendingFacts>, Problem> {
        let Some(cap) = project.definition().spending_cap else { return Ok(None) };
        let account = self.store.any_aggregate::<ProjectAccount>(project.id()).await?;
        let account = account.map(|account| account.value);
        let brake_id = account.as_ref().and_then(ProjectAccount::brake_id);
        Ok(Some(SpendingFacts {
            cap,
            drawn_usd: account.as_ref().map_or(pilothouse_domain::Usd::ZERO, ProjectAccount::drawn_usd),
            is_exhausted: account.as_ref().is_some_and(ProjectAccount::is_empty),
            is_braked: brake_id.is_some_and(|id| brakes.iter().any(|brake| brake.id == id)),
        }))
    }

    /// The latest entries of the decision log in the period, and whether there are more.
    async fn log_of(&self, id: ProjectId, period: Period) -> Result<(Vec<DecisionLogEntry>, bool), Problem> {
        let (mut entries, mut after) = (Vec::new(), None);
        for _ in 0..LOG_PAGES {
            let between = (Some(period.since), Some(period.until));
            let listing = self.store.decision_log(id, between, LOG_ENTRIES, after).await?;
            entries.extend(listing.items);
            after = listing.next;
            if after.is_none() {
                break;
            }
        }
        Ok((entries, after.is_some()))
    }

    /// The latest ended decisions of the log that no person took. They have the content that the log lacks.
    async fn logged_decisions(
        &self,
        owner: &UserId,
        log: &[DecisionLogEntry],
        open: &[Decision],
    ) -> Result<BTreeMap<DecisionId, Decision>, Problem> {
        let mut ids = Vec::new();
        for id in log.iter().filter_map(automatic::automatic_decision) {
            let is_open = open.iter().any(|decision| decision.id == id);
            if ids.len() < LOGGED_DECISIONS && !is_open && !ids.contains(&id) {
                ids.push(id);
            }
        }
        let reads = ids.iter().map(|id| self.store.decision_of(owner, *id));
        let decisions = try_join_all(reads).await?;
        Ok(decisions.into_iter().flatten().map(|decision| (decision.id, decision)).collect())
    }
}
