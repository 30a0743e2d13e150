//! The environment of the agent's process: a chosen list, so that nothing of the sidecar's own reaches an agent or its tools.

use std::collections::BTreeMap;
use std::ffi::OsString;

use pilothouse_domain::value::ContextPolicy;
use pilothouse_wire::command::AgentSessionConfig;
use pilothouse_wire::launch::SidecarLaunch;

use super::options::AdapterOptions;

/// What any program needs to be itself: who runs it, where its programs are, how it reaches the network.
const COMMON: [&str; 22] = [
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
    "SSH_AUTH_SOCK",
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
/// What the binary itself is configured by.
const PREFIXES: [&str; 4] = ["LC_", "XDG_", "ANTHROPIC_", "CLAUDE_"];
/// What it is logged in with when it needs no login of its own.
const KEYS: [&str; 3] = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"];
/// Never passed on, whatever the options say: what the sidecar itself is let in with.
const OWN: &str = "PILOTHOUSE_";
/// Where the binary keeps settings and conversations.
pub(super) const CONFIG_DIRECTORY: &str = "CLAUDE_CONFIG_DIR";

/// The address of the agent API and the key to it.
pub(crate) const API_URL: &str = "PILOTHOUSE_API_URL";
/// The session's key.
pub(crate) const API_KEY: &str = "PILOTHOUSE_API_KEY";
/// The session's id.
pub(crate) const SESSION: &str = "PILOTHOUSE_SESSION_ID";

/// The whole environment of the agent's process. What is given later counts more.
pub(super) fn chosen(
    given: impl IntoIterator<Item = (OsString, OsString)>,
    launch: &SidecarLaunch,
    config: &AgentSessionConfig,
    options: &AdapterOptions,
) -> BTreeMap<OsString, OsString> {
    let passed = |name: &str| {
        !name.starts_with(OWN)
            && (COMMON.contains(&name)
                || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
                || options.pass_environment.iter().any(|wanted| wanted == name))
    };
    let mut chosen: BTreeMap<OsString, OsString> =
        given.into_iter().filter(|(name, _)| name.to_str().is_some_and(passed)).collect();
    for (name, value) in options.environment.iter().filter(|(name, _)| !name.starts_with(OWN)) {
        chosen.insert(name.into(), value.into());
    }
    // The session's folder outlives the run and is the session's alone. Whoever logged the binary in by hand, though, did
    // so in its own folder.
    if let Some(folder) = &options.config_directory {
        chosen.insert(CONFIG_DIRECTORY.into(), folder.into());
    } else if KEYS.iter().any(|key| chosen.contains_key(&OsString::from(key))) {
        let own = format!("{}/claude", launch.session_home);
        chosen.entry(CONFIG_DIRECTORY.into()).or_insert_with(|| own.into());
    }
    chosen.insert("DISABLE_AUTOUPDATER".into(), "1".into());
    // It writes its conversation down before it says that it has a message or that a turn is over, not a moment later: killed
    // then, it can take up all that was acknowledged.
    chosen.insert("CLAUDE_CODE_EAGER_FLUSH".into(), "1".into());
    if config.context_policy == ContextPolicy::Handoff {
        // Ruling 35: the work is handed over; the agent does not compact by itself.
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

    #[allow(clippy::needless_pass_by_value)] // as it is written down
    fn made(given: &[(&str, &str)], options: serde_json::Value) -> BTreeMap<String, String> {
        let given = given.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let options = AdapterOptions::read(&options).unwrap();
        chosen(given, &launch(), &config(json!({})), &options)
            .into_iter()
            .map(|(name, value)| (name.into_string().unwrap(), value.into_string().unwrap()))
            .collect()
    }

    #[test]
    fn only_chosen_variables_pass_and_never_the_sidecars_own() {
        let given = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("DATABASE_URL", "secret"),
            ("GIT_AUTHOR_NAME", "me"),
            ("PILOTHOUSE_TOKEN", "secret"),
            ("PILOTHOUSE_SECRET", "secret"),
        ];
        let options = json!({ "passEnvironment": ["GIT_AUTHOR_NAME", "PILOTHOUSE_SECRET"] });
        let made = made(&given, options);
        assert!(made.values().all(|value| value != "secret"), "{made:?}");
        assert_eq!(made["PATH"], "/bin");
        assert_eq!(made["GIT_AUTHOR_NAME"], "me");
        assert_eq!(made[API_URL], launch().agent_api.url);
        assert_eq!(made[API_KEY], launch().agent_api.api_key);
    }

    #[test]
    fn conversations_stand_in_the_sessions_folder_unless_the_binary_was_logged_in_by_hand() {
        assert!(!made(&[], json!({})).contains_key(CONFIG_DIRECTORY));
        assert_eq!(made(&[("ANTHROPIC_API_KEY", "k")], json!({}))[CONFIG_DIRECTORY], "//claude");
        let elsewhere = made(&[("ANTHROPIC_API_KEY", "k")], json!({ "configDirectory": "/c" }));
        assert_eq!(elsewhere[CONFIG_DIRECTORY], "/c");
    }

    #[test]
    fn the_agent_compacts_by_itself_only_where_the_policy_says_so() {
        assert_eq!(made(&[], json!({}))["DISABLE_AUTO_COMPACT"], "1");
        let mut compacting = config(json!({}));
        compacting.context_policy = ContextPolicy::Compact;
        let made = chosen([], &launch(), &compacting, &AdapterOptions::default());
        assert!(!made.contains_key(&OsString::from("DISABLE_AUTO_COMPACT")));
    }
}
