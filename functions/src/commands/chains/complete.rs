//! `POST /api/agents/chains/{id}/complete`: completes a chain (S0 8.7 `CompleteSessionChainCommand`, decision 35).

use axum::extract::State;
use pilothouse_api::chains::ChainView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, NoBody, Problem};
use pilothouse_domain::SessionChainId;
use pilothouse_domain::session::AgentSessionStatus;

use super::{Decided, change};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("chains-complete", Verb::Post, "/api/agents/chains/{id}/complete", |verb| {
        verb.route(complete_chain)
    })
    .owner()
    .summary("Complete a chain")
    .output::<ChainView>(&[200]);

/// Responds with 200: the chain is Completed. An Idle current session is closed in the same transaction. The owner must
/// approve or reject pending output first.
async fn complete_chain(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<SessionChainId>,
    _: NoBody,
) -> Result<CommandResponse, Problem> {
    change(&app, &command, id, |chain, current, ctx| {
        let session = &mut current.conversation.session;
        let (status, spent) = (session.status(), session.budget().account_usd());
        let of_chain = chain.complete(status, spent, ctx.now)?;
        let of_current = if status == AgentSessionStatus::Idle { session.close(ctx)? } else { Vec::new() };
        Ok(Decided { of_chain, of_current })
    })
    .await
}
