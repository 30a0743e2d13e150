//! The server that a shim calls on loopback: token renewal and artifact upload. Every request needs the token of the
//! bootstrap, or a renewed one.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::message::Bootstrap;

/// S2's default.
const TOKEN_LIFE: Duration = Duration::from_hours(1);
/// Most valid tokens of a process. A token stays valid after its renewal, for requests under way and lost responses.
const MAX_TOKENS: usize = 16;
/// In bytes, for an artifact.
const MAX_UPLOAD: usize = 100 * 1024 * 1024;
const MAX_ARTIFACTS: usize = 10_000;

/// The running server. Dropping it stops it.
pub struct Backend {
    state: Arc<Inner>,
    address: SocketAddr,
    _task: AbortOnDropHandle<()>,
}

struct Inner {
    agent_id: String,
    /// The folder of uploads, each under the hash of its content.
    folder: PathBuf,
    /// Valid tokens and when they expire.
    tokens: Mutex<HashMap<String, SystemTime>>,
    /// By artifact: the hash of its content and its version.
    artifacts: Mutex<HashMap<String, (String, u64)>>,
    /// Gets each new token, so that it can be redacted.
    on_token: Box<dyn Fn(&str) + Send + Sync>,
}

impl Backend {
    /// Serves one agent. Uploads are kept in `folder`, which is created when it is needed. `on_token` gets every token,
    /// before the shim does.
    pub async fn start(
        agent_id: &str,
        folder: PathBuf,
        on_token: impl Fn(&str) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let state = Arc::new(Inner {
            agent_id: agent_id.to_owned(),
            folder,
            tokens: Mutex::default(),
            artifacts: Mutex::default(),
            on_token: Box::new(on_token),
        });
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let router = Router::new()
            .route("/api/token/renew", post(renew))
            .route("/api/artifacts", post(upload))
            .layer(DefaultBodyLimit::max(MAX_UPLOAD))
            .with_state(Arc::clone(&state));
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::warn!(%error, "the backend of the shim has ended");
            }
        });
        Ok(Self { state, address, _task: AbortOnDropHandle::new(task) })
    }

    /// The bootstrap of one process of the shim, with new tokens. Those of the process before it are no longer valid.
    pub fn bootstrap(&self) -> io::Result<Bootstrap> {
        let backend_url = format!("http://{}", self.address);
        self.state.tokens.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let issued = self.state.issue()?;
        let (backend_token, expires) = issued.ok_or_else(|| io::Error::other("too many tokens are valid"))?;
        let request_token = crate::random_token()?;
        (self.state.on_token)(&request_token);
        Ok(Bootstrap {
            artifact_upload_endpoint: format!("{backend_url}/api/artifacts"),
            backend_url,
            backend_token,
            token_expires_at: timestamp(expires),
            agent_id: self.state.agent_id.clone(),
            request_token,
            accepts_drafts: true,
        })
    }
}

impl Inner {
    /// `None` if too many are valid.
    fn issue(&self) -> io::Result<Option<(String, SystemTime)>> {
        let (token, now) = (crate::random_token()?, SystemTime::now());
        let expires = now + TOKEN_LIFE;
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.retain(|_, expires| *expires > now);
        if tokens.len() >= MAX_TOKENS {
            return Ok(None);
        }
        (self.on_token)(&token);
        tokens.insert(token.clone(), expires);
        Ok(Some((token, expires)))
    }

    fn knows(&self, token: &str) -> bool {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.get(token).is_some_and(|expires| *expires > SystemTime::now())
    }

    fn check(&self, headers: &HeaderMap, agent_id: &str) -> Result<(), Refused> {
        let bearer =
            headers.get("authorization").and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        if !bearer.is_some_and(|token| self.knows(token)) {
            return Err(refused(StatusCode::UNAUTHORIZED, "the token is unknown or has expired"));
        }
        if agent_id != self.agent_id {
            return Err(refused(StatusCode::FORBIDDEN, "the token belongs to another agent"));
        }
        Ok(())
    }
}

type Refused = (StatusCode, Json<Value>);

