//! The reference model: S0 8.4 and the decisions in their simplest form, without the code of the aggregates. Its inputs are
//! requests, facts and the resulting events. From these it derives the status of the session, what the owner is refused, and the
//! order in which messages are sent. [`crate::properties`] compares it with the aggregates after each step of a random sequence.

mod kit;
mod ledger;
mod mail;
mod walk;

use std::collections::BTreeMap;

use pilothouse_domain::session::{
    AgentFact, AgentSessionStatus as S, PendingRequest, RequestKind, SubAgentStatus,
};
use pilothouse_domain::value::PlanStatus;
use pilothouse_domain::{SessionEvent as E, SubAgentId, Timestamp};

use crate::scenario::Scenario;
pub(crate) use kit::{Change, Kit};
pub(crate) use ledger::Ledger;
pub(crate) use mail::Mail;
pub(crate) use walk::Walk;

#[derive(Debug)]
pub(crate) struct Reference {
    pub(crate) walk: Walk,
    pub(crate) mail: Mail,
    pub(crate) ledger: Ledger,
    pub(crate) kit: Kit,
    pub(crate) retries: u32,
    max_retries: u32,
    pub(crate) reviewable: bool,
    /// API key hash of the latest start.
    key: Option<String>,
    ended_at: Option<Timestamp>,
    plan: Option<(u32, PlanStatus)>,
    /// Subagents with their status and end.
    subagents: BTreeMap<SubAgentId, (SubAgentStatus, Option<Timestamp>)>,
    run_live: bool,
    unreachable: bool,
}

