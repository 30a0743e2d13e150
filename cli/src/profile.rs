//! Selects the control plane that the program connects to: an embedded server, or a deployment in the cloud.

use std::path::{Path, PathBuf};

use pilothouse_local_keys::{AUDIENCE, TokenSettings};
use serde::Deserialize;

use crate::error::CliError;
pub use crate::globals::Profile;
use crate::globals::{DEFAULT_LISTEN, Globals};

/// The description of a deployment: parameters and outputs of its stacks by name. `infra/deploy` writes it to
/// `target/deploy/{prefix}.json`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Deployment {
    /// The address of the HTTP API.
    pub api_url: String,
    /// The address of the WebSocket API.
    pub stream_url: String,
    /// The address of the web console; `None` if it is not deployed.
    #[serde(default)]
    pub console_url: Option<String>,
    /// The issuer of the tokens of owners.
    #[serde(default)]
    pub issuer: Option<String>,
    /// The audience of the tokens.
    #[serde(default)]
    pub audience: Option<String>,
    /// `true` if the deployment has its own issuer, made from the public key of a data folder.
    #[serde(default)]
    pub own_issuer: Option<String>,
    /// That data folder; `None` means the default one of this machine.
    #[serde(default)]
    pub keys: Option<PathBuf>,
}

/// The default file, below the current folder or one of its ancestors.
const DEPLOYMENT: &str = "target/deploy/pilothouse.json";

impl Deployment {
    /// Reads the file named in `globals`, or the default file. Returns `None` if there is none.
    fn find(globals: &Globals) -> Result<Option<Self>, CliError> {
        if let Some(file) = &globals.deployment {
            return Self::read(file).map(Some);
        }
        let Ok(here) = std::env::current_dir() else { return Ok(None) };
        let found = here.ancestors().map(|folder| folder.join(DEPLOYMENT)).find(|file| file.is_file());
        found.map(|file| Self::read(&file)).transpose()
    }

    fn read(file: &Path) -> Result<Self, CliError> {
        let bytes = std::fs::read(file).map_err(|source| CliError::File { path: file.to_owned(), source })?;
        serde_json::from_slice(&bytes)
            .map_err(|e| CliError::Usage(format!("{} does not describe a deployment: {e}", file.display())))
    }

    /// The keys of the deployment's issuer, if they are on this machine. The deployment accepts no others, so they take
    /// precedence over `--data`, which is where a worker keeps its files.
    fn keys_here(&self) -> Option<PathBuf> {
        self.keys.clone().filter(|folder| folder.is_dir())
    }
}

/// The address of the control plane, and the tokens that it accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The platform.
    pub profile: Profile,
    /// The address of the HTTP API.
    pub url: String,
    /// The address of the WebSocket API, if it is a separate one.
    pub ws_url: Option<String>,
    /// The address of the web console, if it is a separate one.
    pub console_url: Option<String>,
    /// Issuer and audience for tokens minted here; `None` if the control plane accepts no such tokens.
    pub trust: Option<TokenSettings>,
    /// The data folder with the signing keys, if it is known.
    pub keys: Option<PathBuf>,
}

impl Place {
    /// Selects the control plane according to the global options.
    pub fn of(globals: &Globals) -> Result<Self, CliError> {
        match globals.profile {
            Profile::Embedded => Ok(Self {
                profile: Profile::Embedded,
                url: globals.url.clone().unwrap_or_else(|| format!("http://{DEFAULT_LISTEN}")),
                ws_url: None,
                console_url: None,
                trust: Some(TokenSettings::default()),
                keys: globals.data.clone(),
            }),
            Profile::Aws => Self::of_cloud(globals),
        }
    }

    fn of_cloud(globals: &Globals) -> Result<Self, CliError> {
        let deployment = Deployment::find(globals)?;
        let deployment = deployment.as_ref();
        let url = globals.url.clone().or_else(|| deployment.map(|d| d.api_url.clone())).ok_or_else(|| {
            CliError::Usage(
                "there is no deployment here; name its file with --deployment, or its address with --url"
                    .into(),
            )
        })?;
        let own = deployment.filter(|d| d.own_issuer.as_deref() != Some("false"));
        let issuer = globals.issuer.clone().or_else(|| own.and_then(|d| d.issuer.clone()));
        let audience = globals.audience.clone().or_else(|| deployment.and_then(|d| d.audience.clone()));
        // The console sends tokens to the API of its own deployment, which may be another one than that of `--url`.
        let console_url = deployment.filter(|d| d.api_url == url).and_then(|d| d.console_url.clone());
        Ok(Self {
            profile: Profile::Aws,
            url,
            ws_url: globals.ws_url.clone().or_else(|| deployment.map(|d| d.stream_url.clone())),
            console_url,
            trust: issuer.map(|issuer| TokenSettings {
                issuer,
                audience: audience.unwrap_or_else(|| AUDIENCE.to_owned()),
            }),
            keys: own.and_then(Deployment::keys_here).or_else(|| globals.data.clone()),
        })
    }
}

