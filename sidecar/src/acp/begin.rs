//! Starts the agent on `begin`.

use std::collections::VecDeque;
use std::path::Path;

use pilothouse_wire::command::Begin;

use super::capabilities;
use super::conversation_file::ConversationFile;
use super::driver::Driver;
use super::file_requests::FileRequests;
use super::introduction::introduction;
use super::limit::Spending;
use super::options::{self, Launch};
use super::requests::Requests;
use super::start::{Started, Starter};
use super::terminals::Terminals;
use super::verdicts::Verdicts;
use super::waiting::{Messages, OwnPrompt};
use crate::adapter::{AdapterError, AgentCommand, AgentContext, Refusal};
use crate::kit::allowance::Allowance;
use crate::kit::authorizer::Authorizer;
use crate::kit::conversation_summary::ConversationSummary;
use crate::kit::deferral::PendingCompactions;
use crate::kit::images::Images;
use crate::kit::outage::Outage;
use crate::kit::start::first_start;
use crate::kit::turns::DriverExit;
use crate::own_tools::OwnTools;

/// Handles `begin` and drives the agent until its conversation ends or the channel closes.
pub(super) async fn drive(mut context: AgentContext) -> Result<(), AdapterError> {
    let Some(AgentCommand::Begin(begin, reply)) = context.commands.recv().await else { return Ok(()) };
    let Begin { config, resume_conversation, prompt, images, allowance_usd, allow_unmetered } = *begin;
    let allowance = Allowance::new(allowance_usd.as_deref())?;
    let launch = match Launch::read(&config.adapter_options, std::env::var(options::CLAUDE).ok()) {
        Ok(launch) => launch,
        Err(why) => {
            reply.refuse(Refusal::invalid(why.clone())).await?;
            return Err(AdapterError::Configuration(why));
        }
    };
    let (cancel, run) = (launch.cancel, context.launch.request.run_id);
    let own_tools = OwnTools::of(&context)?;
    let own_requests = own_tools.requests().clone();
    let authorizer = Authorizer::of(&context, launch.environment.get("HOME").map(String::as_str))?;
    let AgentContext { launch: of_run, events, mut commands, processes, .. } = context;
    let mut deferred_commands = VecDeque::new();
    let starting = async {
        let files = processes.file_thread();
        let files = files.map_err(|e| format!("failed to set up access to the agent's files: {e}"))?;
        // Creates the session's home, which all later steps need.
        let conversation_file =
            ConversationFile::open(Path::new(&of_run.session_home)).map_err(|e| save_error(&e))?;
        let earlier = if resume_conversation { conversation_file.load() } else { Ok(None) };
        let prices = crate::kit::models::registry(|name| std::env::var(name).ok(), &events);
        let prices = prices.map_err(|e| e.to_string())?;
        let starter =
            Starter::prepare(&of_run, events.clone(), processes.clone(), &own_tools, launch, prices)?;
        let mut standing = starter.start(&config, earlier.map_err(|e| save_error(&e))?).await?;
        let conversation = &mut standing.conversation;
        if resume_conversation && !conversation.introduced && conversation.earlier.is_none() {
            // The earlier conversation is lost, or never had its task, which the agent gets now.
            conversation.earlier = Some(ConversationSummary::default());
        }
        let kept = events.until_space(|| conversation_file.save(&standing.conversation)).await;
        kept.map_err(|e| save_error(&e))?;
        Ok((files, starter, conversation_file, standing))
    };
    // Dropping the future ends the processes that it started.
    let first = first_start(&mut commands, &mut deferred_commands, starting).await?;
    let Some((outcome, stops)) = first else { return Ok(()) };
    let (files, starter, conversation_file, standing) = match outcome {
        Ok(parts) => parts,
        Err(why) => {
            reply.refuse(Refusal::invalid(String::clone(&why))).await?;
            return Err(AdapterError::Agent(why));
        }
    };
    reply.done().await?;
    let Started { agent, advertised, conversation, translator, notices } = standing;
    let folder = starter.folder().clone();
    let allowance = allowance.after(translator.meter.spent());
    let spending = Spending { allowance, allow_unmetered, ..Spending::default() };
    let mut driver = Driver {
        run,
        events,
        commands,
        deferred_commands,
        introduction: if conversation.introduced {
            Vec::new()
        } else {
            introduction(&config, &advertised, conversation.earlier.as_ref())
        },
        starter,
        images: Images::of(of_run),
        config,
        agent: Some(agent),
        advertised,
        conversation_file,
        conversation,
        translator,
        requests: Requests::default(),
        own_requests,
        authorizer,
        verdicts: Verdicts::default(),
        terminals: Terminals::new(folder.clone(), processes.clone()),
        folder,
        files: FileRequests::new(files),
        processes,
        messages: Messages::default(),
        turn: None,
        compaction: None,
        compactions: PendingCompactions::default(),
        turns: 0,
        prompts: 0,
        question_count: 0,
        withdrawn: Vec::new(),
        paused: false,
        cancel,
        spending,
        outage: Outage::default(),
        deferred_requests: VecDeque::new(),
        published_capabilities: capabilities::MAXIMUM,
        publish_calls_at: None,
    };
    let task = prompt.map(|words| OwnPrompt { words, images });
    let ended = Box::pin(driver.drive(notices, task, stops)).await;
    driver.end().await;
    ended.or_else(DriverExit::outcome)
}

fn save_error(e: &std::io::Error) -> String {
    format!("failed to use the state of the agent's conversation (acp.json in the session's folder): {e}")
}
