//! The WebSocket API of the live stream: its authorizer, `$connect`, `subscribe` and `$disconnect`.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use pilothouse_app::error_chain;
use pilothouse_app::function::{ConnectionEvent, EventContext};
use pilothouse_app::http::Problem;
use pilothouse_app::keyring::VerifiedToken;
use pilothouse_domain::{Timestamp, UserId};
use pilothouse_functions::realtime::authorize::{self, Authorizer};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::Failure;

/// An event of a connection from API Gateway, limited to the fields that are used.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    request_context: Context,
    #[serde(default)]
    body: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Context {
    connection_id: String,
    #[serde(default)]
    authorizer: Option<BTreeMap<String, Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    method_arn: String,
    #[serde(default)]
    headers: Option<BTreeMap<String, String>>,
    #[serde(default)]
    query_string_parameters: Option<BTreeMap<String, String>>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SocketResponse {
    status_code: u16,
}

impl SocketResponse {
    pub const fn status(&self) -> u16 {
        self.status_code
    }
}

/// A decision in the format of IAM.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    principal_id: String,
    policy_document: Policy,
    context: BTreeMap<&'static str, String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Policy {
    version: &'static str,
    statement: [Statement; 1],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Statement {
    action: &'static str,
    effect: &'static str,
    resource: String,
}

impl Asked {
    fn header(&self, name: &str) -> Option<&str> {
        let headers = self.headers.as_ref()?;
        headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        self.query_string_parameters.as_ref()?.get(name).map(String::as_str)
    }

    fn decided(self, who: Option<VerifiedToken>) -> Decision {
        let effect = if who.is_some() { "Allow" } else { "Deny" };
        let statement = Statement { action: "execute-api:Invoke", effect, resource: self.method_arn };
        let policy_document = Policy { version: "2012-10-17", statement: [statement] };
        match who {
            None => Decision { principal_id: "nobody".to_owned(), policy_document, context: BTreeMap::new() },
            Some(VerifiedToken { owner, ends }) => Decision {
                principal_id: owner.to_string(),
                policy_document,
                context: BTreeMap::from([
                    ("owner", owner.to_string()),
                    ("tokenEnds", ends.as_millis().to_string()),
                ]),
            },
        }
    }
}

/// Decides whether a connection may be opened. An invalid token is not an error but a denial.
pub async fn authorize(authorizer: &Authorizer, asked: Asked) -> Result<Decision, Failure> {
    let Some(token) = authorize::token_of(asked.header("authorization"), asked.parameter("token")) else {
        return Ok(asked.decided(None));
    };
    match authorizer.verify(token).await {
        Ok(verified) => Ok(asked.decided(Some(verified))),
        Err(Problem::Unauthenticated(_)) => Ok(asked.decided(None)),
        Err(problem) => Err(problem.into()),
    }
}

impl Event {
    pub fn owner(&self) -> Option<&str> {
        self.context_value("owner")
    }

    fn context_value(&self, name: &str) -> Option<&str> {
        self.request_context.authorizer.as_ref()?.get(name)?.as_str()
    }

    fn caller(&self) -> Option<VerifiedToken> {
        let owner = UserId::parse(self.context_value("owner")?.to_owned()).ok()?;
        let ends = self.context_value("tokenEnds").and_then(|millis| millis.parse().ok())?;
        Some(VerifiedToken { owner, ends: Timestamp::from_millis(ends) })
    }

    fn into_event(self) -> Result<ConnectionEvent, Problem> {
        let caller = self.caller();
        let connection = self.request_context.connection_id.parse().map_err(Problem::internal)?;
        Ok(ConnectionEvent { connection, caller, body: self.body.unwrap_or_default() })
    }
}

pub async fn call_handler(
    handler: fn(EventContext, ConnectionEvent) -> BoxFuture<'static, Result<(), Problem>>,
    context: EventContext,
    event: Event,
) -> SocketResponse {
    socket_response(async { handler(context, event.into_event()?).await }.await)
}

fn socket_response(outcome: Result<(), Problem>) -> SocketResponse {
    match outcome {
        Ok(()) => SocketResponse { status_code: 200 },
        Err(problem) => {
            tracing::warn!(cause = %error_chain(&problem), "refused an event of a connection");
            SocketResponse { status_code: problem.status().as_u16() }
        }
    }
}
