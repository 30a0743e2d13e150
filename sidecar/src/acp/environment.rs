//! What an agent is given of the sidecar's environment beyond what every process of it sees: the keys of its own providers.

use std::collections::BTreeMap;

use super::agents::Profile;

/// Variables of the sidecar's own are never handed on, whatever a table says.
const OWN: &str = "PILOTHOUSE_";

/// What makes the agent ask, the variables of `all` that it needs above that, and those that were given for it above both.
pub(super) fn of_agent(
    all: impl IntoIterator<Item = (String, String)>,
    profile: &Profile,
    given: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let needed = |name: &str| profile.environment.iter().any(|beginning| name.starts_with(beginning));
    let mut chosen: BTreeMap<String, String> =
        profile.asking.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    chosen.extend(all.into_iter().filter(|(name, _)| !name.starts_with(OWN) && needed(name)));
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

    #[test]
    fn an_agent_that_acts_at_once_by_itself_is_told_to_ask_unless_somebody_says_otherwise() {
        let goose = named("goose").unwrap();
        assert_eq!(of_agent([], goose, &BTreeMap::new())["GOOSE_MODE"], "approve");
        let machine = [("GOOSE_MODE".to_owned(), "smart_approve".to_owned())];
        assert_eq!(of_agent(machine, goose, &BTreeMap::new())["GOOSE_MODE"], "smart_approve");
        let given = BTreeMap::from([("GOOSE_MODE".to_owned(), "auto".to_owned())]);
        assert_eq!(of_agent([], goose, &given)["GOOSE_MODE"], "auto");
        let opencode = of_agent([], named("opencode").unwrap(), &BTreeMap::new());
        assert!(
            serde_json::from_str::<serde_json::Value>(&opencode["OPENCODE_PERMISSION"]).unwrap()["bash"]
                == "ask"
        );
    }
}
