//! Logs browsers in. A program with a token, or the server itself, creates a one-time code; the page exchanges the code for a
//! cookie and a key. The cookie is a signed text that no function accepts as a token.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use pilothouse_api::console::{ConsoleCode, ConsoleLoginRequest, ConsoleLoginsView, ConsoleSession};
use pilothouse_app::App;
use pilothouse_app::http::{CurrentLogin, Owner, Problem};
use pilothouse_app::keyring::LEEWAY_SECONDS;
use pilothouse_domain::console_login::ConsoleLogin;
use pilothouse_domain::{ConsoleLoginId, UserId};
use pilothouse_local_keys::{KeyError, LocalKeys, TokenSettings, random_code};
use pilothouse_sqlite::system_clock;
use pilothouse_wire::keys::{constant_time_eq, sha256_hex};
use uuid::Uuid;

use super::expiry::Expiry;
use super::logins::KnownLogins;
use super::{PROTOCOL, protocols, stream_of};

/// How long a code can be exchanged.
pub(crate) const CODE_LIFETIME: Duration = Duration::from_mins(15);
/// How long a browser stays logged in.
const LOGIN_LIFETIME: Duration = Duration::from_hours(7 * 24);
/// The lifetime of the token that requests receive for their cookie and key. The token does not leave the process.
const TOKEN_LIFETIME: Duration = Duration::from_mins(1);
/// The audience of cookies. It differs from the audience of tokens, because programs on other ports of this machine receive the cookie.
const COOKIE_AUDIENCE: &str = "pilothouse-console";
/// The maximum number of unused codes of an owner. A further code replaces the oldest one.
const MAX_CODES: usize = 20;
/// The header with the key of the console.
const KEY_HEADER: HeaderName = HeaderName::from_static("x-pilothouse-console");

/// One-time codes by their hash, in memory only.
#[derive(Clone, Default)]
pub(crate) struct LoginCodes(Arc<Mutex<HashMap<String, LoginCode>>>);

struct LoginCode {
    owner: UserId,
    created_at: Instant,
    /// The login of the browser that created the code to pair another one.
    created_by: Option<ConsoleLoginId>,
}

impl LoginCodes {
    fn codes(&self) -> MutexGuard<'_, HashMap<String, LoginCode>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a code that logs a browser in as `owner`, once, and only while the login `created_by` exists.
    pub(crate) fn create(
        &self,
        owner: UserId,
        created_by: Option<ConsoleLoginId>,
    ) -> Result<String, KeyError> {
        let code = random_code()?;
        let mut codes = self.codes();
        codes.retain(|_, known| known.created_at.elapsed() < CODE_LIFETIME);
        let own: Vec<_> = codes.iter().filter(|(_, known)| known.owner == owner).collect();
        if own.len() >= MAX_CODES {
            let oldest = own.into_iter().min_by_key(|(_, known)| known.created_at);
            let oldest = oldest.map(|(hash, _)| hash.clone());
            oldest.map(|hash| codes.remove(&hash));
        }
        let created_at = Instant::now();
        codes.insert(sha256_hex(code.as_bytes()), LoginCode { owner, created_at, created_by });
        Ok(code)
    }

    /// Consumes a code. Returns `None` if it is unknown, used or too old.
    fn redeem(&self, code: &str) -> Option<LoginCode> {
        let code = self.codes().remove(&sha256_hex(code.as_bytes()))?;
        (code.created_at.elapsed() < CODE_LIFETIME).then_some(code)
    }
}

#[derive(Clone)]
pub(super) struct Logins {
    app: App,
    keys: Arc<LocalKeys>,
    codes: LoginCodes,
    known: KnownLogins,
    cookie: String,
    /// The last token of each owner, because signing one takes longer than the rest of a request.
    tokens: Arc<Mutex<HashMap<UserId, (SystemTime, String)>>>,
}

