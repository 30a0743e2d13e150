//! Sends the commands that events request to the queue of their run (S0 8.10, decision 10).
//!
//! A command is sent with the message id `{commandId}:{attempt}`, and the sidecar deduplicates it by its command id, so repeats
//! have no effect.

use pilothouse_app::http::Problem;
use pilothouse_app::queues;
use pilothouse_app::session_config;
use pilothouse_app::trace;
use pilothouse_app::{App, FreshIds};
use pilothouse_broker::{OutgoingMessage, QueueError};
use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::journal::JournalEntry;
use pilothouse_domain::session::{LifecycleCommand, RequestAnswer};
use pilothouse_domain::value::Adjustment;
use pilothouse_domain::{
    AgentSession, CommandRef, EnvelopeId, IdSource, RunId, SessionEvent, StopMode, ToolCallId,
};
use pilothouse_wire::command::{Begin, IssuedCommand};
use pilothouse_wire::envelope::PROTOCOL_VERSION;
use pilothouse_wire::{Command, Envelope};

const fn ordered(event: &SessionEvent) -> Option<CommandRef> {
    use SessionEvent as E;
    match event {
        E::InterruptRequested { command }
        | E::PauseRequested { command }
        | E::ResumeRequested { command }
        | E::CancelRequested { command }
        | E::ReloadRequested { command }
        | E::AdjustmentRequested { command, .. }
        | E::InputReceived { command, .. }
        | E::PlanApproved { command, .. }
        | E::PlanRejected { command, .. } => *command,
        E::MessageDispatched { command, .. }
        | E::ValidationRequested { command }
        | E::RunReady { command }
        | E::RequestDenied { command, .. }
        | E::RunStopOrdered { command, mode: StopMode::Graceful }
        | E::CommandReissued { command, .. }
        | E::AllowanceChanged { command, .. }
        | E::ReplayRequested { command, .. } => Some(*command),
        _ => None,
    }
}

pub(super) fn run_of(event: &SessionEvent) -> Option<RunId> {
    ordered(event).map(|command| command.run_id)
}

pub(super) const fn concerns(event: &SessionEvent) -> bool {
    ordered(event).is_some()
}

/// Sends the command that `event` requests, if its run is the current one.
pub(super) async fn react(app: &App, entry: &JournalEntry, event: &SessionEvent) -> Result<(), Problem> {
    let Some(order) = ordered(event) else { return Ok(()) };
    let Some(loaded) = app.store.conversation(entry.session_id).await? else { return Ok(()) };
    let conversation = &loaded.conversation;
    if conversation.session.run().is_none_or(|run| run.id != order.run_id) {
        return Ok(());
    }
    let Some(command) = command(app, conversation, event).await? else { return Ok(()) };
    let envelope = Envelope {
        protocol_version: PROTOCOL_VERSION,
        session_id: entry.session_id,
        run_id: order.run_id,
        message_id: EnvelopeId::new(FreshIds.fresh()),
        sequence: None,
        time: app.now(),
        occurred_at: None,
        traceparent: trace::here(),
        body: IssuedCommand { command_id: order.command_id, attempt: order.attempt, command },
    };
    let message = OutgoingMessage::new(
        order.run_id.to_string(),
        format!("{}:{}", order.command_id, order.attempt),
        serde_json::to_string(&envelope).map_err(Problem::internal)?,
    );
    match app.broker.send(&queues::commands(order.run_id), vec![message]).await {
        Ok(outcome) => match outcome.failed.into_iter().next() {
            None => Ok(()),
            Some((_, error)) => Err(Problem::internal(error)),
        },
        // The run ended and its queue was removed.
        Err(QueueError::NoSuchQueue(_)) => Ok(()),
        Err(error) => Err(Problem::internal(error)),
    }
}

