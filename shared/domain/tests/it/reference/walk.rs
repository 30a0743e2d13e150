//! The status of a session: S0 8.4 "Status transitions are strictly controlled", with one match arm for each transition. Each
//! transition has an event. An event without a transition from the current status is a violation.

use pilothouse_domain::session::{AgentFact, AgentSessionStatus as S, LifecycleCommand};
use pilothouse_domain::{AgentSession, BrakeId, CommandId, SessionEvent as E, ToolCallId};

/// Deferred facts (decision 17), as far as they affect the status after the pending request.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Deferred {
    TurnStart,
    TurnEnd,
    Request(ToolCallId),
    /// The agent failed.
    Failure,
    Other,
}

/// A turn that was lost with the process of a paused session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LostTurn {
    No,
    Lost,
    /// The session was resumed, and a message is about to take the place of the turn.
    Replaced,
}

/// The resume that was sent to the current run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SentResume {
    No,
    Sent(CommandId),
    Received,
    /// The step reports the end of a process whose complete spool shows that it did not receive the resume.
    NeverReceived,
}

/// A cancellation that waits for another request (decision 16).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AcceptedCancel {
    No,
    Waits,
}

/// Status, open turn and open requests.
#[derive(Debug)]
pub(crate) struct Walk {
    pub(crate) status: S,
    /// The open turn; unknown between a start and its `turn_started`.
    pub(crate) turn: Option<pilothouse_domain::TurnId>,
    /// Open requests, oldest first, and whether each is a plan.
    requests: Vec<(ToolCallId, bool)>,
    deferred: Vec<Deferred>,
    /// The step confirmed an interrupt: turns that it reports afterwards are over.
    interrupted: bool,
    /// An answer was sent that the agent may not have received (decisions 12 and 26).
    answered: bool,
    lost_turn: LostTurn,
    resume: SentResume,
    cancel: AcceptedCancel,
    /// Runs that ended since the latest turn started.
    ended_runs: u8,
    /// Brakes that hold the session.
    pub(crate) held: Vec<BrakeId>,
    /// The hold stopped the agent, and its release resumes it.
    pub(crate) resumes: bool,
}

impl Default for Walk {
    fn default() -> Self {
        Self {
            status: S::Queued,
            turn: None,
            requests: Vec::new(),
            deferred: Vec::new(),
            interrupted: false,
            answered: false,
            lost_turn: LostTurn::No,
            resume: SentResume::No,
            cancel: AcceptedCancel::No,
            ended_runs: 0,
            held: Vec::new(),
            resumes: false,
        }
    }
}

impl Walk {
    pub(crate) fn begin_step(&mut self, drained: bool) {
        self.interrupted = false;
        if drained && matches!(self.resume, SentResume::Sent(_)) {
            self.resume = SentResume::NeverReceived;
        }
    }

    pub(crate) fn heard(&mut self, fact: &AgentFact) {
        if let AgentFact::CommandReceived(command) = fact
            && self.resume == SentResume::Sent(*command)
        {
            self.resume = SentResume::Received;
        }
    }

    /// Decision 14: a process that never received the resume takes nothing with it. Its session wakes, unless several processes in a
    /// row end like this.
    fn may_fail_with_its_process(&self) -> bool {
        self.resume != SentResume::NeverReceived
            || self.deferred.contains(&Deferred::Failure)
            || self.ended_runs + 1 >= AgentSession::MAX_FRUITLESS_RUNS
    }

    pub(crate) fn request_ids(&self) -> Vec<ToolCallId> {
        self.requests.iter().map(|(id, _)| id.clone()).collect()
    }

    pub(crate) fn defer(&mut self, fact: &AgentFact) {
        self.deferred.push(match fact {
            AgentFact::TurnStarted { .. } => Deferred::TurnStart,
            AgentFact::TurnCompleted { .. } | AgentFact::SessionEnded { is_error: false, .. } => {
                Deferred::TurnEnd
            }
            AgentFact::QuestionAsked { request, .. } | AgentFact::PlanShown { request, .. } => {
                Deferred::Request(request.clone())
            }
            AgentFact::SessionEnded { is_error: true, .. } => Deferred::Failure,
            _ => Deferred::Other,
        });
    }

    /// Whether the last deferred fact about turns is an end.
    fn turn_had_ended(&self) -> bool {
        let of_turns =
            self.deferred.iter().rev().find(|d| matches!(d, Deferred::TurnStart | Deferred::TurnEnd));
        of_turns == Some(&Deferred::TurnEnd)
    }

