//! `POST /api/agents/chains/{id}/complete`: the work is done (S0 8.7 `CompleteSessionChainCommand`, ruling 35).

use axum::extract::State;
use pilothouse_domain::SessionChainId;
use pilothouse_domain::session::AgentSessionStatus;

use super::{Decided, change};
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{Id, NoBody, Problem};

/// 200: Completed. An Idle current session is closed with it; output that waits for review is decided on first.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Id(id): Id<SessionChainId>,
    _: NoBody,
) -> Result<Answer, Problem> {
    change(&app, &call, id, |chain, current, cx| {
        let session = &mut current.conversation.session;
        let (status, spent) = (session.status(), session.budget().account_usd());
        let of_chain = chain.complete(status, spent, cx.now)?;
        let of_current = if status == AgentSessionStatus::Idle { session.close(cx)? } else { Vec::new() };
        Ok(Decided { of_chain, of_current })
    })
    .await
}
