//! `POST /api/agents/sessions/{id}/switch-conversation`: continues another conversation or branch of the session (S1 5
//! `SwitchSession`).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::input::{FieldError, Violations};
use pilothouse_api::sessions::SessionView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Problem, Session};
use pilothouse_domain::TurnId;
use pilothouse_domain::value::{Adjustment, AgentConversations, ConversationTarget};
use schemars::JsonSchema;

pub const FUNCTION: HttpFunction = HttpFunction::new(
    "sessions-switch-conversation",
    Verb::Post,
    "/api/agents/sessions/{id}/switch-conversation",
    |verb| verb.route(switch_conversation),
)
.owner()
.summary("Continue another conversation or branch of a session")
.input::<SwitchConversation>()
.output::<SessionView>(&[202]);

/// Where the agent continues. Exactly one field is required. `GET …/conversations` lists the conversations.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SwitchConversation {
    /// The conversation. The agent continues where it left it.
    #[deserr(default, try_from(Option<String>) = checked_conversation -> FieldError)]
    #[schemars(length(min = 1, max = 100))]
    pub conversation_id: Option<String>,
    /// A turn of any conversation and branch. The agent continues after it.
    #[deserr(default)]
    pub turn_id: Option<TurnId>,
}

fn checked_conversation(text: Option<String>) -> Result<Option<String>, FieldError> {
    const MOST: usize = AgentConversations::MAX_TEXT;
    match text {
        Some(id) if id.is_empty() || id.chars().count() > MOST => {
            Err(FieldError(format!("must have 1 to {MOST} characters")))
        }
        other => Ok(other),
    }
}

/// Responds with 202. The agent switches later, or refuses an unknown conversation or turn. A hibernated session is woken first.
async fn switch_conversation(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    body: Body<SwitchConversation>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let SwitchConversation { conversation_id, turn_id } = body.input;
    let target = match (conversation_id, turn_id) {
        (Some(conversation), None) => ConversationTarget::ConversationId(conversation),
        (None, Some(turn)) => ConversationTarget::TurnId(turn),
        (None, None) => return Err(Problem::invalid("", "name a `conversationId` or a `turnId`")),
        (Some(_), Some(_)) => {
            return Err(Problem::invalid("turnId", "cannot be combined with conversationId"));
        }
    };
    let switch = [Adjustment::SwitchConversation { target }];
    app.change_session(&command, id, |it, ctx| Ok(it.session.adjust(&switch, ctx)?)).await
}
