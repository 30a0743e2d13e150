//! `POST /api/agents/chains/{id}/cancel`: ends a chain with all of its sessions that are not over (S0 8.7
//! `CancelSessionChainCommand`).

use axum::extract::State;
use pilothouse_domain::SessionChainId;

use super::{Decided, change};
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{Id, NoBody, Problem};

/// 200: Cancelled. A reaction cancels the sessions; each confirms when its agent has stopped.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Id(id): Id<SessionChainId>,
    _: NoBody,
) -> Result<Answer, Problem> {
    change(&app, &call, id, |chain, _, cx| {
        Ok(Decided { of_chain: chain.cancel(cx.now)?, of_current: Vec::new() })
    })
    .await
}
