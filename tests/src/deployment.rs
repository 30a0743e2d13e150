//! A deployment on a local cloud, as described by the file that `infra/deploy` writes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pilothouse_domain::UserId;
use pilothouse_local_keys::{LocalKeys, TokenSettings};
use serde_json::Value;

/// Parameters and outputs of the deployment's stacks by name.
pub struct Description {
    file: PathBuf,
    values: Value,
}

impl Description {
    /// Relative paths start at the source tree.
    pub fn read(file: impl AsRef<Path>) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        let text = std::fs::read(&file)
            .unwrap_or_else(|error| panic!("{}: {error}; localstack/deploy creates it", file.display()));
        Self { values: serde_json::from_slice(&text).unwrap(), file }
    }

    pub fn value(&self, name: &str) -> &str {
        self.find(name).unwrap_or_else(|| panic!("{} has no {name}", self.file.display()))
    }

    pub fn find(&self, name: &str) -> Option<&str> {
        self.values[name].as_str()
    }

    pub fn token(&self, owner: &str) -> String {
        let keys =
            LocalKeys::open(Path::new(self.value("Keys"))).unwrap().expect("the keys of the deployment");
        let (issuer, audience) = (self.value("Issuer").to_owned(), self.value("Audience").to_owned());
        keys.mint_with(
            &TokenSettings { issuer, audience },
            &UserId::parse(owner).unwrap(),
            Duration::from_hours(1),
        )
        .unwrap()
    }
}