    /// Whether a message that the agent receives now joins the running turn (decision 29).
    pub(crate) fn has_turn_for_messages(&self) -> bool {
        self.status == S::Running || (self.turn.is_some() && !self.turn_had_ended())
    }

    #[track_caller]
    fn go(&mut self, from: &[S], to: S, event: &E) {
        assert!(from.contains(&self.status), "{} although the session is {}", event.name(), self.status);
        self.status = to;
        if matches!(to, S::Idle | S::Interrupted | S::Queued) || to.is_terminal() {
            self.turn = None;
            if self.lost_turn == LostTurn::Replaced {
                self.lost_turn = LostTurn::No;
            }
        }
        let in_between = matches!(to, S::Interrupting | S::Pausing | S::Resuming | S::Cancelling | S::Paused);
        if !in_between {
            self.deferred.clear();
        }
    }

    /// Closes a request. The agent continues if it was the last (decision 26).
    fn close(&mut self, id: &ToolCallId, then: S) {
        let before = self.requests.len();
        self.requests.retain(|(open, _)| open != id);
        self.deferred.retain(|d| *d != Deferred::Request(id.clone()));
        let waits = matches!(self.status, S::WaitingForInput | S::WaitingForApproval);
        if !waits || before == self.requests.len() {
            return;
        }
        self.status = match self.requests.first() {
            None => then,
            Some((_, false)) => S::WaitingForInput,
            Some((_, true)) => S::WaitingForApproval,
        };
        if self.status == S::Idle {
            self.turn = None;
        }
    }

    fn open(&mut self, id: &ToolCallId, plan: bool, event: &E) {
        let kind = |plan| if plan { S::WaitingForApproval } else { S::WaitingForInput };
        if !self.requests.iter().any(|(open, _)| open == id) && self.requests.len() < 20 {
            self.requests.push((id.clone(), plan));
        }
        let to = kind(self.requests.first().is_some_and(|(_, plan)| *plan));
        self.go(&[S::Running, S::WaitingForInput, S::WaitingForApproval], to, event);
    }

