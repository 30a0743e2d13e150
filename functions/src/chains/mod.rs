//! Chains of sessions (S0 8.7, 8.9; rulings 33 to 35).

pub mod cancel;
pub mod complete;
pub mod get;
pub mod list;

use pilothouse_domain::journal::Cause;
use pilothouse_domain::{AgentSession, Events, Occasion, SessionChain, SessionChainId};
use pilothouse_store::{Commit, CommitError, LoadedConversation, LoadedOwned, Store};

use crate::api::chains::ChainView;
use crate::app::{App, FreshIds};
use crate::change::{Answer, Call};
use crate::edge::Problem;

/// How often a lost race is run again: agents and reactions change the current session all the time.
const TRIES: u32 = 100;

/// The sessions of a chain, as they stand.
async fn sessions_of(app: &App, chain: &SessionChain) -> Result<Vec<AgentSession>, Problem> {
    let mut sessions = Vec::with_capacity(chain.len());
    for chained in chain.sessions() {
        sessions.extend(app.store.session(chained.session_id).await?);
    }
    Ok(sessions)
}

/// The view of a chain, with its current session as it is about to be committed.
async fn view(
    app: &App,
    chain: &LoadedOwned<SessionChain>,
    current: &AgentSession,
) -> Result<ChainView, Problem> {
    let mut sessions = sessions_of(app, &chain.value).await?;
    if let Some(last) = sessions.iter_mut().find(|session| session.id() == current.id()) {
        last.clone_from(current);
    }
    Ok(ChainView::of(&chain.value, &sessions, chain.next_version()))
}

/// What a decision does to a chain and to its current session.
struct Decided {
    of_chain: Events,
    of_current: Events,
}

/// Changes a chain together with its current session.
async fn change(
    app: &App,
    call: &Call,
    id: SessionChainId,
    decide: impl Fn(&mut SessionChain, &mut LoadedConversation, &mut Occasion<'_>) -> Result<Decided, Problem>,
) -> Result<Answer, Problem> {
    for attempt in 0..TRIES {
        if let Some(answer) = call.earlier_answer(&app.store).await? {
            return Ok(answer);
        }
        let mut chain = app.owned_of::<SessionChain>(call, id).await?;
        call.check(chain.version)?;
        let current = app.store.conversation(chain.value.current_session_id()).await?;
        let mut current =
            current.ok_or_else(|| Problem::internal("the current session of a chain is gone"))?;
        let mut ids = FreshIds;
        let mut cx = app.occasion(&mut ids);
        let decided = match decide(&mut chain.value, &mut current, &mut cx) {
            Ok(decided) => decided,
            // The same request, sent twice at once: the first one may be why this one is refused.
            Err(refusal) => return call.earlier_answer(&app.store).await?.ok_or(refusal),
        };
        let of_current = app.follow(&mut current.conversation, decided.of_current, &mut cx);
        let answer =
            Answer::ok(chain.next_version(), &view(app, &chain, &current.conversation.session).await?)?;
        let cause = || Cause::Owner { function: call.function.to_owned() };
        let mut commit = Commit::new();
        app.record_owned(&mut commit, &chain, cause(), decided.of_chain)?;
        if !of_current.is_empty() {
            app.record(&mut commit, &mut current, cause(), of_current)?;
        }
        call.keep_answer(&mut commit, &answer, app)?;
        match app.store.commit(commit).await {
            Ok(()) => return Ok(answer),
            Err(CommitError::Conflict | CommitError::AnswerExists) => {
                tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
            }
            Err(other) => return Err(other.into()),
        }
    }
    Err(Problem::VersionConflict)
}
