//! `POST /api/agents/chains/{id}/cancel`: cancels a chain and its unfinished sessions (S0 8.7
//! `CancelSessionChainCommand`).

use axum::extract::State;
use pilothouse_api::chains::ChainView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, NoBody, Problem};
use pilothouse_domain::SessionChainId;

use super::{Decided, change};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("chains-cancel", Verb::Post, "/api/agents/chains/{id}/cancel", |verb| {
        verb.route(cancel_chain)
    })
    .owner()
    .summary("Cancel a chain and its sessions")
    .output::<ChainView>(&[200]);

/// Responds with 200: the chain is Cancelled. A reaction cancels the sessions. Each session is over when its agent has
/// stopped.
async fn cancel_chain(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<SessionChainId>,
    _: NoBody,
) -> Result<CommandResponse, Problem> {
    change(&app, &command, id, |chain, _, ctx| {
        Ok(Decided { of_chain: chain.cancel(ctx.now)?, of_current: Vec::new() })
    })
    .await
}
