//! What every command needs: the client, and how to write output.

use std::io::Write as _;
use std::sync::Arc;
use std::time::SystemTime;

use pilothouse_client::{Client, Credentials, is_loopback};
use pilothouse_domain::session::PendingRequest;
use pilothouse_domain::{AgentSessionId, Timestamp, UserId};
use pilothouse_local_keys::{DEFAULT_OWNER, LocalKeys};
use serde::Serialize;

use crate::error::CliError;
use crate::globals::Globals;
use crate::output::Style;
use crate::profile::{Place, Profile};

/// The client and the output settings of a command.
#[derive(Debug)]
pub struct Context {
    /// The client of the control plane.
    pub client: Client,
    /// Whether to write JSON.
    pub json: bool,
    /// The style of text output.
    pub style: Style,
}

/// The current time of this machine.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Writes to standard output.
pub fn write(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(CliError::Output)
}

/// Writes a JSON document on one line to standard output.
pub fn write_json(document: &impl Serialize) -> Result<(), CliError> {
    let line = serde_json::to_string(document).map_err(|e| CliError::Output(e.into()))?;
    write(&(line + "\n"))
}

impl Context {
    /// Builds the context from the global options.
    pub fn new(globals: &Globals) -> Result<Self, CliError> {
        let place = Place::of(globals)?;
        let client = Client::new(&place.url, credentials(globals, &place)?)?;
        let client = match place.profile {
            Profile::Embedded => client,
            Profile::Aws => client.with_websocket_api(place.ws_url.as_deref())?,
        };
        Ok(Self { client, json: globals.json, style: Style::for_stream(&std::io::stdout()) })
    }

    /// Writes a response: as JSON with `--json`, otherwise as rendered by `human`.
    pub fn print<T: Serialize>(
        &self,
        response: &T,
        human: impl FnOnce(&T, Style, Timestamp) -> String,
    ) -> Result<(), CliError> {
        if self.json { write_json(response) } else { write(&human(response, self.style, now())) }
    }

    /// Resolves a session id, a part of one, or `@last`.
    pub async fn session_id(&self, given: &str) -> Result<AgentSessionId, CliError> {
        Ok(self.client.resolve_session(given).await?)
    }
}

/// The given token, or tokens minted from local keys if the control plane can accept them.
fn credentials(globals: &Globals, place: &Place) -> Result<Credentials, CliError> {
    if let Some(token) = &globals.token {
        return Ok(Credentials::Token(token.trim().to_owned()));
    }
    if let Some(file) = &globals.token_file {
        return Ok(Credentials::File(file.clone()));
    }
    let Some(trust) = &place.trust else { return Ok(Credentials::None) };
    // Local keys are not used for a remote server unless an option names them. A deployment with its own issuer names its keys.
    if place.profile == Profile::Embedded && place.keys.is_none() && !is_loopback(&place.url) {
        return Ok(Credentials::None);
    }
    let Some(folder) = place.keys.clone().or_else(|| globals.data_folder()) else {
        return Ok(Credentials::None);
    };
    match LocalKeys::open(&folder)? {
        Some(keys) => {
            let owner = UserId::parse(DEFAULT_OWNER).map_err(|e| CliError::Failed(e.to_string()))?;
            Ok(Credentials::minted(Arc::new(keys), owner, trust.clone()))
        }
        None => Ok(Credentials::None),
    }
}

