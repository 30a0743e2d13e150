//! The `ProjectAccount` aggregate: what the agents of a project draw from its spending cap (decision 78).
//!
//! An agent draws a slice when its spend reaches what it has drawn. Its draw is compared with the spend that its session records, so
//! that a repeated or late message changes nothing. The account is written once for each slice.

mod event;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use event::ProjectAccountEvent;

use crate::project::{Project, ProjectError, SpendingCap};
use crate::session::{AgentSession, AgentSessionStatus};
use crate::text::BrakeReason;
use crate::{Aggregate, BrakeId, ProjectAgentId, ProjectId, Usd, UserId};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectAccount {
    project_id: ProjectId,
    owner_id: UserId,
    /// The cap of the project; `None` if it has none any more. A reaction copies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cap: Option<SpendingCap>,
    #[serde(default)]
    draws: BTreeMap<ProjectAgentId, Draw>,
    /// The cost of coherence reviews, and of the embeddings of texts.
    #[serde(default)]
    reviews_usd: Usd,
    /// Whether the owner was warned of this cap.
    #[serde(default)]
    warned: bool,
    /// The latest brake that the cap has pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    brake_id: Option<BrakeId>,
}

/// What an agent has drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Draw {
    drawn_usd: Usd,
    /// The spend when the agent last drew.
    spent_usd: Usd,
    /// The number of slices so far.
    slices: u32,
}

/// The spend of an agent, as its session records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentSpend {
    pub agent_id: ProjectAgentId,
    /// The spend of the session and its predecessors.
    pub spent_usd: Usd,
    /// Whether the session has ended and no other one continues it.
    pub ended: bool,
}

impl AgentSpend {
    pub fn of(agent_id: ProjectAgentId, session: &AgentSession) -> Self {
        use AgentSessionStatus as S;
        let ended = matches!(session.status(), S::Completed | S::Failed | S::Cancelled);
        Self { agent_id, spent_usd: session.budget().account_usd(), ended }
    }
}

/// The result of settling the spend of agents.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settlement {
    pub events: Vec<ProjectAccountEvent>,
    /// Whether an agent received no slice because nothing is left.
    pub is_refused: bool,
}

impl ProjectAccount {
    /// While all agents of a project hold an unused slice, these are at most a tenth of the cap.
    const SHARES_OF_AN_AGENT: u32 = 10;
    /// The smallest slice is this part of the cap, so that a cap has a bounded number of slices.
    const SMALLEST_SLICES: u32 = 1000;

    pub const fn open(project_id: ProjectId, owner_id: UserId) -> Self {
        Self {
            project_id,
            owner_id,
            cap: None,
            draws: BTreeMap::new(),
            reviews_usd: Usd::ZERO,
            warned: false,
            brake_id: None,
        }
    }

    /// Takes over the cap of the project, and takes back what agents did not use when they last drew: under a lower cap, their slices
    /// could be too large. The owner is warned of each cap once.
    pub fn set_cap(&mut self, cap: Option<SpendingCap>) -> Vec<ProjectAccountEvent> {
        if self.cap == cap {
            return Vec::new();
        }
        self.cap = cap;
        self.warned = false;
        for draw in self.draws.values_mut() {
            draw.drawn_usd = draw.spent_usd;
        }
        vec![ProjectAccountEvent::CapChanged { cap }]
    }

    /// Takes over the cost of all coherence reviews and embeddings so far. An earlier sum changes nothing.
    pub fn count_reviews(&mut self, usd: Usd, project: &Project) -> Vec<ProjectAccountEvent> {
        if usd <= self.reviews_usd {
            return Vec::new();
        }
        self.reviews_usd = usd;
        let counted = ProjectAccountEvent::ReviewsCounted { usd, drawn_usd: self.drawn_usd() };
        [counted].into_iter().chain(self.warning(project)).collect()
    }

    /// The warning of the cap, if it is due.
    fn warning(&mut self, project: &Project) -> Option<ProjectAccountEvent> {
        let cap = self.cap.filter(|cap| !self.warned && cap.warns_at(self.drawn_usd()))?;
        self.warned = true;
        Some(ProjectAccountEvent::Warning {
            project: project.definition().brief.name.clone(),
            drawn_usd: self.drawn_usd(),
            cap_usd: cap.usd(),
        })
    }

    /// Whether the spend of an agent changes its draw.
    pub fn concerns(&self, spend: &AgentSpend) -> bool {
        let draw = self.draw_of(spend.agent_id);
        let total = spend.spent_usd.max(draw.spent_usd);
        self.cap.is_some()
            && !total.is_zero()
            && if spend.ended { draw.drawn_usd != total } else { total >= draw.drawn_usd }
    }

