//! Tokens with one fault each.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use pilothouse_local_keys::{DEFAULT_OWNER, LocalKeys, SIGNING_KEY_FILE};
use serde_json::{Value, json};

use crate::server::Server;

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn claims(server: &Server) -> Value {
    let (trust, owner) = (server.trust(), server.owner(DEFAULT_OWNER));
    json!({ "iss": trust.issuer, "aud": trust.audience, "sub": owner, "iat": now(), "exp": now() + 3600 })
}

/// The claims with one value replaced, or removed for null.
fn with(claims: &Value, name: &str, value: Value) -> Value {
    let mut claims = claims.clone();
    claims[name] = value;
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}

/// The private key of a data folder.
fn signing_key(data: &Path) -> EncodingKey {
    let der = STANDARD.encode(std::fs::read(data.join(SIGNING_KEY_FILE)).unwrap());
    let lines: Vec<_> = der.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"));
    EncodingKey::from_rsa_pem(pem.as_bytes()).unwrap()
}

fn signed(algorithm: Algorithm, kid: Option<&str>, claims: &Value, key: &EncodingKey) -> String {
    let header = Header { kid: kid.map(str::to_owned), ..Header::new(algorithm) };
    encode(&header, claims, key).unwrap()
}

fn unsigned(algorithm: &str, kid: &str, claims: &Value, signature: &str) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.{signature}", part(&json!({ "alg": algorithm, "typ": "JWT", "kid": kid })), part(claims))
}

/// Built like the invalid ones, to show that only their fault is refused.
pub(crate) fn good(server: &Server) -> String {
    let key = signing_key(&server.keys_folder());
    signed(Algorithm::RS256, Some(server.keys().kid()), &claims(server), &key)
}

/// Tokens that must be refused, each with a description of its fault.
pub(crate) fn bad(server: &Server) -> Vec<(&'static str, Option<String>)> {
    let (keys, key, claims) = (server.keys(), signing_key(&server.keys_folder()), claims(server));
    let kid = keys.kid();
    let with = |name: &str, value: Value| with(&claims, name, value);
    let rs = |kid: Option<&str>, claims: &Value| Some(signed(Algorithm::RS256, kid, claims, &key));
    let other = tempfile::tempdir().unwrap();
    let stranger = LocalKeys::open_or_create(other.path()).unwrap();
    let strange_key = signing_key(other.path());

    // The public key, used as an HMAC secret.
    let public = serde_json::to_value(keys.jwks()).unwrap()["keys"][0].clone();
    let modulus = URL_SAFE_NO_PAD.decode(public["n"].as_str().unwrap()).unwrap();
    let hs =
        |secret: &[u8]| Some(signed(Algorithm::HS256, Some(kid), &claims, &EncodingKey::from_secret(secret)));
    let token = good(server);
    let parts: Vec<_> = token.split('.').collect();
    let someone_else = URL_SAFE_NO_PAD.encode(with("sub", json!(server.owner("someone-else"))).to_string());
    vec![
        ("no token", None),
        ("an empty token", Some(String::new())),
        ("nonsense", Some("let.me.in".to_owned())),
        ("not valid yet", rs(Some(kid), &with("nbf", json!(now() + 3600)))),
        ("expired", rs(Some(kid), &with("exp", json!(now() - 60)))),
        ("without an end", rs(Some(kid), &with("exp", Value::Null))),
        ("for another audience", rs(Some(kid), &with("aud", json!("another-service")))),
        ("without an audience", rs(Some(kid), &with("aud", Value::Null))),
        ("of another issuer", rs(Some(kid), &with("iss", json!("https://accounts.example.com")))),
        ("without an issuer", rs(Some(kid), &with("iss", Value::Null))),
        ("of nobody", rs(Some(kid), &with("sub", Value::Null))),
        ("with an empty subject", rs(Some(kid), &with("sub", json!("")))),
        ("naming another key", rs(Some("0000000000000000"), &claims)),
        ("without a key id", rs(None, &claims)),
        (
            "forged with a stranger's key under the server's id",
            Some(signed(Algorithm::RS256, Some(kid), &claims, &strange_key)),
        ),
        ("of a stranger's key", Some(signed(Algorithm::RS256, Some(stranger.kid()), &claims, &strange_key))),
        ("of another algorithm of the family", Some(signed(Algorithm::RS512, Some(kid), &claims, &key))),
        ("alg none", Some(unsigned("none", kid, &claims, ""))),
        ("alg None", Some(unsigned("None", kid, &claims, ""))),
        ("alg none with a signature", Some(unsigned("none", kid, &claims, parts[2]))),
        ("without its signature", Some(format!("{}.{}.", parts[0], parts[1]))),
        ("with other words under its signature", Some(format!("{}.{someone_else}.{}", parts[0], parts[2]))),
        ("HS256 with the public modulus", hs(&modulus)),
        ("HS256 with the public key's JSON", hs(public.to_string().as_bytes())),
    ]
}
