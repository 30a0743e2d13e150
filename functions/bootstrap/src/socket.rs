//! The WebSocket API of the live stream: its authorizer, `$connect`, `subscribe` and `$disconnect`.

use std::collections::BTreeMap;

use pilothouse_domain::{Timestamp, UserId};
use pilothouse_functions::App;
use pilothouse_functions::edge::Problem;
use pilothouse_functions::edge::auth::Verified;
use pilothouse_functions::intake::chain;
use pilothouse_functions::stream::authorize::{self, Authorizer};
use pilothouse_functions::stream::connections::Connections;
use pilothouse_functions::stream::{closed, open, subscribe};
use pilothouse_store::ConnectionId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::Failure;

/// What API Gateway sends of a connection, as far as it is read here.
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

/// What API Gateway asks of an authorizer of requests.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    method_arn: String,
    #[serde(default)]
    headers: Option<BTreeMap<String, String>>,
    #[serde(default)]
    query_string_parameters: Option<BTreeMap<String, String>>,
}

/// What API Gateway tells the client of a change of its connection.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    status_code: u16,
}

impl Answer {
    /// The status, as one of HTTP.
    pub const fn status(&self) -> u16 {
        self.status_code
    }
}

/// A decision in the words of IAM.
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

    fn decided(self, who: Option<Verified>) -> Decision {
        let effect = if who.is_some() { "Allow" } else { "Deny" };
        let statement = Statement { action: "execute-api:Invoke", effect, resource: self.method_arn };
        let policy_document = Policy { version: "2012-10-17", statement: [statement] };
        match who {
            None => Decision { principal_id: "nobody".to_owned(), policy_document, context: BTreeMap::new() },
            Some(Verified { owner, ends }) => Decision {
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

/// Decides who may open a connection.
///
/// # Errors
/// The token could not be checked. One that is not good is an answer.
pub async fn authorize(authorizer: &Authorizer, asked: Asked) -> Result<Decision, Failure> {
    let Some(token) = authorize::token_of(asked.header("authorization"), asked.parameter("token")) else {
        return Ok(asked.decided(None));
    };
    match authorizer.handle(token).await {
        Ok(verified) => Ok(asked.decided(Some(verified))),
        Err(Problem::Unauthenticated(_)) => Ok(asked.decided(None)),
        Err(problem) => Err(problem.into()),
    }
}

impl Event {
    /// The owner whom the authorizer found.
    pub fn owner(&self) -> Option<&str> {
        self.told("owner")
    }

    fn told(&self, name: &str) -> Option<&str> {
        self.request_context.authorizer.as_ref()?.get(name)?.as_str()
    }

    fn id(&self) -> Result<ConnectionId, Problem> {
        self.request_context.connection_id.parse().map_err(Problem::internal)
    }

    fn caller(&self) -> Result<Verified, Problem> {
        const REFUSED: Problem = Problem::Unauthenticated("connect with a token");
        let owner = UserId::parse(self.told("owner").ok_or(REFUSED)?.to_owned()).map_err(|_| REFUSED)?;
        let ends = self.told("tokenEnds").and_then(|millis| millis.parse().ok()).ok_or(REFUSED)?;
        Ok(Verified { owner, ends: Timestamp::from_millis(ends) })
    }
}

/// `$connect`.
pub async fn opened(app: &App, event: &Event) -> Answer {
    answer(async { open::handle(app, &event.id()?, event.caller()?).await }.await)
}

/// `subscribe`.
pub async fn subscribed(app: &App, connections: &dyn Connections, event: &Event) -> Answer {
    let body = event.body.as_deref().unwrap_or_default();
    answer(async { subscribe::handle(app, connections, &event.id()?, body).await }.await)
}

/// `$disconnect`.
pub async fn ended(app: &App, event: &Event) -> Answer {
    answer(async { closed::handle(app, &event.id()?).await }.await)
}

fn answer(outcome: Result<(), Problem>) -> Answer {
    match outcome {
        Ok(()) => Answer { status_code: 200 },
        Err(problem) => {
            tracing::warn!(cause = %chain(&problem), "a connection was refused");
            Answer { status_code: problem.status().as_u16() }
        }
    }
}
