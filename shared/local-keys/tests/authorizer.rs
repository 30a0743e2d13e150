//! Locally minted tokens against the authorizer of a deployment.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pilothouse_app::http::Problem;
use pilothouse_domain::UserId;
use pilothouse_functions::realtime::authorize::{Authorizer, KeySource, KeySourceError, token_of};
use pilothouse_local_keys::{LocalKeys, TokenSettings};
use serde_json::{Value, json};

const ISSUER: &str = "https://issuer.example/pilothouse";

/// A key set endpoint: tests change its response and count its requests.
#[derive(Clone, Default)]
struct Issuer {
    response: Arc<std::sync::Mutex<Option<String>>>,
    requests: Arc<AtomicU32>,
}

impl Issuer {
    fn publish(&self, keys: &[&LocalKeys]) {
        let keys: Vec<Value> =
            keys.iter().flat_map(|k| &k.jwks().keys).map(|key| serde_json::to_value(key).unwrap()).collect();
        *self.response.lock().unwrap() = Some(json!({ "keys": keys }).to_string());
    }

    fn requests(&self) -> u32 {
        self.requests.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl KeySource for Issuer {
    async fn fetch(&self) -> Result<String, KeySourceError> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.response.lock().unwrap().clone().ok_or_else(|| KeySourceError("unreachable".into()))
    }
}

fn keys() -> LocalKeys {
    LocalKeys::open_or_create(tempfile::tempdir().unwrap().path()).unwrap()
}

fn ada() -> UserId {
    UserId::parse("ada").unwrap()
}

fn settings() -> TokenSettings {
    TokenSettings { issuer: ISSUER.into(), audience: "pilothouse".into() }
}

fn token(keys: &LocalKeys) -> String {
    keys.mint_with(&settings(), &ada(), Duration::from_mins(5)).unwrap()
}

fn authorizer(issuer: &Issuer) -> Authorizer {
    Authorizer::new(ISSUER, "pilothouse", issuer.clone())
}

fn is_refused(result: &Result<impl std::fmt::Debug, Problem>) -> bool {
    matches!(result, Err(Problem::Unauthenticated(_)))
}

#[tokio::test]
async fn the_authorizer_accepts_only_its_issuer_and_audience() {
    let (keys, issuer) = (keys(), Issuer::default());
    issuer.publish(&[&keys]);
    let authorizer = authorizer(&issuer);
    let verified = authorizer.verify(&token(&keys)).await.unwrap();
    assert_eq!(verified.owner, ada());
    let claims_end = verified.ends.as_millis() / 1000;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!((295..=301).contains(&(claims_end - i64::try_from(now).unwrap())));

    let mint = |settings: &TokenSettings| keys.mint_with(settings, &ada(), Duration::from_mins(5)).unwrap();
    for other in [
        TokenSettings { issuer: "https://other.example".into(), ..settings() },
        TokenSettings { audience: "another".into(), ..settings() },
        TokenSettings::default(),
    ] {
        assert!(is_refused(&authorizer.verify(&mint(&other)).await), "{other:?}");
    }
    for text in ["", "x", "a.b.c"] {
        assert!(is_refused(&authorizer.verify(text).await), "{text:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_key_set_is_cached_and_refetched_for_unknown_keys() {
    let (old, new, stranger, issuer) = (keys(), keys(), keys(), Issuer::default());
    issuer.publish(&[&old]);
    let authorizer = authorizer(&issuer);
    for _ in 0..3 {
        authorizer.verify(&token(&old)).await.unwrap();
    }
    assert_eq!(issuer.requests(), 1);

    issuer.publish(&[&old, &new]);
    assert!(is_refused(&authorizer.verify(&token(&new)).await), "no second request within ten seconds");
    tokio::time::advance(Duration::from_secs(11)).await;
    authorizer.verify(&token(&new)).await.unwrap();
    assert_eq!(issuer.requests(), 2);
    for _ in 0..20 {
        assert!(is_refused(&authorizer.verify(&token(&stranger)).await));
    }
    assert_eq!(issuer.requests(), 2, "unknown keys cause no further requests");
}

#[tokio::test(start_paused = true)]
async fn withdrawn_keys_expire_and_an_outage_changes_nothing() {
    let (old, new, issuer) = (keys(), keys(), Issuer::default());
    let authorizer = authorizer(&issuer);
    assert!(
        matches!(authorizer.verify(&token(&old)).await, Err(Problem::Internal(_))),
        "unreachable at first"
    );
    tokio::time::advance(Duration::from_secs(11)).await;
    issuer.publish(&[&old]);
    authorizer.verify(&token(&old)).await.unwrap();

    *issuer.response.lock().unwrap() = None;
    tokio::time::advance(Duration::from_mins(16)).await;
    authorizer.verify(&token(&old)).await.unwrap();
    issuer.publish(&[&new]);
    tokio::time::advance(Duration::from_secs(11)).await;
    assert!(is_refused(&authorizer.verify(&token(&old)).await));
    authorizer.verify(&token(&new)).await.unwrap();
}

#[tokio::test]
async fn only_signing_keys_of_a_set_are_accepted() {
    let (keys, issuer) = (keys(), Issuer::default());
    let good = serde_json::to_value(&keys.jwks().keys[0]).unwrap();
    let changed = |field: &str, value: Value| {
        let mut key = good.clone();
        key[field] = value;
        key
    };
    for (set, taken) in [
        (vec![json!({ "kty": "new", "kid": "x" }), good.clone()], true),
        (vec![changed("use", "enc".into())], false),
        (vec![changed("alg", "RS512".into())], false),
        (vec![changed("kid", Value::Null)], false),
        (vec![], false),
    ] {
        *issuer.response.lock().unwrap() = Some(json!({ "keys": set }).to_string());
        let result = authorizer(&issuer).verify(&token(&keys)).await;
        assert_eq!(result.is_ok(), taken, "{set:?}: {result:?}");
    }
}

#[test]
fn a_token_is_read_from_the_header_or_the_query() {
    assert_eq!(token_of(Some("Bearer a"), None), Some("a"));
    assert_eq!(token_of(Some("bearer a"), Some("b")), Some("a"));
    assert_eq!(token_of(None, Some("b")), Some("b"));
    assert_eq!(token_of(Some("Basic a"), None), None);
    assert_eq!(token_of(None, Some(" ")), None);
}
