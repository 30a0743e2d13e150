//! The secrets that a worker has for agents (decision 92). A sidecar gets the secrets that its launch names, in one variable.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pilothouse_wire::launch::LaunchRequest;
use pilothouse_wire::secrets::{Secret, SecretStore};

/// Prefix of variables of the worker that are secrets for agents: `PILOTHOUSE_AGENT_SECRET_deploy_token` has the key `deploy_token`.
pub const VARIABLE_PREFIX: &str = "PILOTHOUSE_AGENT_SECRET_";

/// The places of secrets on a worker: a file, and the variables with [`VARIABLE_PREFIX`].
#[derive(Debug, Clone, Default)]
pub struct WorkerSecrets {
    /// A JSON file of secrets by key, which is read for each launch that needs one.
    pub file: Option<PathBuf>,
    /// Whether the worker serves several owners. Then a secret must name the agents or projects that may receive it.
    pub several_owners: bool,
}

impl WorkerSecrets {
    /// The secrets for the agent of a launch as JSON. `None` if the launch names none.
    pub(crate) fn of_launch(&self, request: &LaunchRequest) -> io::Result<Option<String>> {
        if request.secrets.is_empty() {
            return Ok(None);
        }
        let of_file = self.file.as_deref().map(read).transpose()?.unwrap_or_default();
        let of_variables = std::env::vars_os().filter_map(|(name, value)| {
            let key = name.to_str()?.strip_prefix(VARIABLE_PREFIX)?.to_owned();
            Some((key, value.into_string().ok()?))
        });
        let store =
            of_variables.fold(of_file, |store, (key, value)| store.with(key, Secret::unscoped(value)));
        let found = store.for_launch(request, self.several_owners);
        serde_json::to_string(&found).map(Some).map_err(io::Error::other)
    }
}

/// Checks that only the owner of a file with secrets has access to it.
pub fn check_private(path: &Path) -> io::Result<()> {
    if std::fs::metadata(path)?.mode() & 0o077 != 0 {
        return Err(io::Error::other("the file of secrets must be accessible for its owner only (mode 600)"));
    }
    Ok(())
}

fn read(path: &Path) -> io::Result<SecretStore> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    check_private(path).map_err(named)?;
    let text = std::fs::read_to_string(path).map_err(named)?;
    SecretStore::parse(&text).map_err(|error| named(io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;

    fn request() -> LaunchRequest {
        let id = |n: u8| format!("00000000-0000-0000-0000-00000000000{n}");
        serde_json::from_value(json!({
            "sessionId": id(1), "runId": id(2), "ordinal": 1, "adapter": "native", "workingDirectory": "/w",
            "agent": { "projectId": id(3), "agentId": id(4), "workstream": "api" },
            "secrets": [{ "name": "TOKEN", "vaultKey": "token", "scope": "agent" }],
        }))
        .unwrap()
    }

    #[test]
    fn file_of_secrets_must_be_private_and_serves_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secrets.json");
        std::fs::write(&path, json!({ "token": "a long secret", "more": "another one" }).to_string())
            .unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let mut secrets = WorkerSecrets { file: Some(path.clone()), several_owners: false };
        let refused = secrets.of_launch(&request()).unwrap_err().to_string();
        assert!(refused.contains("mode 600") && refused.contains("secrets.json"), "{refused}");
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let given = secrets.of_launch(&request()).unwrap().unwrap();
        let found = SecretStore::parse(&given).unwrap().resolve(&request()).unwrap();
        assert_eq!(found["TOKEN"], "a long secret");
        assert!(!given.contains("another one"));
        secrets.several_owners = true;
        assert_eq!(secrets.of_launch(&request()).unwrap().as_deref(), Some("{}"), "it names no agent");
        let mut none = request();
        none.secrets.clear();
        assert_eq!(secrets.of_launch(&none).unwrap(), None);
    }
}