async fn command(
    app: &App,
    conversation: &Conversation,
    event: &SessionEvent,
) -> Result<Option<Command>, Problem> {
    use SessionEvent as E;
    let session = &conversation.session;
    Ok(Some(match event {
        E::InterruptRequested { .. } => Command::Interrupt {},
        E::PauseRequested { .. } => Command::Pause {},
        E::ResumeRequested { .. } => Command::Resume {},
        E::CancelRequested { .. } | E::RunStopOrdered { .. } => Command::Stop {},
        E::ReloadRequested { .. } => reload(app, session).await?,
        E::RunReady { .. } => begin(app, session).await?,
        E::CommandReissued { kind, .. } => match kind {
            LifecycleCommand::Interrupt => Command::Interrupt {},
            LifecycleCommand::Pause => Command::Pause {},
            LifecycleCommand::Resume => Command::Resume {},
            LifecycleCommand::Stop => Command::Stop {},
            LifecycleCommand::Reload => reload(app, session).await?,
            LifecycleCommand::Begin => begin(app, session).await?,
            LifecycleCommand::Answer => {
                // Absent: the sidecar acknowledged it.
                let unheard =
                    ordered(event).and_then(|order| session.unacknowledged_answer(order.command_id));
                let Some((request, given)) = unheard else { return Ok(None) };
                answer(request, given)
            }
            LifecycleCommand::Validate => return Ok(validation(session)),
            LifecycleCommand::Adjust => {
                // Absent: it was acknowledged, or another allowance replaced it.
                let pending = ordered(event).and_then(|order| session.pending_adjustment(order.command_id));
                let Some(adjustment) = pending else { return Ok(None) };
                Command::Adjust { adjustment: adjustment.clone() }
            }
        },
        E::InputReceived { request_id, answers, modified_input, .. } => {
            answer(request_id, &RequestAnswer::received(answers, modified_input.as_ref()))
        }
        E::RequestDenied { request_id, answers, .. } => {
            answer(request_id, &RequestAnswer::Answered(answers.clone()))
        }
        E::PlanApproved { request_id, .. } => answer(request_id, &RequestAnswer::Approved),
        E::PlanRejected { request_id, feedback, .. } => {
            answer(request_id, &RequestAnswer::Rejected(feedback.clone()))
        }
        E::AdjustmentRequested { adjustment, .. } => Command::Adjust { adjustment: adjustment.clone() },
        E::AllowanceChanged { allowance_usd, .. } => Command::Adjust {
            adjustment: Adjustment::SetAllowance { allowance_usd: Some(allowance_usd.to_string()) },
        },
        E::ValidationRequested { .. } => return Ok(validation(session)),
        E::MessageDispatched { message_id, .. } => {
            // Absent: an earlier attempt delivered it.
            let Some(message) = conversation.queue.get(*message_id) else { return Ok(None) };
            Command::SteeringMessage {
                message_id: *message_id,
                content: conversation.queue.text_for_agent(message),
                images: message.images.clone(),
                priority: message.priority,
                source: message.source,
                expected_turn_id: message.expected_turn_id.clone(),
            }
        }
        E::ReplayRequested { from_sequence, to_sequence, .. } => {
            Command::Replay { from_sequence: *from_sequence, to_sequence: *to_sequence }
        }
        _ => return Ok(None),
    }))
}

fn answer(request: &ToolCallId, given: &RequestAnswer) -> Command {
    let request_id = request.clone();
    let decided =
        |approved, feedback| Command::PlanDecision { request_id: request.clone(), approved, feedback };
    match given {
        RequestAnswer::Answered(answers) => {
            Command::Answer { request_id, answers: answers.clone(), modified_input: None }
        }
        RequestAnswer::Allowed { answers, terms } => Command::Answer {
            request_id,
            answers: answers.clone(),
            modified_input: terms.modified_input.clone().map(Box::new),
        },
        RequestAnswer::Approved => decided(true, None),
        RequestAnswer::Rejected(feedback) => decided(false, Some(feedback.as_str().to_owned())),
    }
}

/// Builds the request to check the criteria, or `None` if the check is over.
fn validation(session: &AgentSession) -> Option<Command> {
    let auto = session.auto_continue().filter(|_| session.is_validating())?;
    Some(Command::RunValidation {
        criteria: auto.validation_criteria.clone(),
        timeout_seconds: auto.validation_timeout_seconds,
    })
}

/// Starts the agent with the current configuration. A sidecar accepts only the first `begin`, so a repeat has no effect.
async fn begin(app: &App, session: &AgentSession) -> Result<Command, Problem> {
    let opening = session.opening();
    // A continued conversation has the images.
    let images = if opening.resume_conversation { Vec::new() } else { session.images().to_vec() };
    Ok(Command::Begin(Box::new(Begin {
        config: session_config::composed(app, session).await?,
        resume_conversation: opening.resume_conversation,
        prompt: opening.prompt,
        images,
        allowance_usd: session.allowance_usd().map(|allowance| allowance.to_string()),
        allow_unmetered: session.budget().allows_unmetered(),
    })))
}

async fn reload(app: &App, session: &AgentSession) -> Result<Command, Problem> {
    Ok(Command::ReloadConfig { config: Box::new(session_config::composed(app, session).await?) })
}