impl Logins {
    /// Browsers send cookies to every port of a host, so the name contains the port: two servers on one machine have two cookies.
    pub(super) fn new(app: App, keys: Arc<LocalKeys>, codes: LoginCodes, port: u16) -> Self {
        let known = KnownLogins::new(app.clone());
        Self { app, keys, codes, known, cookie: format!("pilothouse-{port}"), tokens: Arc::default() }
    }

    /// Adds a token to a request that carries both the cookie and its key, while the login exists. Returns the end of what
    /// authenticates the request, if it opens a live stream.
    pub(super) async fn authenticate(&self, request: &mut Request) -> Result<Option<Expiry>, Problem> {
        let stream = stream_of(request);
        let headers = request.headers();
        if let Some(authorization) = headers.get(header::AUTHORIZATION) {
            return Ok(stream.and_then(|_| self.expiry_of_token(authorization)));
        }
        let cookie = self.cookie_of(headers).filter(|cookie| self.has_key(headers, cookie));
        let Some((owner, login)) = cookie.and_then(|cookie| self.login_of(cookie)) else { return Ok(None) };
        let Some(expires_at) = self.known.admit(&owner, login, stream.as_ref()).await? else {
            return Ok(None);
        };
        let token = self.token_of(&owner)?;
        let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(Problem::internal)?;
        value.set_sensitive(true);
        request.headers_mut().insert(header::AUTHORIZATION, value);
        request.extensions_mut().insert(CurrentLogin(Some(login)));
        let clock = Arc::clone(&self.app.clock);
        Ok(stream.map(|_| Expiry { at: expires_at, clock }))
    }

    /// A token that is valid for at least half of its lifetime.
    fn token_of(&self, owner: &UserId) -> Result<String, Problem> {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        // By the clock that tokens end by, which goes on while the machine is suspended.
        tokens.retain(|_, (minted_at, _)| minted_at.elapsed().is_ok_and(|age| age < TOKEN_LIFETIME / 2));
        if let Some((_, token)) = tokens.get(owner) {
            return Ok(token.clone());
        }
        let token = self.keys.mint(owner, TOKEN_LIFETIME).map_err(Problem::internal)?;
        tokens.insert(owner.clone(), (SystemTime::now(), token.clone()));
        Ok(token)
    }

    /// When requests with a token will be refused. `None` if they are refused already.
    fn expiry_of_token(&self, authorization: &HeaderValue) -> Option<Expiry> {
        let (_, token) = authorization.to_str().ok()?.split_once(' ')?;
        let ends = self.app.keyring.check(token.trim()).ok()?.ends;
        Some(Expiry { at: ends + Duration::from_secs(LEEWAY_SECONDS), clock: system_clock() })
    }

    fn cookie_of<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.cookie).map(|(_, value)| value)
    }

    /// Whether a request has the key of its cookie, in a header or as a protocol.
    fn has_key(&self, headers: &HeaderMap, cookie: &str) -> bool {
        let expected = self.key_of(cookie);
        let in_header = headers.get(KEY_HEADER).and_then(|value| value.to_str().ok());
        let in_protocols =
            protocols(headers).filter_map(|protocol| protocol.strip_prefix(PROTOCOL)?.strip_prefix('.'));
        in_header.into_iter().chain(in_protocols).any(|key| constant_time_eq(key, &expected))
    }

    fn key_of(&self, cookie: &str) -> String {
        self.keys.root_secret().console_key(cookie)
    }

    /// The owner and the login of a cookie that this server signed and that has not expired.
    fn login_of(&self, cookie: &str) -> Option<(UserId, ConsoleLoginId)> {
        let claims = self.keys.verify_with(&cookie_settings(), cookie).ok()?;
        Some((claims.sub, claims.jti?.parse().ok()?))
    }

    fn cookie(&self, value: &str, lifetime: Duration, secure: bool) -> Result<HeaderValue, Problem> {
        let (name, seconds) = (&self.cookie, lifetime.as_secs());
        let secure = if secure { "; Secure" } else { "" };
        let cookie = format!("{name}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{secure}");
        HeaderValue::from_str(&cookie).map_err(Problem::internal)
    }
}