/// The input of a step, as far as its events do not show it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Input<'a> {
    /// A fact of the agent, and whether it was deferred.
    Told {
        fact: &'a AgentFact,
        waits: bool,
    },
    /// A fact of a run that has ended.
    ToldLate(&'a AgentFact),
    /// The owner sent a message, for this turn if given.
    Sent(pilothouse_domain::MessageId, Option<&'a pilothouse_domain::TurnId>),
    Moved(pilothouse_domain::MessageId, usize),
    Released(pilothouse_domain::MessageId),
    Cleared,
    /// The process ended, and whether all that its sidecar spooled was received.
    Died {
        drained: bool,
    },
    Other,
}

impl Reference {
    pub(crate) fn of(scenario: &Scenario, max_retries: u32) -> Self {
        let mut reference = Self {
            walk: Walk::default(),
            mail: Mail::default(),
            ledger: Ledger::with_cap(100),
            kit: Kit::default(),
            retries: 0,
            max_retries,
            reviewable: false,
            key: None,
            ended_at: None,
            plan: None,
            subagents: BTreeMap::new(),
            run_live: false,
            unreachable: false,
        };
        reference.follow(Input::Other, scenario);
        reference
    }

    /// Applies a step and compares the model with the scenario.
    pub(crate) fn step(&mut self, input: Input<'_>, scenario: &Scenario) {
        self.follow(input, scenario);
        self.compare(scenario);
    }

    fn follow(&mut self, input: Input<'_>, scenario: &Scenario) {
        match input {
            Input::Told { fact, waits } => {
                self.mail.heard(fact, self.walk.has_turn_for_messages());
                self.walk.heard(fact);
                if waits {
                    self.walk.defer(fact);
                }
                self.ledger.heard(fact);
                self.meet(fact);
            }
            Input::ToldLate(fact) => {
                self.ledger.heard(fact);
                if matches!(fact, AgentFact::Used(_)) {
                    self.meet(fact);
                }
            }
            Input::Sent(id, turn) => self.mail.sent_for(id, turn.cloned()),
            Input::Moved(id, position) => self.mail.moved(id, position),
            Input::Released(id) => self.mail.released(id),
            Input::Cleared => self.mail.held = false,
            Input::Died { .. } | Input::Other => {}
        }
        self.walk.begin_step(matches!(input, Input::Died { drained: true }));
        for event in &scenario.last {
            // Judge a sent message by the status at that moment.
            self.mail.happened(event, &self.walk, self.can_send());
            self.walk.happened(event);
            self.ledger.happened(event);
            self.kit.happened(event);
            self.remember(event, scenario);
        }
        self.walk.end_step();
    }

    /// Whether messages may be sent: a sidecar is ready, no brake holds the session, the budget is not used up, and no reload is
    /// pending between turns.
    fn can_send(&self) -> bool {
        let rests = matches!(self.walk.status, S::Idle | S::Interrupted);
        let reloads = rests && self.kit.reloads.is_some();
        self.run_live
            && !self.unreachable
            && self.walk.held.is_empty()
            && !self.ledger.exhausted()
            && !reloads
    }

    /// Usage of a subagent whose start was not observed makes it known.
    fn meet(&mut self, fact: &AgentFact) {
        let known = match fact {
            AgentFact::SubAgentStarted { subagent, .. } | AgentFact::SubAgentEnded { subagent, .. } => {
                Some(subagent)
            }
            AgentFact::Used(report) => report.subagent.as_ref(),
            _ => None,
        };
        if let Some(id) = known {
            self.subagents.entry(id.clone()).or_insert((SubAgentStatus::Running, None));
        }
    }

    fn remember(&mut self, event: &E, scenario: &Scenario) {
        match event {
            E::RunReady { .. } => self.run_live = true,
            E::RunStopOrdered { .. } => self.run_live = false,
            E::RunEnded { .. } => (self.run_live, self.unreachable) = (false, false),
            E::RunUnreachable { .. } => {
                assert!(!self.unreachable, "unreachable twice");
                self.unreachable = true;
            }
            E::RunReachable { .. } => {
                assert!(self.unreachable, "reachable again although it was not unreachable");
                self.unreachable = false;
            }
            // `ApiKeyHash` is set by a start and by nothing else.
            E::Started { .. } => self.key = Some(scenario.key.clone()),
            E::OutputReady { .. } => self.reviewable = true,
            E::Approved { .. } | E::Rejected { .. } => self.reviewable = false,
            E::Failed { failure_reason, message } => {
                let failure = scenario.conv.session.failure().expect("the session failed");
                assert_eq!((failure.reason, &failure.message), (*failure_reason, message), "the failure");
            }
            E::Retried { retry_count, .. } => {
                self.retries += 1;
                assert_eq!(*retry_count, self.retries);
                self.reviewable = false;
                self.ended_at = None;
            }
            E::PlanCreated {} => self.plan = Some((self.revision(), PlanStatus::Draft)),
            E::PlanPendingApproval { version, requires_approval, .. } => {
                assert_eq!(*version, self.revision(), "the plan's version");
                let status =
                    if *requires_approval { PlanStatus::PendingApproval } else { PlanStatus::Approved };
                self.plan = Some((*version, status));
            }
            E::PlanApproved { .. } => self.decided(PlanStatus::Approved),
            E::PlanRejected { .. } => self.decided(PlanStatus::Rejected),
            E::SubAgentCompleted { sub_agent_id } => {
                self.ended(sub_agent_id, SubAgentStatus::Completed, scenario);
            }
            E::SubAgentFailed { sub_agent_id, .. } => {
                self.ended(sub_agent_id, SubAgentStatus::Failed, scenario);
            }
            _ => {}
        }
        if matches!(self.walk.status, S::Completed | S::Failed | S::Cancelled) {
            self.ended_at.get_or_insert(scenario.now);
        }
    }

    /// Revision of the plan: a new one after the latest was submitted (S0 8.5).
    fn revision(&self) -> u32 {
        match self.plan {
            None => 1,
            Some((version, PlanStatus::Draft)) => version,
            Some((version, _)) => version + 1,
        }
    }

    fn decided(&mut self, status: PlanStatus) {
        let (version, _) = self.plan.expect("a plan is decided on");
        self.plan = Some((version, status));
    }

    fn ended(&mut self, id: &SubAgentId, status: SubAgentStatus, scenario: &Scenario) {
        let before = self.subagents.insert(id.clone(), (status, Some(scenario.now)));
        assert!(
            matches!(before, Some((SubAgentStatus::Running, None))),
            "{id} ended although it was {before:?}"
        );
    }

    fn compare(&mut self, scenario: &Scenario) {
        let session = &scenario.conv.session;
        assert_eq!(session.status(), self.walk.status, "status, after {:?}", scenario.last);
        assert_eq!(session.retry_count(), self.retries);
        assert!(self.retries <= self.max_retries);
        assert_eq!(session.api_key_hash(), self.key.as_deref(), "the key's hash");
        assert_eq!(session.completed_at(), self.ended_at, "CompletedAt");
        assert_eq!(session.has_pending_review(), self.reviewable, "HasPendingReview");
        assert_eq!(session.turn().map(|turn| &turn.id), self.walk.turn.as_ref(), "the open turn");
        let waits = |request: &PendingRequest| matches!(request.kind, RequestKind::Plan { .. });
        if let Some((version, status @ PlanStatus::PendingApproval)) = &mut self.plan
            && !session.pending_requests().iter().any(waits)
        {
            // Its request ended without a decision.
            (*version, *status) = (*version + 1, PlanStatus::Draft);
        }
        let plan = session.plan().map(|plan| (plan.version, plan.status));
        assert_eq!(plan, self.plan, "the plan");
        let subagents =
            scenario.conv.subagents.iter().map(|(id, s)| (id.clone(), (s.status, s.completed_at)));
        assert_eq!(subagents.collect::<BTreeMap<_, _>>(), self.subagents, "subagents");
        let requests: Vec<_> = session.pending_requests().iter().map(|r| r.id.clone()).collect();
        assert_eq!(requests, self.walk.request_ids(), "open requests");
        let held: Vec<_> = session.held_by().iter().map(|held| held.brake_id).collect();
        assert_eq!(held, self.walk.held, "brakes");
        self.ledger.compare(scenario);
        assert_eq!(session.enabled_skill_ids(), self.kit.skills, "skills");
        assert_eq!(session.reload().is_some(), self.kit.reloads.is_some(), "a reload");
        self.mail.compare(scenario, &self.walk, self.can_send());
    }
}

/// Operations of the owner on the session itself. Messages are covered by [`Mail::refuses`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Interrupt,
    Pause {
        possible: bool,
    },
    Resume,
    Cancel,
    /// A brake stops the session.
    Hold,
    Close,
    /// Approve or reject the latest output.
    Review,
    Retry,
    /// A new cap, in cents.
    Cap(u64),
    Choose,
    Compact,
    Fork,
    Submit,
    /// Answer or decide on the oldest request, or on an unknown one.
    Decide {
        there: bool,
    },
}