fn refused(status: StatusCode, why: &str) -> Refused {
    (status, Json(json!({ "error": why })))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Renewal {
    agent_id: String,
    current_token: String,
}

async fn renew(
    State(state): State<Arc<Inner>>,
    headers: HeaderMap,
    Json(asked): Json<Renewal>,
) -> Result<Json<Value>, Refused> {
    state.check(&headers, &asked.agent_id)?;
    if !state.knows(&asked.current_token) {
        return Err(refused(StatusCode::UNAUTHORIZED, "the current token is unknown or has expired"));
    }
    let issued = state.issue().map_err(|e| refused(StatusCode::INTERNAL_SERVER_ERROR, &e.to_string()))?;
    let (token, expires) = issued.ok_or_else(|| {
        refused(StatusCode::TOO_MANY_REQUESTS, "too many tokens are valid; use the latest one")
    })?;
    Ok(Json(json!({ "backendToken": token, "tokenExpiresAt": timestamp(expires) })))
}

/// The content is the body; its description is in headers that begin with `x-artifact-`, because S2 defines no form.
async fn upload(
    State(state): State<Arc<Inner>>,
    headers: HeaderMap,
    content: Bytes,
) -> Result<Json<Value>, Refused> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    state.check(&headers, header("x-agent-id"))?;
    let id = header("x-artifact-id");
    if id.is_empty() || id.len() > 200 {
        return Err(refused(
            StatusCode::UNPROCESSABLE_ENTITY,
            "`x-artifact-id` must have 1 to 200 characters",
        ));
    }
    let hash = hex::encode(Sha256::digest(&content));
    let named = header("x-content-hash");
    if !named.is_empty() && named != hash {
        return Err(refused(StatusCode::UNPROCESSABLE_ENTITY, "`x-content-hash` is not that of the content"));
    }
    let version = {
        let mut artifacts = state.artifacts.lock().unwrap_or_else(PoisonError::into_inner);
        if artifacts.len() >= MAX_ARTIFACTS && !artifacts.contains_key(id) {
            return Err(refused(StatusCode::TOO_MANY_REQUESTS, "the run has too many artifacts"));
        }
        let entry = artifacts.entry(id.to_owned()).or_insert_with(|| (String::new(), 0));
        // The same content again is the same version.
        if entry.0 != hash {
            *entry = (hash.clone(), entry.1 + 1);
        }
        entry.1
    };
    store(&state.folder, &hash, &content)
        .map_err(|e| refused(StatusCode::INSUFFICIENT_STORAGE, &e.to_string()))?;
    let uri = format!("artifact://{}/{id}?sha256={hash}", state.agent_id);
    Ok(Json(json!({ "backendUri": uri, "version": version, "storedAt": timestamp(SystemTime::now()),
        "sizeBytes": content.len() })))
}

fn store(folder: &std::path::Path, hash: &str, content: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let path = folder.join(hash);
    if path.exists() {
        return Ok(());
    }
    // The same content may be uploaded twice at the same time.
    let beside = folder.join(format!("{}.new", crate::random_token()?));
    fs::write(&beside, content)?;
    fs::rename(beside, path)
}

