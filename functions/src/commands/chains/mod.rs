//! Commands on chains of sessions (S0 8.7, 8.9; decisions 33 to 35).

pub mod cancel;
pub mod complete;

use pilothouse_api::chains::ChainView;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::http::Problem;
use pilothouse_app::{App, FreshIds};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::{AgentSession, DomainContext, Events, SessionChain, SessionChainId};
use pilothouse_store::{Commit, CommitError, LoadedAggregate, LoadedConversation, Store};

use crate::queries::chains::sessions_of;

/// The largest number of attempts after conflicts. It is high because agents and reactions often change the current session.
const TRIES: u32 = 100;

/// Builds the view of a chain with the uncommitted state of its current session.
async fn view(
    app: &App,
    chain: &LoadedAggregate<SessionChain>,
    current: &AgentSession,
) -> Result<ChainView, Problem> {
    let mut sessions = sessions_of(app, &chain.value).await?;
    if let Some(last) = sessions.iter_mut().find(|session| session.id() == current.id()) {
        last.clone_from(current);
    }
    Ok(ChainView::of(&chain.value, &sessions, chain.next_version()))
}

/// The events of a decision, for the chain and for its current session.
struct Decided {
    of_chain: Events,
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
    for attempt in 0..TRIES {
        if let Some(answer) = command.earlier_response(&app.store).await? {
            return Ok(answer);
        }
        let mut chain = app.load_aggregate::<SessionChain>(command, id).await?;
        command.check_version(chain.version)?;
        let current = app.store.conversation(chain.value.current_session_id()).await?;
        let mut current =
            current.ok_or_else(|| Problem::internal("the current session of a chain is missing"))?;
        let mut ids = FreshIds;
        let mut ctx = app.domain_context(&mut ids);
        let decided = match decide(&mut chain.value, &mut current, &mut ctx) {
            Ok(decided) => decided,
            // When a client sends the same request twice at once, the first may be the reason for this refusal.
            Err(refusal) => return command.earlier_response(&app.store).await?.ok_or(refusal),
        };
        let of_current = app.with_consequences(&mut current.conversation, decided.of_current, &mut ctx);
        let answer = CommandResponse::ok(
            chain.next_version(),
            &view(app, &chain, &current.conversation.session).await?,
        )?;
        let cause = || Cause::Owner { function: command.function.to_owned() };
        let mut commit = Commit::new();
        app.record_aggregate(&mut commit, &chain, cause(), decided.of_chain)?;
        if !of_current.is_empty() {
            app.record(&mut commit, &mut current, cause(), of_current)?;
        }
        command.store_response(&mut commit, &answer, app)?;
        match app.store.commit(commit).await {
            Ok(()) => return Ok(answer),
            Err(CommitError::Conflict | CommitError::ResponseExists) => {
                tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
            }
            Err(other) => return Err(other.into()),
        }
    }
    Err(Problem::VersionConflict)
}