    pub(crate) fn happened(&mut self, event: &E) {
        const WAITS: [S; 2] = [S::WaitingForInput, S::WaitingForApproval];
        const INTERMEDIATE: [S; 3] = [S::Interrupting, S::Pausing, S::Resuming];
        const ALIVE: [S; 7] = [
            S::Queued,
            S::Running,
            S::Interrupted,
            S::Paused,
            S::WaitingForInput,
            S::WaitingForApproval,
            S::Idle,
        ];
        let at_work = [S::Running, WAITS[0], WAITS[1]];
        match event {
            E::Started { .. } => self.go(&[S::Queued], S::Running, event),
            // Turns that ended before the interrupt was confirmed are reported after it.
            E::TurnStarted { .. } | E::TurnCompleted { .. } | E::OutputReady { .. } if self.interrupted => {}
            E::TurnStarted { turn_id, .. } => {
                self.go(&[S::Idle, S::Interrupted, S::Running], S::Running, event);
                self.turn = Some(turn_id.clone());
                self.lost_turn = LostTurn::No;
                self.ended_runs = 0;
            }
            E::TurnCompleted { .. } => self.go(&at_work, S::Idle, event),
            E::OutputReady { .. } => self.go(&[S::Running, WAITS[0], WAITS[1], S::Idle], S::Idle, event),
            E::InterruptRequested { .. } => self.go(&at_work, S::Interrupting, event),
            E::Interrupted {} => {
                let to = if self.turn_had_ended() { S::Idle } else { S::Interrupted };
                self.go(&[S::Interrupting], to, event);
                self.interrupted = true;
            }
            // Decision 72: a hold pauses a waiting session too, and its requests stay open.
            E::PauseRequested { .. } if !self.held.is_empty() => {
                self.go(&at_work, S::Pausing, event);
                self.resumes = true;
            }
            E::PauseRequested { .. } => self.go(&[S::Running], S::Pausing, event),
            E::Held { brake_id, .. } => self.held.push(*brake_id),
            E::HoldReleased { brake_id } => self.held.retain(|held| held != brake_id),
            E::HoldKept {} => self.resumes = false,
            E::Paused {} => self.go(&[S::Pausing], S::Paused, event),
            E::ResumeRequested { command } => {
                self.go(&[S::Paused], S::Resuming, event);
                self.resume = command.map_or(SentResume::No, |sent| SentResume::Sent(sent.command_id));
            }
            E::CommandReissued { kind: LifecycleCommand::Resume, command }
                if self.resume != SentResume::Received =>
            {
                self.resume = SentResume::Sent(command.command_id);
            }
            E::Resumed {} => {
                let to = match self.requests.first() {
                    None => S::Running,
                    Some((_, false)) => S::WaitingForInput,
                    Some((_, true)) => S::WaitingForApproval,
                };
                self.lost_turn = match self.lost_turn {
                    LostTurn::Lost if to == S::Running && !self.turn_had_ended() => LostTurn::Replaced,
                    // The message that takes the place of the turn did not arrive before the pause.
                    LostTurn::Replaced => LostTurn::Replaced,
                    LostTurn::No | LostTurn::Lost => LostTurn::No,
                };
                self.go(&[S::Resuming], to, event);
            }
            E::AutoContinueStopped { .. } if self.lost_turn == LostTurn::Replaced => {
                self.go(&[S::Running], S::Idle, event);
            }
            E::ResumeAbandoned {} => self.go(&[S::Resuming], S::Paused, event),
            E::CancelAccepted {} => self.cancel = AcceptedCancel::Waits,
            E::CancelRequested { .. } => {
                // An accepted one is carried out when the process ends that had to resolve the earlier request.
                let accepted = std::mem::replace(&mut self.cancel, AcceptedCancel::No);
                let unresolved = if accepted == AcceptedCancel::Waits { &INTERMEDIATE[..] } else { &[][..] };
                self.go(&[&ALIVE[..], unresolved].concat(), S::Cancelling, event);
            }
            E::Cancelled {} => self.go(&[S::Cancelling], S::Cancelled, event),
            E::WaitingForInput { request_id, .. } => self.open(request_id, false, event),
            E::PlanPendingApproval { request_id, requires_approval: true, .. } => {
                self.open(request_id, true, event);
            }
            // Without a waiting sidecar, the answer starts a turn (decision 26).
            E::InputReceived { request_id, command, .. }
            | E::PlanApproved { request_id, command }
            | E::PlanRejected { request_id, command, .. } => {
                self.close(request_id, if command.is_some() { S::Running } else { S::Idle });
                self.answered |= command.is_some();
            }
            E::RequestClosed { request_id } => self.close(request_id, S::Running),
            E::ContextExhausted { .. } | E::VoluntaryHandoff { .. } => {
                self.go(&[S::Running], S::ContextExhausted, event);
            }
            E::Approved { .. } | E::Closed {} => self.go(&[S::Idle], S::Completed, event),
            E::Rejected { .. } => self.go(&[S::Idle], S::Failed, event),
            E::Failed { .. } if self.status == S::Failed => {}
            E::Failed { .. } => {
                assert!(self.status != S::Resuming || self.may_fail_with_its_process(), "nothing was lost");
                assert_eq!(self.cancel, AcceptedCancel::No, "a failure undid a cancellation");
                self.go(&[&ALIVE[..], &INTERMEDIATE[..]].concat(), S::Failed, event);
            }
            E::Retried { .. } => self.go(&[S::Failed], S::Queued, event),
            // A hibernated session has no open turn: it ended with its process.
            E::RunEnded { status, .. } => {
                let had_turn = self.turn.is_some() || self.deferred.contains(&Deferred::TurnStart);
                if self.lost_turn == LostTurn::Replaced && self.status == S::Running {
                    // The message that continues the work starts the next run.
                    self.go(&[S::Running], S::Idle, event);
                }
                let unheard = self.answered && matches!(self.status, S::Running | S::Interrupted);
                if unheard && *status == S::Idle {
                    // The answer that was never received is sent as a message, which starts a turn.
                    self.go(&[S::Running, S::Interrupted], S::Idle, event);
                }
                self.answered = false;
                self.resume = SentResume::No;
                self.ended_runs = self.ended_runs.saturating_add(1);
                assert_eq!(*status, self.status);
                let kept = [S::Idle, S::Interrupted, S::WaitingForInput, S::WaitingForApproval];
                if !kept.contains(status) {
                    self.turn = None;
                }
                if matches!(status, S::Paused | S::Resuming) {
                    if had_turn {
                        self.lost_turn = if self.turn_had_ended() { LostTurn::No } else { LostTurn::Lost };
                    }
                    // What had ended before still counts after the resume.
                    self.deferred.retain(|d| !matches!(d, Deferred::TurnStart | Deferred::Request(_)));
                }
            }
            _ => {}
        }
        if self.status.is_terminal() {
            self.held.clear();
            (self.resumes, self.lost_turn) = (false, LostTurn::No);
        }
        self.resumes |= !self.held.is_empty() && self.status == S::Resuming;
    }

    /// A session that no brake holds any more is resumed in the same commit.
    pub(crate) fn end_step(&mut self) {
        self.resumes &= !self.held.is_empty() || self.status.is_intermediate();
    }
}