/// Finds the open request: the one with the given id, or the only one of its kind.
pub fn open_request<'a>(
    requests: impl Iterator<Item = &'a PendingRequest>,
    named: Option<&str>,
    kind: &str,
) -> Result<&'a PendingRequest, CliError> {
    let requests: Vec<_> = requests.collect();
    match (named, &requests[..]) {
        (Some(id), open) => open.iter().find(|r| r.id.as_str() == id).copied().ok_or_else(|| {
            CliError::NotFound(format!(
                "no {kind} with the id `{id}` is open; `pilothouse show` lists open requests"
            ))
        }),
        (None, [only]) => Ok(only),
        (None, []) => Err(CliError::Failed(format!("no {kind} is open; there is nothing to decide"))),
        (None, open) => {
            let ids: Vec<_> = open.iter().map(|r| r.id.as_str()).collect();
            Err(CliError::Usage(format!(
                "{} {kind}s are open; name one with --request: {}",
                open.len(),
                ids.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_client::Credentials;
    use pilothouse_local_keys::LocalKeys;

    use super::{credentials, is_loopback, open_request};
    use crate::error::CliError;
    use crate::globals::Globals;
    use crate::output::fixtures::session;
    use crate::profile::{Place, Profile};

    #[test]
    fn local_keys_serve_only_local_servers_by_default() {
        let dir = tempfile::tempdir().unwrap();
        LocalKeys::open_or_create(dir.path()).unwrap();
        let logged_in = |url: &str, token: Option<&str>, data: bool| {
            let globals = Globals {
                url: Some(url.into()),
                token: token.map(str::to_owned),
                data: data.then(|| dir.path().to_owned()),
                ..Globals::default()
            };
            credentials(&globals, &Place::of(&globals).unwrap())
        };
        let here = "http://127.0.0.1:7433";
        assert!(matches!(logged_in(here, None, true), Ok(Credentials::Local { .. })));
        assert!(matches!(logged_in(here, Some("t"), true), Ok(Credentials::Token(t)) if t == "t"));
        assert!(matches!(logged_in("https://far.example", None, false), Ok(Credentials::None)));
        assert!(matches!(logged_in("https://far.example", None, true), Ok(Credentials::Local { .. })));
    }

    #[test]
    fn local_keys_sign_tokens_only_for_a_known_issuer() {
        let dir = tempfile::tempdir().unwrap();
        LocalKeys::open_or_create(dir.path()).unwrap();
        // This file names no issuer, unlike a deployment made from this source tree.
        let file = dir.path().join("deployment.json");
        std::fs::write(&file, r#"{"ApiUrl": "https://api.example", "StreamUrl": "wss://live.example"}"#)
            .unwrap();
        let globals = Globals {
            profile: Profile::Aws,
            deployment: Some(file),
            data: Some(dir.path().to_owned()),
            ..Globals::default()
        };
        let logged_in = |globals: &Globals| credentials(globals, &Place::of(globals).unwrap());
        assert!(matches!(logged_in(&globals), Ok(Credentials::None)), "no issuer is known");
        let issuer = Some("https://issuer.example".to_owned());
        let globals = Globals { issuer: issuer.clone(), ..globals };
        let Ok(Credentials::Local { settings, .. }) = logged_in(&globals) else {
            panic!("nothing was minted")
        };
        assert_eq!((Some(settings.issuer), settings.audience.as_str()), (issuer, "pilothouse"));
        let globals = Globals { token_file: Some("t".into()), ..globals };
        assert!(matches!(logged_in(&globals), Ok(Credentials::File(_))));
    }

    #[test]
    fn loopback_addresses_are_recognised() {
        assert!(
            ["http://127.0.0.1:1", "http://localhost", "http://[::1]:7433"]
                .iter()
                .all(|url| is_loopback(url))
        );
        assert!(
            !["http://10.0.0.1", "http://localhost.example", "nothing"].iter().any(|url| is_loopback(url))
        );
    }

    #[test]
    fn request_id_is_optional_when_only_one_is_open() {
        let session = session();
        let one = &session.pending_requests;
        let id = |named, requests: &[_]| {
            open_request(Vec::from(requests).iter(), named, "question").map(|r| r.id.to_string())
        };
        assert_eq!(id(None, one).unwrap(), "toolu_1");
        assert_eq!(id(Some("toolu_1"), one).unwrap(), "toolu_1");
        assert!(matches!(id(Some("toolu_2"), one), Err(CliError::NotFound(_))));
        assert!(matches!(id(None, &[]), Err(CliError::Failed(_))));
        let two = [one[0].clone(), one[0].clone()];
        assert!(matches!(id(None, &two), Err(CliError::Usage(_))));
    }
}
