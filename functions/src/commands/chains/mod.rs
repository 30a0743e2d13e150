//! Commands on chains of sessions (S0 8.7, 8.9; decisions 33 to 35).

pub mod cancel;
pub mod complete;

use pilothouse_api::chains::ChainView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::Decision;
use pilothouse_domain::{AgentSession, ChainEvent, DomainContext, Events, SessionChain, SessionChainId};
use pilothouse_store::{Commit, LoadedAggregate, LoadedConversation};

use crate::loading::load_chain_sessions;

/// A chain, its current session, and all its sessions.
type Loaded = (LoadedAggregate<SessionChain>, LoadedConversation, Vec<AgentSession>);

/// The events of a decision, for the chain and for its current session.
struct Decided {
    of_chain: Vec<ChainEvent>,
    of_current: Events,
}

/// Changes a chain and its current session in one transaction.
async fn change(
    app: &App,
    command: &CommandContext,
    id: SessionChainId,
    decide: impl Fn(
        &mut SessionChain,
        &mut LoadedConversation,
        &mut DomainContext<'_>,
    ) -> Result<Decided, Problem>,
) -> Result<CommandResponse, Problem> {
    let load = async || {
        let chain = app.load_aggregate::<SessionChain>(command, id).await?;
        command.check_version(chain.version)?;
        let current = app.store.conversation(chain.value.current_session_id()).await?;
        let current =
            current.ok_or_else(|| Problem::internal("the current session of a chain is missing"))?;
        let sessions = load_chain_sessions(app, &chain.value).await?;
        Ok((chain, current, sessions))
    };
    let decide = |(mut chain, mut current, mut sessions): Loaded, ctx: &mut DomainContext<'_>| {
        let decided = decide(&mut chain.value, &mut current, ctx)?;
        let of_current = app.with_consequences(&mut current.conversation, decided.of_current, ctx);
        let changed = &current.conversation.session;
        if let Some(session) = sessions.iter_mut().find(|session| session.id() == changed.id()) {
            session.clone_from(changed);
        }
        let version = chain.next_version();
        let response = CommandResponse::ok(version, &ChainView::of(&chain.value, &sessions, version))?;
        let mut commit = Commit::new();
        app.record_aggregate(&mut commit, &chain, command.cause(), decided.of_chain)?;
        if !of_current.is_empty() {
            app.record(&mut commit, &mut current, command.cause(), of_current)?;
        }
        Ok(Decision::Commit(commit, response))
    };
    app.unit_of_work().run_command(command, load, decide).await
}
