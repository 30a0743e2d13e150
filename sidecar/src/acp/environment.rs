//! What an agent is given of the sidecar's environment beyond what every process of it sees: the keys of its own providers.

use std::collections::BTreeMap;

use super::agents::Profile;

/// Variables of the sidecar's own are never handed on, whatever a table says.
const OWN: &str = "PILOTHOUSE_";

/// The variables of `all` that the agent needs, with those that were given for it above them.
pub(super) fn of_agent(
    all: impl IntoIterator<Item = (String, String)>,
    profile: &Profile,
    given: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let needed = |name: &str| profile.environment.iter().any(|beginning| name.starts_with(beginning));
    let mut chosen: BTreeMap<String, String> =
        all.into_iter().filter(|(name, _)| !name.starts_with(OWN) && needed(name)).collect();
    chosen.extend(given.iter().map(|(name, value)| (name.clone(), value.clone())));
    chosen
}

/// The values among them that must not be told to anybody.
pub(super) fn secrets(variables: &BTreeMap<String, String>) -> impl Iterator<Item = &str> {
    let words = ["KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "HEADERS"];
    let is_secret = move |name: &str| words.iter().any(|word| name.to_ascii_uppercase().contains(word));
    variables.iter().filter(move |(name, _)| is_secret(name)).map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::agents::{UNKNOWN, named};

    #[test]
    fn an_agent_is_given_what_its_profile_names_and_what_was_given_for_it() {
        let all = ["PATH", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "PILOTHOUSE_TOKEN", "DATABASE_URL"];
        let all = || all.map(|name| (name.to_owned(), format!("of {name}")));
        let given = BTreeMap::from([("EXTRA".to_owned(), "1".to_owned())]);
        let claude = of_agent(all(), named("claude-code-acp").unwrap(), &given);
        assert_eq!(claude.keys().collect::<Vec<_>>(), ["ANTHROPIC_API_KEY", "EXTRA"]);
        assert_eq!(secrets(&claude).collect::<Vec<_>>(), ["of ANTHROPIC_API_KEY"]);
        assert!(of_agent(all(), UNKNOWN, &BTreeMap::new()).is_empty());
    }
}
