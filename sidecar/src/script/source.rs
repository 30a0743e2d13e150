//! Selects what to play: a script, a recording, or the demo.

use std::path::PathBuf;
use std::time::Duration;

use pilothouse_domain::RunId;
use pilothouse_wire::command::AgentSessionConfig;
use pilothouse_wire::keys::sha256_hex;
use serde::Deserialize;

use super::demo;
use super::format::{ScriptFile, Step};
use super::profile::CapabilityProfile;
use super::program::{Instruction, compile};
use crate::adapter::AdapterError;
use crate::kit::claude_stream::{Options, PlaybackOptions, PlaybackStep, Recording};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AdapterOptions {
    script: Option<ScriptFile>,
    script_file: Option<PathBuf>,
    recording: Option<PathBuf>,
    /// The run within the recording.
    segment: Option<String>,
    /// Factor by which waits are shortened; 0 disables all waits.
    speed: Option<f64>,
    /// The capabilities of the agent: the name of a profile, or each capability.
    capabilities: CapabilityProfile,
}

#[derive(Debug)]
pub(super) struct Source {
    pub script: ScriptFile,
    /// A recording that replaces the script's steps.
    recording: Option<Recorded>,
    pub speed: f64,
    pub profile: CapabilityProfile,
    /// Identifies the content, to detect that it has changed.
    pub fingerprint: String,
}

#[derive(Debug)]
struct Recorded {
    recording: Recording,
    segment: Option<String>,
}

/// Distinguishes recordings. Stored in `script-state.json`, so its form must not change.
fn fingerprint(segment: Option<&str>, recording: &str) -> String {
    let segment =
        segment.map_or_else(|| "None".to_owned(), |name| format!("Some({})", serde_json::json!(name)));
    sha256_hex(format!("{segment}\0{recording}").as_bytes())
}

#[test]
fn fingerprints_of_recordings_stay() {
    let of = |text: &str| sha256_hex(text.as_bytes());
    assert_eq!(fingerprint(None, "{}"), of("None\0{}"));
    assert_eq!(fingerprint(Some("second run"), "{}"), of("Some(\"second run\")\0{}"));
}

fn configuration(e: impl std::fmt::Display) -> AdapterError {
    AdapterError::Configuration(e.to_string())
}

impl Source {
    /// Defaults to the demo.
    pub(super) fn read(config: &AgentSessionConfig) -> Result<Self, AdapterError> {
        let options: AdapterOptions = match &config.adapter_options {
            serde_json::Value::Null => AdapterOptions::default(),
            given => AdapterOptions::deserialize(given).map_err(configuration)?,
        };
        let profile = options.capabilities;
        let speed = options.speed.filter(|s| s.is_finite() && *s >= 0.0).unwrap_or(1.0);
        if let Some(path) = options.recording.filter(|_| config.handoff.is_none()) {
            let bytes = std::fs::read_to_string(&path)
                .map_err(|e| configuration(format!("{}: {e}", path.display())))?;
            let recording = Recording::parse(&bytes).map_err(configuration)?;
            let fingerprint = fingerprint(options.segment.as_deref(), &bytes);
            let script = ScriptFile { steps: Vec::new(), ..demo::script() };
            return Ok(Self {
                script: ScriptFile { on_message: None, ..script },
                recording: Some(Recorded { recording, segment: options.segment }),
                speed,
                profile,
                fingerprint,
            });
        }
        let mut script = match (options.script, options.script_file) {
            (Some(script), _) => script,
            (None, Some(path)) => {
                let bytes =
                    std::fs::read(&path).map_err(|e| configuration(format!("{}: {e}", path.display())))?;
                serde_json::from_slice(&bytes)
                    .map_err(|e| configuration(format!("{}: {e}", path.display())))?
            }
            (None, None) => demo::script(),
        };
        if let Some(handoff) = &config.handoff {
            script.steps = continuation(&script, handoff.position);
        }
        let fingerprint = sha256_hex(&serde_json::to_vec(&script).map_err(configuration)?);
        Ok(Self { script, recording: None, speed, profile, fingerprint })
    }

    /// The ids of the program are deterministic.
    pub(super) fn program(
        &self,
        conversation: u32,
        run: RunId,
        governed: bool,
    ) -> Result<Vec<Instruction>, AdapterError> {
        match &self.recording {
            None => compile(&self.script.steps, &conversation.to_string(), governed).map_err(configuration),
            Some(recorded) => recorded.program(run),
        }
    }

    /// The instructions that answer a message after the program has ended.
    pub(super) fn reaction(&self, prefix: &str, governed: bool) -> Result<Vec<Instruction>, AdapterError> {
        let quoting = demo::reaction();
        let steps: &[Step] = self.script.on_message.as_deref().unwrap_or(&quoting);
        compile(steps, prefix, governed).map_err(configuration)
    }
}

/// The steps of the session at `position` of its chain, from 2. Never those of the first session, which would hand over
/// forever.
fn continuation(script: &ScriptFile, position: u32) -> Vec<Step> {
    let at = usize::try_from(position.saturating_sub(2)).unwrap_or(usize::MAX);
    script.continuations.get(at).cloned().unwrap_or_else(demo::continuation)
}

impl Recorded {
    fn program(&self, run: RunId) -> Result<Vec<Instruction>, AdapterError> {
        let segment = match &self.segment {
            Some(name) => self.recording.segment(name),
            None => self.recording.segments().first(),
        };
        let segment = segment.ok_or_else(|| configuration("the recording has no such segment"))?;
        // The run's id makes turn ids unique across the runs of a session.
        let options = PlaybackOptions::new(Options::new(run.to_string()).map_err(configuration)?);
        Ok(segment.playback(options).into_iter().map(instruction).collect())
    }
}

fn instruction(step: PlaybackStep) -> Instruction {
    match step {
        PlaybackStep::Emit(events) => Instruction::EmitAll(events),
        PlaybackStep::Wait(time) => Instruction::Wait(time),
        PlaybackStep::AwaitAnswer { tool_call_id } => {
            Instruction::AwaitAnswer { call: tool_call_id, result: false }
        }
        PlaybackStep::AwaitPlanDecision { tool_call_id } => {
            Instruction::AwaitDecision { call: tool_call_id, result: false }
        }
        PlaybackStep::AwaitMessage => Instruction::AwaitMessage { earlier: true },
    }
}

/// A wait at a speed; none at speed 0.
pub(super) fn at_speed(time: Duration, speed: f64) -> Duration {
    if speed > 0.0 {
        Duration::try_from_secs_f64(time.as_secs_f64() / speed).unwrap_or(time)
    } else {
        Duration::ZERO
    }
}
