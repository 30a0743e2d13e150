//! Starts the shim on `begin`.

use std::collections::VecDeque;
use std::path::Path;

use pilothouse_domain::MeterId;
use pilothouse_domain::value::MessageImage;
use pilothouse_wire::command::Begin;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Shim;
use super::driver::{Driver, Stops};
use super::meter::Meter;
use super::open_decisions::Decisions;
use super::options::Launch;
use super::saved_state::{Conversation, StateFolder};
use super::start::Starter;
use super::translator::Translator;
use crate::adapter::{AdapterError, AgentCommand, AgentContext, Refusal};
use crate::kit::allowance::Allowance;
use crate::kit::authorizer::Authorizer;
use crate::kit::messages::MessageQueue;
use crate::kit::notices::sub_agents_left_out;
use crate::kit::outage::Outage;
use crate::kit::start::{ConfirmedStops, first_start};
use crate::kit::turns::{DriverExit, state_error};
use crate::kit::{handoff, models};
use crate::own_tools::OwnTools;

/// Handles `begin` and drives the agent until its conversation ends or the channel closes.
pub(super) async fn drive(mut context: AgentContext) -> Result<(), AdapterError> {
    let Some(AgentCommand::Begin(begin, reply)) = context.commands.recv().await else { return Ok(()) };
    let Begin { config, resume_conversation, prompt, images, allowance_usd, allow_unmetered } = *begin;
    let allowance = Allowance::new(allowance_usd.as_deref())?;
    let launch = match Launch::read(&config.adapter_options, |name| std::env::var(name).ok()) {
        Ok(launch) => launch,
        Err(why) => {
            reply.refuse(Refusal::invalid(why.clone())).await?;
            return Err(AdapterError::Configuration(why));
        }
    };
    let own_tools = OwnTools::of(&context)?;
    let authorizer = Authorizer::of(&context, launch.environment.get("HOME").map(String::as_str))?;
    let AgentContext { launch: of_run, events, mut commands, processes, .. } = context;
    let run = of_run.request.run_id;
    let folder = StateFolder::open(Path::new(&of_run.session_home)).map_err(|e| state_error(&e))?;
    let earlier = if resume_conversation { folder.load().map_err(|e| state_error(&e))? } else { None };
    let has_no_task = resume_conversation && earlier.as_ref().is_none_or(|earlier| !earlier.spawned);
    let meter_id =
        MeterId::parse(format!("shim-{run}")).map_err(|e| AdapterError::Configuration(e.to_string()))?;
    let conversation = earlier.unwrap_or_else(|| Conversation::new(meter_id));
    let prices = models::registry(|name| std::env::var(name).ok(), &events)?;
    let totals = conversation.totals.clone();
    let meter = Meter::new(prices, conversation.meter.clone(), config.model_id.clone(), totals);
    let mut deferred_commands = VecDeque::new();
    let starting = async {
        let starter = Starter::prepare(&of_run, events.clone(), processes, &own_tools).await?;
        let shim = starter.start(&launch, &conversation).await?;
        Ok::<_, String>((starter, shim))
    };
    // Dropping the future ends the processes that it started.
    let first = first_start(&mut commands, &mut deferred_commands, starting).await?;
    let Some((outcome, stops)) = first else { return Ok(()) };
    let (starter, shim) = match outcome {
        Ok(parts) => parts,
        Err(why) => {
            reply.refuse(Refusal::invalid(why.clone())).await?;
            return Err(AdapterError::Agent(why));
        }
    };
    reply.done().await?;
    if let Some(left_out) = sub_agents_left_out(&config, "the protocol does not support defining subagents") {
        events.emit(left_out).await?;
    }
    let mut introduction: Vec<String> = config.handoff.as_ref().map(handoff::received).into_iter().collect();
    if has_no_task {
        // The earlier conversation is lost, or never had its task, which the agent gets now.
        introduction.push(conversation.summary.to_text(&config.objective));
    }
    let mut driver = Driver {
        run,
        allowance: allowance.after(meter.spent()),
        translator: Translator::new(authorizer.is_some()),
        health_due: Instant::now() + launch.limits.health,
        events,
        commands,
        deferred_commands,
        starter,
        launch,
        config,
        shim: Some(shim),
        folder,
        conversation,
        meter,
        decisions: Decisions::default(),
        own_requests: own_tools.requests().clone(),
        authorizer,
        messages: MessageQueue::default(),
        turn: None,
        turns: 0,
        outage: Outage::default(),
        introduction,
        prompt: None,
        withdrawn: Vec::new(),
        stops: Stops::default(),
        paused_state: None,
        gap: None,
        skipped_draft: None,
        replays: JoinSet::new(),
        failed_checks: 0,
        allow_unmetered,
        repairs: 0,
        published: Shim::MAXIMUM,
    };
    let ended = Box::pin(run_turns(&mut driver, prompt, &images, stops)).await;
    let stopped = driver.end().await;
    ended.or_else(DriverExit::outcome)?;
    stopped.or_else(DriverExit::outcome)
}

/// `stops` were confirmed during the start.
async fn run_turns(
    driver: &mut Driver,
    prompt: Option<String>,
    images: &[MessageImage],
    stops: ConfirmedStops,
) -> Result<(), DriverExit> {
    driver.publish_capabilities().await?;
    // The control plane pauses such a session, and resumes it with the owner's permission (decision 32).
    driver.stops.unmetered = driver.published.unmetered && !driver.allow_unmetered;
    if stops.paused {
        driver.stops.owner = true;
        driver.suspend();
    }
    if let Some(prompt) = prompt {
        let prompt = driver.text_of(&prompt, images).await?;
        if stops.interrupted {
            driver.withdrawn.push(prompt);
        } else if stops.paused {
            driver.prompt = Some(prompt);
        } else {
            driver.begin_turn(prompt, None).await?;
        }
    }
    driver.drive().await
}
