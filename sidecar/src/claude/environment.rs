//! The environment of Claude Code: an explicit list, so that agents and tools get none of the sidecar's own variables.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use pilothouse_domain::value::ContextPolicy;
use pilothouse_wire::command::AgentSessionConfig;
use pilothouse_wire::launch::{RESERVED_PREFIX, SidecarLaunch};

use super::options::AdapterOptions;
use crate::process::agent_folder;

/// User, program paths, network access.
const COMMON: [&str; 21] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "TMPDIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
];
/// Prefixes of variables that configure Claude Code.
const PREFIXES: [&str; 4] = ["LC_", "XDG_", "ANTHROPIC_", "CLAUDE_"];
/// For use without a login.
const KEYS: [&str; 3] = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"];
/// Sockets that grant the rights of the whole user. Passed on only if the options name them.
const SOCKETS: [&str; 1] = ["XDG_RUNTIME_DIR"];
/// Folder in which Claude Code keeps settings and conversations.
pub(super) const CONFIG_DIRECTORY: &str = "CLAUDE_CONFIG_DIR";

pub(crate) const API_URL: &str = "PILOTHOUSE_API_URL";
pub(crate) const API_KEY: &str = "PILOTHOUSE_API_KEY";
pub(crate) const SESSION: &str = "PILOTHOUSE_SESSION_ID";

/// Folders of a confined Claude Code for files that it would otherwise write to its home: temporary files, and the
/// login of a user who logged in manually.
pub(super) fn confined(environment: &mut BTreeMap<OsString, OsString>) {
    if let Some(folder) = environment.get(OsStr::new("TMPDIR")).cloned() {
        environment.entry("CLAUDE_CODE_TMPDIR".into()).or_insert(folder);
    }
    if let Some(home) = environment.get(OsStr::new("HOME")).map(PathBuf::from) {
        environment.entry(CONFIG_DIRECTORY.into()).or_insert_with(|| home.join(".claude").into());
    }
}

/// Later sources take precedence.
pub(super) fn chosen(
    given: impl IntoIterator<Item = (OsString, OsString)>,
    launch: &SidecarLaunch,
    config: &AgentSessionConfig,
    options: &AdapterOptions,
) -> BTreeMap<OsString, OsString> {
    // The sidecar's own credentials are never passed on, even if the options name them.
    let passed = |name: &str| {
        !name.starts_with(RESERVED_PREFIX)
            && (COMMON.contains(&name)
                || (PREFIXES.iter().any(|prefix| name.starts_with(prefix)) && !SOCKETS.contains(&name))
                || options.pass_environment.iter().any(|wanted| wanted == name))
    };
    let mut chosen: BTreeMap<OsString, OsString> =
        given.into_iter().filter(|(name, _)| name.to_str().is_some_and(passed)).collect();
    for (name, value) in options.environment.iter().filter(|(name, _)| !name.starts_with(RESERVED_PREFIX)) {
        chosen.insert(name.into(), value.into());
    }
    // This folder belongs to the session and outlives the run. After a manual login, the login is in the user's own
    // folder.
    if let Some(folder) = &options.config_directory {
        chosen.insert(CONFIG_DIRECTORY.into(), folder.into());
    } else if KEYS.iter().any(|key| chosen.contains_key(&OsString::from(key))) {
        let own = agent_folder(launch).join("claude");
        chosen.entry(CONFIG_DIRECTORY.into()).or_insert_with(|| own.into());
    }
    chosen.insert("DISABLE_AUTOUPDATER".into(), "1".into());
    // Makes Claude Code write its conversation before it confirms a message or the end of a turn, so that a killed
    // process can be resumed with everything that was acknowledged.
    chosen.insert("CLAUDE_CODE_EAGER_FLUSH".into(), "1".into());
    if config.options.context_policy == ContextPolicy::Handoff {
        // Decision 35: hand the work over instead of compacting it.
        chosen.insert("DISABLE_AUTO_COMPACT".into(), "1".into());
    }
    chosen.insert(API_URL.into(), launch.agent_api.url.clone().into());
    chosen.insert(API_KEY.into(), launch.agent_api.api_key.clone().into());
    chosen.insert(SESSION.into(), launch.request.session_id.to_string().into());
    chosen
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::config;
    use super::*;
    use crate::spool::tests::launch;

    #[allow(clippy::needless_pass_by_value)] // reads better at the call
    fn made(given: &[(&str, &str)], options: serde_json::Value) -> BTreeMap<String, String> {
        let given = given.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let options = AdapterOptions::read(&options).unwrap();
        chosen(given, &launch(), &config(json!({})), &options)
            .into_iter()
            .map(|(name, value)| (name.into_string().unwrap(), value.into_string().unwrap()))
            .collect()
    }

    #[test]
    fn only_chosen_variables_pass_and_never_those_of_the_sidecar() {
        let given = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("DATABASE_URL", "secret"),
            ("GIT_AUTHOR_NAME", "me"),
            ("PILOTHOUSE_TOKEN", "secret"),
            ("PILOTHOUSE_SECRET", "secret"),
            ("SSH_AUTH_SOCK", "secret"),
            ("XDG_RUNTIME_DIR", "secret"),
            ("DBUS_SESSION_BUS_ADDRESS", "secret"),
            ("DOCKER_HOST", "secret"),
        ];
        let options = json!({
            "passEnvironment": ["GIT_AUTHOR_NAME", "PILOTHOUSE_SECRET"],
            "env": { "MODE": "fast", "PILOTHOUSE_TOKEN": "secret" },
        });
        let made = made(&given, options);
        assert!(made.values().all(|value| value != "secret"), "{made:?}");
        assert_eq!(made["PATH"], "/bin");
        assert_eq!((made["GIT_AUTHOR_NAME"].as_str(), made["MODE"].as_str()), ("me", "fast"));
        assert_eq!(made[API_URL], launch().agent_api.url);
        assert_eq!(made[API_KEY], launch().agent_api.api_key);
    }

    #[test]
    fn conversations_are_in_the_session_folder_unless_logged_in() {
        assert!(!made(&[], json!({})).contains_key(CONFIG_DIRECTORY));
        assert_eq!(made(&[("ANTHROPIC_API_KEY", "k")], json!({}))[CONFIG_DIRECTORY], "/agent/claude");
        let elsewhere = made(&[("ANTHROPIC_API_KEY", "k")], json!({ "configDirectory": "/c" }));
        assert_eq!(elsewhere[CONFIG_DIRECTORY], "/c");
    }

    #[test]
    fn agent_compacts_only_when_the_policy_allows() {
        assert_eq!(made(&[], json!({}))["DISABLE_AUTO_COMPACT"], "1");
        let mut compacting = config(json!({}));
        compacting.options.context_policy = ContextPolicy::Compact;
        let made = chosen([], &launch(), &compacting, &AdapterOptions::default());
        assert!(!made.contains_key(&OsString::from("DISABLE_AUTO_COMPACT")));
    }
}