    /// Draws a slice for each agent that has spent what it has drawn, and returns what ended sessions did not use.
    pub fn settle(&mut self, spends: &[AgentSpend], project: &Project) -> Settlement {
        let mut settlement = Settlement::default();
        for spend in spends.iter().filter(|spend| spend.spent_usd > Usd::ZERO) {
            self.settle_agent(*spend, project.agents().len(), &mut settlement);
        }
        settlement.events.extend(self.warning(project));
        settlement
    }

    fn settle_agent(&mut self, spend: AgentSpend, agents: usize, settlement: &mut Settlement) {
        let Some(cap) = self.cap.filter(|_| self.concerns(&spend)) else { return };
        let agent_id = spend.agent_id;
        let before = self.draw_of(agent_id);
        // A message about an earlier state does not reduce the spend.
        let spent_usd = spend.spent_usd.max(before.spent_usd);
        self.draws.insert(agent_id, Draw { drawn_usd: spent_usd, spent_usd, ..before });
        if spend.ended && before.drawn_usd > spent_usd {
            let usd = before.drawn_usd.excess_over(spent_usd);
            let drawn_usd = self.drawn_usd();
            settlement.events.push(ProjectAccountEvent::SliceReturned { agent_id, usd, drawn_usd });
            return;
        }
        let left = self.left_usd();
        let share = left.part(Self::SHARES_OF_AN_AGENT * u32::try_from(agents).unwrap_or(u32::MAX).max(1));
        let slice = share.max(cap.usd().part(Self::SMALLEST_SLICES)).min(left);
        if slice.is_zero() {
            settlement.is_refused |= !spend.ended;
            if spent_usd > before.drawn_usd {
                let overshoot_usd = self.overshoot_usd();
                settlement.events.push(ProjectAccountEvent::SliceRefused { agent_id, overshoot_usd });
            }
            return;
        }
        let drawn_usd = if spend.ended { spent_usd } else { spent_usd + slice };
        let slices = before.slices.saturating_add(1);
        self.draws.insert(agent_id, Draw { drawn_usd, spent_usd, slices });
        settlement.events.push(ProjectAccountEvent::SliceDrawn {
            agent_id,
            slice: slices,
            usd: drawn_usd.excess_over(before.drawn_usd),
            drawn_usd: self.drawn_usd(),
        });
    }

    /// Records the brake that a refused slice has pulled.
    pub fn brake(&mut self, brake_id: BrakeId, project: &Project) -> Vec<ProjectAccountEvent> {
        let Some(cap) = self.cap else { return Vec::new() };
        self.brake_id = Some(brake_id);
        let project = project.definition().brief.name.clone();
        vec![ProjectAccountEvent::Braked { project, brake_id, cap_usd: cap.usd() }]
    }

    /// The reason of the brake that the cap pulls.
    pub fn brake_reason(&self) -> Option<BrakeReason> {
        let cap = self.cap?.usd();
        let reason = format!(
            "The spending cap of the project, {cap} dollars, is reached. Raise the cap, then release the brake."
        );
        BrakeReason::parse(reason).ok()
    }

    /// Refuses the start of an agent when nothing is left under `cap`.
    pub fn ensure_covers_start(&self, cap: SpendingCap) -> Result<(), ProjectError> {
        if cap.usd() > self.drawn_usd() {
            Ok(())
        } else {
            Err(ProjectError::SpendingCapReached { cap: cap.usd() })
        }
    }

    fn draw_of(&self, agent: ProjectAgentId) -> Draw {
        self.draws.get(&agent).copied().unwrap_or_default()
    }

    pub const fn cap(&self) -> Option<SpendingCap> {
        self.cap
    }

    /// The draws of all agents (their spend, and slices that they have not used yet) and the cost of coherence reviews and
    /// embeddings.
    pub fn drawn_usd(&self) -> Usd {
        self.draws.values().map(|draw| draw.drawn_usd).sum::<Usd>() + self.reviews_usd
    }

    fn left_usd(&self) -> Usd {
        self.cap.map_or(Usd::ZERO, |cap| cap.usd().excess_over(self.drawn_usd()))
    }

    /// What is drawn above the cap: the spend above it, and slices that are not used yet.
    pub fn overshoot_usd(&self) -> Usd {
        self.cap.map_or(Usd::ZERO, |cap| self.drawn_usd().excess_over(cap.usd()))
    }

    /// Whether nothing is left for another slice.
    pub fn is_empty(&self) -> bool {
        self.cap.is_some() && self.left_usd().is_zero()
    }

    /// The latest brake that the cap has pulled. It may be released.
    pub const fn brake_id(&self) -> Option<BrakeId> {
        self.brake_id
    }
}

impl Aggregate for ProjectAccount {
    /// A project has one account.
    type Id = ProjectId;
    type Event = ProjectAccountEvent;

    const KIND: &'static str = "account";

    fn id(&self) -> ProjectId {
        self.project_id
    }

    fn owner_id(&self) -> &UserId {
        &self.owner_id
    }
}
