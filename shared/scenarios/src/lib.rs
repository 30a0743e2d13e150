//! Scenarios of projects (S2, "Phase 0: Mock adapter and event pipeline validation"): five projects with scripted agents and
//! the acts of their owner. The demo plays them, and the end-to-end tests check their results.
//!
//! Only the models of the agents are simulated. Each play runs with one of several capability profiles, because agents of some SDKs lack
//! capabilities.

mod format;
mod player;

use std::path::Path;

pub use format::{Act, Expectation, Play, Scenario, Step};
pub use player::{ScenarioError, ScenarioPlayer, Settings};

/// The scenarios of S2, by name.
const DATA: [(&str, &str); 5] = [
    ("maya", include_str!("../data/maya.json")),
    ("david", include_str!("../data/david.json")),
    ("priya", include_str!("../data/priya.json")),
    ("rosa", include_str!("../data/rosa.json")),
    ("sam", include_str!("../data/sam.json")),
];

impl Scenario {
    pub const NAMES: [&'static str; 5] = [DATA[0].0, DATA[1].0, DATA[2].0, DATA[3].0, DATA[4].0];

    /// Reads the scenario with this name, or the file at this path if it ends with `.json`.
    ///
    /// # Errors
    /// [`ScenarioError::Unknown`] without such a scenario, [`ScenarioError::File`] and [`ScenarioError::Data`] for a file.
    pub fn named(name: &str) -> Result<Self, ScenarioError> {
        if Path::new(name).extension().is_some_and(|extension| extension == "json") {
            let read = std::fs::read_to_string(name);
            let data = read.map_err(|source| ScenarioError::File { path: name.into(), source })?;
            return Ok(serde_json::from_str(&data)?);
        }
        let found = DATA.iter().find(|(known, _)| *known == name);
        let (_, data) = found.ok_or_else(|| ScenarioError::Unknown(name.to_owned()))?;
        Ok(serde_json::from_str(data)?)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_name_their_agents_and_profiles() {
        for name in Scenario::NAMES {
            let scenario = Scenario::named(name).unwrap();
            assert!(scenario.plays.len() >= 2, "{name} has no failure");
            assert!(scenario.plays[0].profiles.len() >= 2, "{name} has no restricted profile");
            for play in &scenario.plays {
                for step in &play.steps {
                    let is_known = |agent: &str| play.agents.iter().any(|actor| actor.name == agent);
                    let agent = step.act.agent();
                    assert!(agent.is_none_or(is_known), "{name}: {}: no agent {agent:?}", step.title);
                }
                let profiles = play.steps.iter().flat_map(|step| &step.profiles);
                let profiles = profiles.chain(play.expect.iter().flat_map(|expected| &expected.profiles));
                for profile in profiles {
                    assert!(play.profiles.contains(profile), "{name}: no profile {profile}");
                }
            }
        }
    }

    #[test]
    fn unknown_scenario_names_the_known_ones() {
        let unknown = Scenario::named("nobody").unwrap_err().to_string();
        assert!(unknown.contains("nobody") && unknown.contains("priya"), "{unknown}");
    }
}
