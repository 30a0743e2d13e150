//! Tokens that are minted here, and what decides on them in the cloud.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pilothouse_cli::keys::{LocalKeys, Trust};
use pilothouse_domain::UserId;
use pilothouse_functions::edge::Problem;
use pilothouse_functions::stream::authorize::{Authorizer, KeySource, KeySourceError, token_of};
use serde_json::{Value, json};

const ISSUER: &str = "https://issuer.example/pilothouse";

/// Stands in for the issuer's address: what it answers can be changed, and how often it was asked is counted.
#[derive(Clone, Default)]
struct Issuer {
    answer: Arc<std::sync::Mutex<Option<String>>>,
    asked: Arc<AtomicU32>,
}

impl Issuer {
    fn publish(&self, keys: &[&LocalKeys]) {
        let keys: Vec<Value> =
            keys.iter().flat_map(|k| &k.jwks().keys).map(|key| serde_json::to_value(key).unwrap()).collect();
        *self.answer.lock().unwrap() = Some(json!({ "keys": keys }).to_string());
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl KeySource for Issuer {
    async fn fetch(&self) -> Result<String, KeySourceError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.answer.lock().unwrap().clone().ok_or_else(|| KeySourceError("away".into()))
    }
}

fn keys() -> LocalKeys {
    LocalKeys::open_or_create(tempfile::tempdir().unwrap().path()).unwrap()
}

fn ada() -> UserId {
    UserId::parse("ada").unwrap()
}

fn trust() -> Trust {
    Trust { issuer: ISSUER.into(), audience: "pilothouse".into() }
}

fn token(keys: &LocalKeys) -> String {
    keys.mint_for(&trust(), &ada(), Duration::from_mins(5)).unwrap()
}

fn authorizer(issuer: &Issuer) -> Authorizer {
    Authorizer::new(ISSUER, "pilothouse", issuer.clone())
}

fn is_refused(result: &Result<impl std::fmt::Debug, Problem>) -> bool {
    matches!(result, Err(Problem::Unauthenticated(_)))
}

#[tokio::test]
async fn a_token_for_a_deployment_is_taken_by_its_authorizer_and_no_other() {
    let (keys, issuer) = (keys(), Issuer::default());
    issuer.publish(&[&keys]);
    let authorizer = authorizer(&issuer);
    let verified = authorizer.handle(&token(&keys)).await.unwrap();
    assert_eq!(verified.owner, ada());
    let claims_end = verified.ends.as_millis() / 1000;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!((295..=301).contains(&(claims_end - i64::try_from(now).unwrap())));

    let mint = |trust: &Trust| keys.mint_for(trust, &ada(), Duration::from_mins(5)).unwrap();
    for other in [
        Trust { issuer: "https://other.example".into(), ..trust() },
        Trust { audience: "another".into(), ..trust() },
        Trust::default(),
    ] {
        assert!(is_refused(&authorizer.handle(&mint(&other)).await), "{other:?}");
    }
    for text in ["", "x", "a.b.c"] {
        assert!(is_refused(&authorizer.handle(text).await), "{text:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn keys_are_fetched_once_and_again_for_one_that_is_new_but_not_for_every_stranger() {
    let (old, new, stranger, issuer) = (keys(), keys(), keys(), Issuer::default());
    issuer.publish(&[&old]);
    let authorizer = authorizer(&issuer);
    for _ in 0..3 {
        authorizer.handle(&token(&old)).await.unwrap();
    }
    assert_eq!(issuer.asked(), 1);

    issuer.publish(&[&old, &new]);
    assert!(is_refused(&authorizer.handle(&token(&new)).await), "a moment ago is too soon to ask again");
    tokio::time::advance(Duration::from_secs(11)).await;
    authorizer.handle(&token(&new)).await.unwrap();
    assert_eq!(issuer.asked(), 2);
    for _ in 0..20 {
        assert!(is_refused(&authorizer.handle(&token(&stranger)).await));
    }
    assert_eq!(issuer.asked(), 2, "strangers make nobody ask");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_withdrawn_is_forgotten_and_an_issuer_that_is_away_changes_nothing() {
    let (old, new, issuer) = (keys(), keys(), Issuer::default());
    let authorizer = authorizer(&issuer);
    assert!(matches!(authorizer.handle(&token(&old)).await, Err(Problem::Internal(_))), "away at first");
    tokio::time::advance(Duration::from_secs(11)).await;
    issuer.publish(&[&old]);
    authorizer.handle(&token(&old)).await.unwrap();

    *issuer.answer.lock().unwrap() = None;
    tokio::time::advance(Duration::from_mins(16)).await;
    authorizer.handle(&token(&old)).await.unwrap();
    issuer.publish(&[&new]);
    tokio::time::advance(Duration::from_secs(11)).await;
    assert!(is_refused(&authorizer.handle(&token(&old)).await));
    authorizer.handle(&token(&new)).await.unwrap();
}

#[tokio::test]
async fn only_keys_that_may_sign_are_taken_from_a_set() {
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
        *issuer.answer.lock().unwrap() = Some(json!({ "keys": set }).to_string());
        let result = authorizer(&issuer).handle(&token(&keys)).await;
        assert_eq!(result.is_ok(), taken, "{set:?}: {result:?}");
    }
}

#[test]
fn a_token_comes_in_the_header_or_where_browsers_can_put_it() {
    assert_eq!(token_of(Some("Bearer a"), None), Some("a"));
    assert_eq!(token_of(Some("bearer a"), Some("b")), Some("a"));
    assert_eq!(token_of(None, Some("b")), Some("b"));
    assert_eq!(token_of(Some("Basic a"), None), None);
    assert_eq!(token_of(None, Some(" ")), None);
}
