//! From `begin` to an agent that is driven.

use std::collections::VecDeque;
use std::path::Path;

use pilothouse_wire::command::Begin;

use super::abilities;
use super::driver::{Break, Driver};
use super::introduction::introduction;
use super::memory::Memory;
use super::messages::Messages;
use super::options::{self, Launch};
use super::requests::Requests;
use super::start::{Started, Starter, while_commands_wait};
use super::terminals::Terminals;
use crate::adapter::{AdapterError, AgentCommand, AgentContext, Refusal};
use crate::own_tools::OwnTools;
use crate::process::in_process::AgentThread;

/// Takes `begin` and drives the agent until its conversation is over or the channel closes.
pub(super) async fn drive(mut context: AgentContext) -> Result<(), AdapterError> {
    let Some(AgentCommand::Begin(begin, reply)) = context.commands.recv().await else { return Ok(()) };
    let Begin { config, resume_conversation, prompt, .. } = *begin;
    let launch = match Launch::read(&config.adapter_options, std::env::var(options::CLAUDE).ok()) {
        Ok(launch) => launch,
        Err(why) => {
            reply.refuse(Refusal::invalid(why.clone())).await?;
            return Err(AdapterError::Configuration(why));
        }
    };
    let (cancel, run) = (launch.cancel, context.launch.request.run_id);
    let own_tools = OwnTools::of(&context)?;
    let AgentContext { launch: of_run, events, mut commands, processes } = context;
    let mut aside = VecDeque::new();
    let starting = async {
        let files = processes.user().map(AgentThread::start).transpose();
        let files = files.map_err(|e| format!("the agent's files cannot be looked after: {e}"))?;
        // First of all: it makes the session's folder, where everything else of the session is.
        let memory = Memory::open(Path::new(&of_run.session_home)).map_err(|e| not_kept(&e))?;
        let earlier = if resume_conversation { memory.load() } else { Ok(None) };
        let starter = Starter::prepare(&of_run, events.clone(), processes.clone(), &own_tools, launch)?;
        let standing = starter.start(&config, earlier.map_err(|e| not_kept(&e))?).await?;
        memory.save(&standing.conversation).map_err(|e| not_kept(&e))?;
        Ok((files, starter, memory, standing))
    };
    // Told to stop before it began: what was started dies with the future.
    let Some(outcome) = while_commands_wait(&mut commands, &mut aside, starting).await else { return Ok(()) };
    let (files, starter, memory, standing) = match outcome {
        Ok(parts) => parts,
        Err(why) => {
            reply.refuse(Refusal::invalid(String::clone(&why))).await?;
            return Err(AdapterError::Agent(why));
        }
    };
    reply.done().await?;
    let Started { agent, advertised, conversation, translator, notices } = standing;
    let folder = starter.folder().clone();
    let mut driver = Driver {
        run,
        events,
        commands,
        aside,
        introduction: if conversation.introduced { Vec::new() } else { introduction(&config, &advertised) },
        starter,
        config,
        agent: Some(agent),
        advertised,
        memory,
        conversation,
        translator,
        requests: Requests::default(),
        terminals: Terminals::new(folder.clone(), processes.clone()),
        folder,
        files,
        processes,
        messages: Messages::default(),
        turn: None,
        compaction: None,
        compactions: VecDeque::new(),
        turns: 0,
        prompts: 0,
        asked: 0,
        paused: false,
        cancel,
        told: abilities::AT_MOST,
        tell_at: None,
    };
    let ended = driver.drive(notices, prompt).await;
    driver.end().await;
    match ended {
        Ok(()) | Err(Break::Over) => Ok(()),
        Err(Break::Failed(e)) => Err(e),
    }
}

/// A sentence for a person.
fn not_kept(e: &std::io::Error) -> String {
    format!("what is kept of the agent's conversation cannot be used: {e}")
}
