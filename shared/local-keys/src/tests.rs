use std::os::unix::fs::PermissionsExt as _;
use std::sync::Barrier;
use std::time::Duration;

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, decode_header, encode};
use pilothouse_domain::UserId;

use super::{AUDIENCE, Claims, ISSUER, KeyError, LocalKeys, SECRET_FILE, SIGNING_KEY_FILE, TokenSettings};

const HOUR: Duration = Duration::from_hours(1);

fn ada() -> UserId {
    UserId::parse("ada").unwrap()
}

fn mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn keys_are_private_to_their_owner_and_survive_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("new/data");
    let first = LocalKeys::open_or_create(&data).unwrap();
    assert_eq!(mode(&data), 0o700);
    assert_eq!(mode(&data.join(SECRET_FILE)), 0o600);
    assert_eq!(mode(&data.join(SIGNING_KEY_FILE)), 0o600);
    assert_eq!(std::fs::read(data.join(SECRET_FILE)).unwrap().len(), 32);
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 2, "no temporary file remains");

    let token = first.mint(&ada(), HOUR).unwrap();
    let again = LocalKeys::open(&data).unwrap().unwrap();
    assert_eq!(again.kid(), first.kid());
    assert_eq!(again.verify(&token).unwrap().sub, ada());
}

#[test]
fn concurrent_creators_get_the_same_keys() {
    let dir = tempfile::tempdir().unwrap();
    let barrier = Barrier::new(4);
    let made: Vec<(String, String)> = std::thread::scope(|scope| {
        let make = || {
            barrier.wait();
            let keys = LocalKeys::open_or_create(dir.path()).unwrap();
            let run = pilothouse_domain::AgentSessionId::new(uuid::Uuid::nil());
            (keys.kid().to_owned(), keys.root_secret().api_key(run, 0))
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(made.windows(2).all(|pair| pair[0] == pair[1]), "{made:?}");
}

#[test]
fn a_token_names_its_owner_and_verifies_with_the_published_key() {
    let dir = tempfile::tempdir().unwrap();
    let keys = LocalKeys::open_or_create(dir.path()).unwrap();
    let token = keys.mint(&ada(), HOUR).unwrap();
    let header = decode_header(&token).unwrap();
    assert_eq!((header.alg, header.kid.as_deref()), (Algorithm::RS256, Some(keys.kid())));

    // Verify as a client that has only the key set.
    let jwk = keys.jwks().find(keys.kid()).unwrap();
    let mut validation = Validation::new(Algorithm::RS256);
    validation.set_audience(&[AUDIENCE]);
    validation.set_issuer(&[ISSUER]);
    let claims = decode::<Claims>(&token, &DecodingKey::from_jwk(jwk).unwrap(), &validation).unwrap().claims;
    assert_eq!(claims.sub, ada());
    assert_eq!(claims.exp - claims.iat, 3600);

    let public = serde_json::to_string(keys.jwks()).unwrap();
    assert!(!public.contains("\"d\""), "the private exponent is not published");
}

#[test]
fn forged_and_expired_tokens_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let keys = LocalKeys::open_or_create(&dir.path().join("mine")).unwrap();
    let others = LocalKeys::open_or_create(&dir.path().join("theirs")).unwrap();
    let token = keys.mint(&ada(), HOUR).unwrap();
    let claims = keys.verify(&token).unwrap();

    assert!(keys.verify(&others.mint(&ada(), HOUR).unwrap()).is_err(), "another key");

    let header = Header { kid: Some(keys.kid().into()), ..Header::new(Algorithm::HS256) };
    let n = serde_json::to_vec(keys.jwks()).unwrap();
    let symmetric = encode(&header, &claims, &EncodingKey::from_secret(&n)).unwrap();
    assert!(keys.verify(&symmetric).is_err(), "signed with the public key as a secret");

    // {"alg":"none","kid":…} with the claims of a good token and no signature.
    let payload = token.split('.').nth(1).unwrap();
    let none = format!("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.{payload}.");
    assert!(keys.verify(&none).is_err(), "alg none");

    let mut parts: Vec<&str> = token.split('.').collect();
    let other = others.mint(&UserId::parse("eve").unwrap(), HOUR).unwrap();
    parts[1] = other.split('.').nth(1).unwrap();
    assert!(keys.verify(&parts.join(".")).is_err(), "other claims under a good signature");

    let header = Header { kid: Some(keys.kid().into()), ..Header::new(Algorithm::RS256) };
    let old = Claims { iat: 0, exp: claims.iat - 120, ..claims.clone() };
    assert!(keys.verify(&encode(&header, &old, &keys.encoding).unwrap()).is_err(), "expired");
    let elsewhere = Claims { aud: "elsewhere".into(), ..claims };
    let elsewhere = encode(&header, &elsewhere, &keys.encoding).unwrap();
    assert!(keys.verify(&elsewhere).is_err(), "another audience");
    let settings = TokenSettings { audience: "elsewhere".into(), ..TokenSettings::default() };
    assert!(keys.verify_with(&settings, &elsewhere).is_ok() && keys.verify_with(&settings, &token).is_err());
}

#[test]
fn readable_and_damaged_files_are_refused_with_advice() {
    let dir = tempfile::tempdir().unwrap();
    assert!(LocalKeys::open(dir.path()).unwrap().is_none(), "open creates no keys");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);

    LocalKeys::open_or_create(dir.path()).unwrap();
    let secret = dir.path().join(SECRET_FILE);
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = LocalKeys::open(dir.path()).unwrap_err();
    assert!(matches!(refused, KeyError::TooOpen { mode: 0o644, .. }));
    assert!(refused.to_string().contains("chmod 600"));

    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(dir.path().join(SIGNING_KEY_FILE), b"nonsense").unwrap();
    assert!(matches!(LocalKeys::open(dir.path()), Err(KeyError::Damaged { .. })));
}

#[test]
fn a_data_folder_is_closed_to_others_and_foreign_folders_are_refused() {
    let open = |path: &std::path::Path| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let dir = tempfile::tempdir().unwrap();
    // Empty at first, with keys in it the second time.
    for _ in 0..2 {
        open(dir.path());
        LocalKeys::open_or_create(dir.path()).unwrap();
        assert_eq!(mode(dir.path()), 0o700);
    }
    let foreign = tempfile::tempdir().unwrap();
    std::fs::write(foreign.path().join("a file"), "").unwrap();
    open(foreign.path());
    let refused = LocalKeys::open_or_create(foreign.path()).unwrap_err();
    assert!(matches!(refused, KeyError::FolderTooOpen { mode: 0o755, .. }));
    assert!(refused.to_string().contains("chmod 700"));
    assert_eq!(mode(foreign.path()), 0o755, "the mode is unchanged");
    std::fs::set_permissions(foreign.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    LocalKeys::open_or_create(foreign.path()).unwrap();
}