impl Globals {
    /// All folders and files with credentials of this program, for every control plane. Agents must not be able to read them.
    pub fn credentials(&self) -> Vec<PathBuf> {
        let usual = Self { data: None, ..self.clone() }.data_folder();
        let keys = Place::of(self).ok().and_then(|place| place.keys);
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        usual
            .into_iter()
            .chain(self.data.clone())
            .chain(self.token_file.clone())
            .chain(keys)
            .map(absolute)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_local_keys::TokenSettings;

    use super::{Place, Profile};
    use crate::error::CliError;
    use crate::globals::Globals;

    fn cloud() -> Globals {
        Globals { profile: Profile::Aws, ..Globals::default() }
    }

    fn deployed(text: &str) -> (tempfile::TempDir, Globals) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pilothouse.json");
        std::fs::write(&file, text).unwrap();
        (dir, Globals { deployment: Some(file), ..cloud() })
    }

    const FILE: &str = r#"{
        "ApiUrl": "http://127.0.0.1:4566/_aws/execute-api/abc/$default",
        "StreamUrl": "ws://127.0.0.1:4566/_aws/execute-api/def/live",
        "ConsoleUrl": "https://d1.cloudfront.net",
        "Issuer": "https://issuer.example", "Audience": "pilothouse", "TableName": "pilothouse"
    }"#;

    #[test]
    fn deployment_file_names_addresses_and_trusted_issuer() {
        let (_dir, globals) = deployed(FILE);
        let place = Place::of(&globals).unwrap();
        assert_eq!(place.url, "http://127.0.0.1:4566/_aws/execute-api/abc/$default");
        assert_eq!(place.ws_url.as_deref(), Some("ws://127.0.0.1:4566/_aws/execute-api/def/live"));
        assert_eq!(place.console_url.as_deref(), Some("https://d1.cloudfront.net"));
        let trust = TokenSettings { issuer: "https://issuer.example".into(), audience: "pilothouse".into() };
        assert_eq!(place.trust, Some(trust));
    }

    #[test]
    fn command_line_overrides_other_sources() {
        let (_dir, globals) = deployed(FILE);
        let globals = Globals {
            url: Some("https://a".into()),
            ws_url: Some("wss://b".into()),
            issuer: Some("https://c".into()),
            audience: Some("d".into()),
            ..globals
        };
        let place = Place::of(&globals).unwrap();
        assert_eq!((place.url.as_str(), place.ws_url.as_deref()), ("https://a", Some("wss://b")));
        assert_eq!(place.trust, Some(TokenSettings { issuer: "https://c".into(), audience: "d".into() }));
    }

    #[test]
    fn console_belongs_to_the_address_of_its_deployment() {
        let (_dir, globals) = deployed(FILE);
        let console_at = |url: &str| {
            let globals = Globals { url: Some(url.to_owned()), ..globals.clone() };
            Place::of(&globals).unwrap().console_url
        };
        let own = "http://127.0.0.1:4566/_aws/execute-api/abc/$default";
        assert_eq!(console_at(own).as_deref(), Some("https://d1.cloudfront.net"));
        assert_eq!(console_at("https://a"), None, "it would receive the token of another control plane");
    }

    #[test]
    fn foreign_issuer_gets_no_tokens_from_local_keys() {
        let (_dir, globals) = deployed(&FILE.replacen('{', r#"{"OwnIssuer": "false","#, 1));
        assert_eq!(Place::of(&globals).unwrap().trust, None);
    }

    #[test]
    fn issuer_keys_sign_regardless_of_the_data_folder() {
        let keys = tempfile::tempdir().unwrap();
        let text = FILE.replacen('{', &format!(r#"{{"Keys": {:?}, "#, keys.path()), 1);
        let (_dir, globals) = deployed(&text);
        let globals = Globals { data: Some("/data".into()), ..globals };
        assert_eq!(Place::of(&globals).unwrap().keys.as_deref(), Some(keys.path()));
        // Without the keys on this machine, `--data` names them.
        drop(keys);
        assert_eq!(Place::of(&globals).unwrap().keys, globals.data);
    }

    #[test]
    fn invalid_deployment_file_is_named() {
        let (_dir, globals) = deployed("{}");
        let error = Place::of(&globals).unwrap_err();
        assert!(matches!(&error, CliError::Usage(text) if text.contains("pilothouse.json")), "{error}");
    }

    #[test]
    fn embedded_server_needs_no_configuration() {
        let place = Place::of(&Globals::default()).unwrap();
        assert_eq!((place.url.as_str(), place.ws_url), ("http://127.0.0.1:7433", None));
        assert_eq!(place.trust, Some(TokenSettings::default()));
    }
}
