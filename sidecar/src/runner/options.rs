//! What a session asks of the runner: `adapterOptions.deliverables`.

use serde::Deserialize;
use serde_json::Value;

/// The name of the options among those of the adapter.
const NAME: &str = "deliverables";
/// Iterations of one turn unless a session says how many.
const DEFAULT_ITERATIONS: u32 = 10;
/// The most that it may say.
const MOST_ITERATIONS: u32 = 1000;

/// The options of the runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunnerOptions {
    /// Whether a turn goes on until every deliverable is passed or blocked.
    pub required: bool,
    /// The most iterations of one turn, 1 to 1000; the first one counts.
    #[serde(default = "default_iterations")]
    pub max_iterations: u32,
}

const fn default_iterations() -> u32 {
    DEFAULT_ITERATIONS
}

/// Options that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidOptions {
    /// They are not what they should be.
    #[error("adapterOptions.deliverables: {0}")]
    Malformed(#[from] serde_json::Error),
    /// No number of iterations, or too many.
    #[error("adapterOptions.deliverables.maxIterations must be 1 to {MOST_ITERATIONS}")]
    Iterations,
}

impl RunnerOptions {
    /// Takes them out of the options of an adapter; none when deliverables are not required.
    pub fn take(adapter_options: &mut Value) -> Result<Option<Self>, InvalidOptions> {
        let Some(options) = adapter_options.as_object_mut().and_then(|all| all.remove(NAME)) else {
            return Ok(None);
        };
        let options: Self = serde_json::from_value(options)?;
        if !(1..=MOST_ITERATIONS).contains(&options.max_iterations) {
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
    fn options_are_taken_out_and_the_others_stay() {
        let mut all = json!({ "deliverables": { "required": true }, "other": 1 });
        let options = RunnerOptions::take(&mut all).unwrap();
        assert_eq!(options, Some(RunnerOptions { required: true, max_iterations: DEFAULT_ITERATIONS }));
        assert_eq!(all, json!({ "other": 1 }));
        for none in [json!(null), json!({}), json!({ "deliverables": { "required": false } })] {
            assert_eq!(RunnerOptions::take(&mut none.clone()).unwrap(), None, "{none}");
        }
    }

    #[test]
    fn options_that_make_no_sense_are_refused() {
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