fn cookie_settings() -> TokenSettings {
    TokenSettings { audience: COOKIE_AUDIENCE.to_owned(), ..TokenSettings::default() }
}

pub(super) fn routes(logins: Logins) -> Router {
    Router::new()
        .route("/console/codes", post(create_code))
        .route("/console/login", post(log_in))
        .route("/console/logout", post(log_out))
        .route("/console/session", get(session))
        .route("/console/logins", get(list_logins))
        .route("/console/logins/{id}", delete(remove_login))
        .fallback(|| async { Problem::NotFound("there is nothing at this address".to_owned()) })
        .with_state(logins)
}

/// The owner of a request to the console itself.
async fn owner_of(logins: &Logins, headers: HeaderMap) -> Result<UserId, Problem> {
    use axum::extract::FromRequestParts as _;
    let (mut parts, ()) = hyper::Request::new(()).into_parts();
    parts.headers = headers;
    let Owner(owner) = Owner::from_request_parts(&mut parts, &logins.app).await?;
    Ok(owner)
}

async fn create_code(
    State(logins): State<Logins>,
    CurrentLogin(login_id): CurrentLogin,
    headers: HeaderMap,
) -> Result<Json<ConsoleCode>, Problem> {
    let owner = owner_of(&logins, headers).await?;
    let code = logins.codes.create(owner, login_id).map_err(Problem::internal)?;
    Ok(Json(ConsoleCode { code, expires_in_seconds: CODE_LIFETIME.as_secs() }))
}

async fn log_in(
    State(logins): State<Logins>,
    headers: HeaderMap,
    Json(ConsoleLoginRequest { code, device }): Json<ConsoleLoginRequest>,
) -> Result<Response, Problem> {
    let LoginCode { owner, created_by, .. } = logins.codes.redeem(&code).ok_or(Problem::Unauthenticated(
        "the link was used before or is older than 15 minutes; `pilothouse open` prints a new one",
    ))?;
    // Refuses an owner that this server does not serve.
    let token = logins.keys.mint(&owner, TOKEN_LIFETIME).map_err(Problem::internal)?;
    logins.app.keyring.verify(&token)?;
    let now = logins.app.now();
    let id = ConsoleLoginId::new(Uuid::now_v7());
    let login =
        ConsoleLogin { id, device, created_at: now, last_seen_at: now, expires_at: now + LOGIN_LIFETIME };
    if !logins.known.add(&owner, login, created_by).await? {
        return Err(Problem::Unauthenticated(
            "the browser that created the link was logged out; `pilothouse open` prints a new one",
        ));
    }
    let login = logins
        .keys
        .mint_with_id(&cookie_settings(), &owner, LOGIN_LIFETIME, id.to_string())
        .map_err(Problem::internal)?;
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let secure = origin.is_some_and(|origin| origin.starts_with("https://"));
    let cookie = logins.cookie(&login, LOGIN_LIFETIME, secure)?;
    let session = ConsoleSession { owner_id: owner, login_id: Some(id), key: Some(logins.key_of(&login)) };
    Ok((
        [(header::SET_COOKIE, cookie), (header::CACHE_CONTROL, HeaderValue::from_static("no-store"))],
        Json(session),
    )
        .into_response())
}

async fn session(
    State(logins): State<Logins>,
    CurrentLogin(login_id): CurrentLogin,
    headers: HeaderMap,
) -> Result<Json<ConsoleSession>, Problem> {
    let owner_id = owner_of(&logins, headers).await?;
    Ok(Json(ConsoleSession { owner_id, login_id, key: None }))
}

