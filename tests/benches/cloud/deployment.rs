//! A deployment, as `infra/deploy` describes it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pilothouse_cli::keys::{LocalKeys, Trust};
use pilothouse_domain::UserId;
use serde::Deserialize;

/// What is needed of the description.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Deployment {
    pub(crate) prefix: String,
    pub(crate) api_url: String,
    pub(crate) endpoint: String,
    issuer: String,
    audience: String,
    keys: PathBuf,
}

impl Deployment {
    /// Reads `target/deploy/{prefix}.json`.
    pub(crate) fn open(endpoint: &str, prefix: &str) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../target/deploy/{prefix}.json"));
        let text = std::fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("{}: {error}; localstack/deploy makes it", file.display()));
        let deployment: Self = serde_json::from_str(&text).unwrap();
        assert_eq!(deployment.endpoint, endpoint, "{} is of another cloud", file.display());
        deployment
    }

    /// A token for an owner.
    pub(crate) fn token(&self, owner: &str) -> String {
        let keys = LocalKeys::open(&self.keys).unwrap().expect("the keys of the deployment");
        let trust = Trust { issuer: self.issuer.clone(), audience: self.audience.clone() };
        keys.mint_for(&trust, &UserId::parse(owner).unwrap(), Duration::from_hours(1)).unwrap()
    }
}