fn timestamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    pilothouse_domain::Timestamp::from_millis(millis).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn backend() -> (Backend, Bootstrap, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let backend = Backend::start("a", folder.path().join("artifacts"), |_| {}).await.unwrap();
        let bootstrap = backend.bootstrap().unwrap();
        (backend, bootstrap, folder)
    }

    async fn renewed(bootstrap: &Bootstrap, agent: &str, token: &str) -> (u16, Value) {
        let url = format!("{}/api/token/renew", bootstrap.backend_url);
        let body = json!({ "agentId": agent, "currentToken": token });
        let request = reqwest::Client::new().post(url).bearer_auth(token).json(&body);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// How long a token is still valid.
    fn life(expires_at: &Value) -> Duration {
        let expires_at: pilothouse_domain::Timestamp = expires_at.as_str().unwrap().parse().unwrap();
        expires_at.since(timestamp(SystemTime::now()).parse().unwrap())
    }

    #[tokio::test]
    async fn bootstrap_has_the_fields_of_the_specification() {
        let (_backend, bootstrap, _folder) = backend().await;
        let fields = serde_json::to_value(&bootstrap).unwrap();
        assert!(fields["backendUrl"].as_str().unwrap().starts_with("http://127.0.0.1:"));
        assert_eq!(fields["backendToken"], bootstrap.backend_token.as_str());
        assert!(life(&fields["tokenExpiresAt"]) <= TOKEN_LIFE);
        assert!(life(&fields["tokenExpiresAt"]) > TOKEN_LIFE / 2);
        assert_eq!(fields["agentId"], "a");
        let endpoint = format!("{}/api/artifacts", bootstrap.backend_url);
        assert_eq!(fields["artifactUploadEndpoint"], endpoint.as_str());
    }

    #[tokio::test]
    async fn token_is_renewed_for_its_agent_only() {
        let (_backend, bootstrap, _folder) = backend().await;
        let (status, body) = renewed(&bootstrap, "a", &bootstrap.backend_token).await;
        let token = body["backendToken"].as_str().unwrap();
        assert_eq!(status, 200);
        assert!(life(&body["tokenExpiresAt"]) > TOKEN_LIFE / 2, "{body}");
        assert_ne!(token, bootstrap.backend_token);
        assert_eq!(renewed(&bootstrap, "a", token).await.0, 200);
        assert_eq!(renewed(&bootstrap, "b", token).await.0, 403);
        assert_eq!(renewed(&bootstrap, "a", "guess").await.0, 401);
    }

    #[tokio::test]
    async fn every_token_is_made_known() {
        let known = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&known);
        let folder = tempfile::tempdir().unwrap();
        let on_token = move |token: &str| seen.lock().unwrap().push(token.to_owned());
        let backend = Backend::start("a", folder.path().to_owned(), on_token).await.unwrap();
        let bootstrap = backend.bootstrap().unwrap();
        let renewed = renewed(&bootstrap, "a", &bootstrap.backend_token).await.1["backendToken"].clone();
        let known = known.lock().unwrap();
        for token in [&bootstrap.backend_token, &bootstrap.request_token, renewed.as_str().unwrap()] {
            assert!(known.iter().any(|it| it == token), "{known:?}");
        }
    }

    #[tokio::test]
    async fn tokens_are_limited_and_end_with_their_process() {
        let (backend, bootstrap, _folder) = backend().await;
        let first = &bootstrap.backend_token;
        for _ in 1..MAX_TOKENS {
            assert_eq!(renewed(&bootstrap, "a", first).await.0, 200);
        }
        assert_eq!(renewed(&bootstrap, "a", first).await.0, 429);
        let next = backend.bootstrap().unwrap();
        assert_eq!(renewed(&bootstrap, "a", first).await.0, 401);
        assert_eq!(renewed(&next, "a", &next.backend_token).await.0, 200);
    }

    #[tokio::test]
    async fn artifact_is_stored_once_for_each_content() {
        let (_backend, bootstrap, folder) = backend().await;
        let send = async |content: &'static str, hash: &str| {
            let request = reqwest::Client::new().post(&bootstrap.artifact_upload_endpoint);
            let request = request.bearer_auth(&bootstrap.backend_token).body(content);
            let request = request.header("x-agent-id", "a").header("x-artifact-id", "report");
            let response = request.header("x-content-hash", hash).send().await.unwrap();
            (response.status().as_u16(), response.json::<Value>().await.unwrap())
        };
        let (status, first) = send("one", "").await;
        assert_eq!((status, &first["version"], &first["sizeBytes"]), (200, &json!(1), &json!(3)));
        assert!(
            first["storedAt"].as_str().unwrap().parse::<pilothouse_domain::Timestamp>().is_ok(),
            "{first}"
        );
        assert_eq!(send("one", "").await.1["version"], json!(1), "a repetition");
        let second = send("two", "").await.1;
        assert_eq!(second["version"], json!(2));
        let hash = second["backendUri"].as_str().unwrap().rsplit_once('=').unwrap().1.to_owned();
        let kept = std::fs::read_to_string(folder.path().join("artifacts").join(&hash)).unwrap();
        assert_eq!(kept, "two");
        assert_eq!(send("three", &hash).await.0, 422);
    }
}
