use axum::extract::FromRequestParts;
use http::request::Parts;
use pilothouse_domain::escalation::BlockedInput;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::{Timestamp, UserId};
use pilothouse_store::{Commit, Store};
use pilothouse_wire::keys::sha256_hex;

use super::response::CommandResponse;
use crate::App;
use crate::disk::SERVED_ON_A_FULL_DISK;
use crate::function::FunctionName;
use crate::http::auth::Owner;
use crate::http::{AgentCaller, IfMatch, RequestId};
use crate::problem::Problem;
use crate::unit_of_work::RetryPolicy;

#[derive(Debug, Clone)]
pub struct CommandContext {
    pub owner: UserId,
    pub function: &'static str,
    if_match: IfMatch,
    key_hash: Option<String>,
    request: String,
    policy: RetryPolicy,
}

impl FromRequestParts<App> for CommandContext {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let Owner(owner) = Owner::from_request_parts(parts, app).await?;
        let function = parts.extensions.get::<FunctionName>().map_or("unknown", |name| name.0);
        if app.disk().is_short() && !SERVED_ON_A_FULL_DISK.contains(&function) {
            return Err(Problem::StorageFull);
        }
        Ok(Self {
            owner,
            function,
            if_match: IfMatch::from_request_parts(parts, app).await?,
            key_hash: RequestId::from_request_parts(parts, app).await?.key_hash,
            request: format!("{function} {}", parts.uri.path()),
            policy: RetryPolicy::COMMAND,
        })
    }
}

impl CommandContext {
    /// The context of a call by the agent of a session of `owner`. Idempotency keys of agents are separate from those of the
    /// owner.
    pub fn for_agent(owner: UserId, function: &'static str, caller: &AgentCaller, body_hash: &str) -> Self {
        let session = caller.session;
        Self {
            owner,
            function,
            if_match: IfMatch(None),
            key_hash: caller
                .idempotency_key
                .as_ref()
                .map(|key| sha256_hex(format!("agent {session} {key}").as_bytes())),
            request: format!("{function} {session} {body_hash}"),
            policy: RetryPolicy::COMMAND,
        }
    }

    /// The context of a stop that the server itself orders for an owner.
    pub const fn for_server(owner: UserId, function: &'static str) -> Self {
        let policy = RetryPolicy::STOP;
        Self { owner, function, if_match: IfMatch(None), key_hash: None, request: String::new(), policy }
    }

    #[must_use]
    pub fn with_body(mut self, hash: &str) -> Self {
        self.request = format!("{} {hash}", self.request);
        self
    }

    /// Marks the command as an owner's stop, which retries until it succeeds (decision 16).
    #[must_use]
    pub const fn as_stop(mut self) -> Self {
        self.policy = RetryPolicy::STOP;
        self
    }

    pub(super) const fn retry_policy(&self) -> RetryPolicy {
        self.policy
    }

    pub fn cause(&self) -> Cause {
        Cause::Owner { function: self.function.to_owned() }
    }

    /// Returns an error if `If-Match` requires another version.
    pub fn check_version(&self, version: u64) -> Result<(), Problem> {
        self.if_match.check(version)
    }

    pub const fn has_idempotency_key(&self) -> bool {
        self.key_hash.is_some()
    }

    fn request_hash(&self) -> String {
        sha256_hex(self.request.as_bytes())
    }

    /// Returns the response to an earlier request with the same key, or an error if that request was different.
    pub async fn earlier_response(&self, store: &Store) -> Result<Option<CommandResponse>, Problem> {
        let Some(key) = &self.key_hash else { return Ok(None) };
        match store.stored_response(&self.owner, key).await? {
            None => Ok(None),
            Some(stored) if stored.request_hash == self.request_hash() => {
                Ok(Some(CommandResponse::replayed(stored)))
            }
            Some(_) => Err(Problem::IdempotencyMismatch),
        }
    }

    /// Identifies the refusal of this request by guardrails, so that a repetition under the same idempotency key records it once. `None`
    /// without a key.
    pub(crate) fn refusal_hash(&self, blocked: &BlockedInput) -> Option<String> {
        let key = self.key_hash.as_ref()?;
        let names: Vec<_> = blocked.trips.iter().map(|trip| trip.name.as_str()).collect();
        Some(sha256_hex(format!("refusal {key} {} {}", self.request_hash(), names.join("\n")).as_bytes()))
    }

    /// Adds the response to the commit, so that it is stored if and only if the change is.
    pub(super) fn store_response(
        &self,
        commit: &mut Commit,
        response: &CommandResponse,
        now: Timestamp,
    ) -> Result<(), Problem> {
        if let Some(key) = &self.key_hash {
            commit.store_response(
                &self.owner,
                key,
                &response.stored(self.function, self.request_hash()),
                now,
            )?;
        }
        Ok(())
    }
}