async fn list_logins(
    State(logins): State<Logins>,
    headers: HeaderMap,
) -> Result<Json<ConsoleLoginsView>, Problem> {
    let owner = owner_of(&logins, headers).await?;
    Ok(Json(ConsoleLoginsView { items: logins.known.list(&owner).await? }))
}

/// Logs a browser out: its next request is refused, and its live streams are closed.
async fn remove_login(
    State(logins): State<Logins>,
    id: Result<Path<ConsoleLoginId>, PathRejection>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let owner = owner_of(&logins, headers).await?;
    let is_removed = match id {
        Ok(Path(id)) => logins.known.remove(&owner, id).await?,
        Err(_) => false,
    };
    if is_removed {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Problem::NotFound("there is no such login".to_owned()))
    }
}

/// Ends the login and removes the cookie. Needs the key, so that no other site can log a browser out.
async fn log_out(
    State(logins): State<Logins>,
    CurrentLogin(login_id): CurrentLogin,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let owner = owner_of(&logins, headers).await?;
    if let Some(id) = login_id {
        logins.known.remove(&owner, id).await?;
    }
    let cookie = logins.cookie("", Duration::ZERO, false)?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

#[cfg(test)]
mod tests {
    use pilothouse_test_support::EmbeddedEngines;

    use super::*;

    fn owner(name: &str) -> UserId {
        UserId::parse(name).unwrap()
    }

    #[tokio::test]
    async fn token_of_an_owner_is_replaced_at_half_of_its_lifetime() {
        let engines = EmbeddedEngines::open(system_clock()).await;
        let keys = Arc::new(LocalKeys::open_or_create(&engines.folder().join("keys")).unwrap());
        let logins = Logins::new(App::new(engines.parts()), Arc::clone(&keys), LoginCodes::default(), 7780);
        let token_of = |name: &str| logins.token_of(&owner(name)).unwrap();
        let token = token_of("ada");
        assert_eq!(token_of("ada"), token);
        assert_eq!(keys.verify(&token_of("bob")).unwrap().sub, owner("bob"));

        let set = |signed_at: SystemTime| {
            let mut tokens = logins.tokens.lock().unwrap();
            tokens.insert(owner("ada"), (signed_at, "old".to_owned()));
        };
        set(SystemTime::now() - TOKEN_LIFETIME / 2);
        assert_eq!(keys.verify(&token_of("ada")).unwrap().sub, owner("ada"));
        set(SystemTime::now() + TOKEN_LIFETIME);
        assert!(keys.verify(&token_of("ada")).is_ok(), "the clock was set back");
    }

    #[test]
    fn code_logs_in_once() {
        let codes = LoginCodes::default();
        let redeemed = |code: &str| codes.redeem(code).map(|code| code.owner);
        let first = codes.create(owner("ada"), None).unwrap();
        let second = codes.create(owner("bob"), None).unwrap();
        assert_eq!(redeemed(&second), Some(owner("bob")));
        assert_eq!(redeemed(&second), None);
        assert_eq!(redeemed("unknown"), None);
        assert_eq!(redeemed(&first), Some(owner("ada")));
    }

    #[test]
    fn unused_codes_are_bounded_and_the_newest_stay() {
        let codes = LoginCodes::default();
        let made: Vec<_> = (0..MAX_CODES + 5).map(|_| codes.create(owner("ada"), None).unwrap()).collect();
        assert_eq!(codes.codes().len(), MAX_CODES);
        assert!(codes.redeem(&made[0]).is_none() && codes.redeem(&made[MAX_CODES + 4]).is_some());
    }

    #[test]
    fn codes_of_an_owner_replace_none_of_others() {
        let codes = LoginCodes::default();
        let of_bob = codes.create(owner("bob"), None).unwrap();
        for _ in 0..=MAX_CODES {
            codes.create(owner("ada"), None).unwrap();
        }
        assert!(codes.redeem(&of_bob).is_some());
    }
}
