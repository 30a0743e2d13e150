//! The chosen environment of what the adapter starts. The sidecar's own environment holds what is its own: nothing of it is
//! handed on that is not named here.

use std::collections::BTreeMap;

use super::agents::Profile;

/// Variables that every program may need and that hold no secret of the sidecar's.
const COMMON: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TERM",
    "TMPDIR",
    "TZ",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Never handed on, whatever a table says.
fn own(name: &str) -> bool {
    name.starts_with("PILOTHOUSE_")
}

/// The variables of `all` that a program of the agent's choice is given: common ones alone.
pub(super) fn of_tools(all: impl IntoIterator<Item = (String, String)>) -> BTreeMap<String, String> {
    all.into_iter().filter(|(name, _)| common(name)).collect()
}

/// The variables of `all` that the agent itself is given, with those that were given for it above them.
pub(super) fn of_agent(
    all: impl IntoIterator<Item = (String, String)>,
    profile: &Profile,
    given: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let needed = |name: &str| profile.environment.iter().any(|beginning| name.starts_with(beginning));
    let mut chosen: BTreeMap<String, String> =
        all.into_iter().filter(|(name, _)| !own(name) && (common(name) || needed(name))).collect();
    chosen.extend(given.iter().map(|(name, value)| (name.clone(), value.clone())));
    chosen
}

fn common(name: &str) -> bool {
    !own(name) && (COMMON.contains(&name) || name.starts_with("LC_"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::agents::{UNKNOWN, named};

    fn all() -> Vec<(String, String)> {
        ["PATH", "LC_ALL", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "PILOTHOUSE_TOKEN", "DATABASE_URL"]
            .iter()
            .map(|name| ((*name).to_owned(), "v".to_owned()))
            .collect()
    }

    fn names(chosen: &BTreeMap<String, String>) -> Vec<&str> {
        chosen.keys().map(String::as_str).collect()
    }

    #[test]
    fn an_agent_is_given_what_its_profile_names_and_what_was_given_for_it() {
        let given = BTreeMap::from([("EXTRA".to_owned(), "1".to_owned())]);
        let claude = of_agent(all(), named("claude-code-acp").unwrap(), &given);
        assert_eq!(names(&claude), ["ANTHROPIC_API_KEY", "EXTRA", "LC_ALL", "PATH"]);
        assert_eq!(names(&of_agent(all(), UNKNOWN, &BTreeMap::new())), ["LC_ALL", "PATH"]);
    }

    #[test]
    fn programs_of_the_agents_choice_are_given_no_key() {
        assert_eq!(names(&of_tools(all())), ["LC_ALL", "PATH"]);
    }
}