impl Reference {
    /// The error code of a refusal by S0 8.4 and the decisions; `None` if the operation is allowed.
    pub(crate) fn refuses(&self, asked: Asked) -> Option<&'static str> {
        let status = self.walk.status;
        let ended = matches!(status, S::Completed | S::Cancelled | S::ContextExhausted | S::Failed);
        let invalid = Some("invalid-transition");
        let spent = self.ledger.exhausted().then_some("budget-exhausted");
        let spent = if self.walk.held.is_empty() { spent } else { Some("braked") };
        let starting = self.mail.turn_starts().then_some("turn-starting");
        match asked {
            Asked::Interrupt if matches!(status, S::Running | S::WaitingForInput | S::WaitingForApproval) => {
                None
            }
            Asked::Pause { possible } if status == S::Running => (!possible).then_some("not-supported"),
            Asked::Pause { .. } if self.walk.resumes && matches!(status, S::Pausing | S::Paused) => None,
            Asked::Resume if status == S::Paused => spent,
            Asked::Cancel | Asked::Hold if !ended => None,
            Asked::Close if status == S::Idle => starting.or(self.reviewable.then_some("review-pending")),
            Asked::Review if status == S::Idle => {
                starting.or((!self.reviewable).then_some("nothing-to-review"))
            }
            Asked::Retry if status == S::Failed => {
                spent.or((self.retries >= self.max_retries).then_some("retries-exhausted"))
            }
            Asked::Cap(_) if matches!(status, S::Completed | S::Cancelled | S::ContextExhausted) => invalid,
            Asked::Cap(cents) => (cents <= self.ledger.spent()).then_some("cap-below-spend"),
            Asked::Choose if matches!(status, S::Completed | S::Cancelled | S::ContextExhausted) => invalid,
            Asked::Choose => None,
            Asked::Compact if matches!(status, S::Running | S::Idle | S::Interrupted) => spent,
            Asked::Fork if matches!(status, S::Idle | S::Interrupted) => {
                starting.or(self.kit.reloads.map(|_| "reload-under-way"))
            }
            Asked::Submit if !ended && status != S::Queued => None,
            // A brake keeps requests open while the session is Paused.
            Asked::Decide { there: true } if !status.is_waiting() => spent.or(invalid),
            Asked::Decide { there: true } => spent,
            Asked::Decide { there: false } => Some("request-over"),
            _ => invalid,
        }
    }
}
