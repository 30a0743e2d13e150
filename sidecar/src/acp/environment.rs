//! Environment variables that an agent gets in addition to those of every process, such as the API keys of its
//! providers.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use pilothouse_wire::launch::RESERVED_PREFIX;

use super::agents::Profile;
use crate::kit::agent_process::secrets;
use crate::process::named_folders;

/// The agent's variables by increasing precedence: those that make it ask, its own of `all`, and those of the options.
pub(super) fn of_agent(
    all: impl IntoIterator<Item = (String, String)>,
    profile: &Profile,
    given: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let needed = |name: &str| profile.environment.iter().any(|beginning| name.starts_with(beginning));
    let mut chosen: BTreeMap<String, String> =
        profile.asking.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    chosen.extend(all.into_iter().filter(|(name, _)| !name.starts_with(RESERVED_PREFIX) && needed(name)));
    chosen.extend(given.iter().map(|(name, value)| (name.clone(), value.clone())));
    chosen
}

/// The agent's folder for configuration, login and conversations: its variable, and its path in the user's home.
fn own_folder(profile: &Profile) -> Option<(&'static str, &'static str)> {
    match profile.name {
        "claude-code-acp" => Some(("CLAUDE_CONFIG_DIR", ".claude")),
        "codex" => Some(("CODEX_HOME", ".codex")),
        "gemini" => Some(("GEMINI_CLI_HOME", ".gemini")),
        _ => None,
    }
}

/// Gives a confined agent a writable folder, and returns the folder to grant: with an API key the folder `session`,
/// after a manual login the user's own.
pub(super) fn confined(
    variables: &mut BTreeMap<String, String>,
    profile: &Profile,
    session: &Path,
    home: Option<&Path>,
) -> io::Result<Vec<PathBuf>> {
    let mut needed = named_folders(&*variables);
    let Some((variable, folder)) = own_folder(profile).filter(|(name, _)| !variables.contains_key(*name))
    else {
        return Ok(needed);
    };
    let has_key = secrets(variables).next().is_some();
    let theirs = home.map(|home| home.join(folder)).filter(|folder| !has_key && folder.is_dir());
    let named = theirs.clone().unwrap_or_else(|| session.join(profile.name));
    if theirs.is_none() {
        std::fs::create_dir_all(&named)?;
    }
    // Gemini's variable names the parent of its folder.
    if theirs.is_none() || profile.name != "gemini" {
        variables.insert(variable.to_owned(), named.to_string_lossy().into_owned());
    }
    needed.push(named);
    Ok(needed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::agents::{UNKNOWN, named};

    #[test]
    fn agent_gets_only_variables_of_its_profile_and_configuration() {
        let all = ["PATH", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "PILOTHOUSE_TOKEN", "DATABASE_URL"];
        let all = || all.map(|name| (name.to_owned(), format!("of {name}")));
        let given = BTreeMap::from([("EXTRA".to_owned(), "1".to_owned())]);
        let claude = of_agent(all(), named("claude-code-acp").unwrap(), &given);
        assert_eq!(claude.keys().collect::<Vec<_>>(), ["ANTHROPIC_API_KEY", "EXTRA"]);
        assert_eq!(secrets(&claude).collect::<Vec<_>>(), ["of ANTHROPIC_API_KEY"]);
        assert!(of_agent(all(), UNKNOWN, &BTreeMap::new()).is_empty());
    }

    #[test]
    fn confined_agent_keeps_its_configuration_in_a_writable_folder() {
        let dir = tempfile::tempdir().unwrap();
        let (session, home) = (dir.path().join("agent"), dir.path().join("home"));
        std::fs::create_dir_all(home.join(".codex")).unwrap();
        let codex = named("codex").unwrap();
        let folder = |given: &[(&str, &str)]| {
            let mut variables = given.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            let needed = confined(&mut variables, codex, &session, Some(&home)).unwrap();
            assert_eq!(needed, [PathBuf::from(&variables["CODEX_HOME"])]);
            variables["CODEX_HOME"].clone()
        };
        assert_eq!(Path::new(&folder(&[("OPENAI_API_KEY", "k")])), session.join("codex"));
        assert_eq!(Path::new(&folder(&[])), home.join(".codex"), "logged in by hand");
        assert_eq!(folder(&[("OPENAI_API_KEY", "k"), ("CODEX_HOME", "/named")]), "/named");
    }

    #[test]
    fn auto_approving_agent_asks_by_default() {
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
