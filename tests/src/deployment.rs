//! A deployment on a local cloud, as `infra/deploy` describes it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pilothouse_cli::keys::{LocalKeys, Trust};
use pilothouse_domain::UserId;
use serde_json::Value;

/// What a deployment says about itself: parameters and outputs of its stacks, under their names.
pub struct Description {
    file: PathBuf,
    values: Value,
}

impl Description {
    /// Reads a file, relative to the source tree.
    pub fn read(file: impl AsRef<Path>) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        let text = std::fs::read(&file)
            .unwrap_or_else(|error| panic!("{}: {error}; localstack/deploy makes it", file.display()));
        Self { values: serde_json::from_slice(&text).unwrap(), file }
    }

    /// The parameter or output of this name.
    pub fn value(&self, name: &str) -> &str {
        self.values[name].as_str().unwrap_or_else(|| panic!("{} has no {name}", self.file.display()))
    }

    /// A token that speaks for an owner.
    pub fn token(&self, owner: &str) -> String {
        let keys =
            LocalKeys::open(Path::new(self.value("Keys"))).unwrap().expect("the keys of the deployment");
        let (issuer, audience) = (self.value("Issuer").to_owned(), self.value("Audience").to_owned());
        keys.mint_for(&Trust { issuer, audience }, &UserId::parse(owner).unwrap(), Duration::from_hours(1))
            .unwrap()
    }
}
