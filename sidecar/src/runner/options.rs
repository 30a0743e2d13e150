//! Options of the runner: `adapterOptions.deliverables`.

use serde::Deserialize;
use serde_json::Value;

const NAME: &str = "deliverables";
/// Iterations of one turn.
const DEFAULT_ITERATIONS: u32 = 10;
const MAX_ITERATIONS: u32 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunnerOptions {
    /// Whether a turn continues until every deliverable is passed or blocked.
    pub required: bool,
    /// Most iterations of one turn, 1 to 1000, including the first.
    #[serde(default = "default_iterations")]
    pub max_iterations: u32,
}

const fn default_iterations() -> u32 {
    DEFAULT_ITERATIONS
}

#[derive(Debug, thiserror::Error)]
pub enum InvalidOptions {
    #[error("adapterOptions.deliverables: {0}")]
    Malformed(#[from] serde_json::Error),
    /// The number of iterations is out of range.
    #[error("adapterOptions.deliverables.maxIterations must be 1 to {MAX_ITERATIONS}")]
    Iterations,
}

impl RunnerOptions {
    /// Removes the runner's options from the adapter's. `None` if deliverables are not required.
    pub fn take(adapter_options: &mut Value) -> Result<Option<Self>, InvalidOptions> {
        let Some(options) = adapter_options.as_object_mut().and_then(|all| all.remove(NAME)) else {
            return Ok(None);
        };
        let options: Self = serde_json::from_value(options)?;
        if !(1..=MAX_ITERATIONS).contains(&options.max_iterations) {
            return Err(InvalidOptions::Iterations);
        }
        Ok(options.required.then_some(options))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn runner_options_are_extracted_and_others_remain() {
        let mut all = json!({ "deliverables": { "required": true }, "other": 1 });
        let options = RunnerOptions::take(&mut all).unwrap();
        assert_eq!(options, Some(RunnerOptions { required: true, max_iterations: DEFAULT_ITERATIONS }));
        assert_eq!(all, json!({ "other": 1 }));
        for none in [json!(null), json!({}), json!({ "deliverables": { "required": false } })] {
            assert_eq!(RunnerOptions::take(&mut none.clone()).unwrap(), None, "{none}");
        }
    }

    #[test]
    fn invalid_options_are_refused() {
        for wrong in [
            json!(true),
            json!({ "required": true, "maxIterations": 0 }),
            json!({ "required": true, "maxIterations": 1001 }),
            json!({ "required": true, "iterations": 3 }),
            json!({ "maxIterations": 3 }),
        ] {
            assert!(RunnerOptions::take(&mut json!({ "deliverables": wrong })).is_err(), "{wrong}");
        }
    }
}
