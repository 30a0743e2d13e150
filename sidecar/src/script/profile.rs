//! Capability profiles (S2, "Capability-gated lifecycle semantics"): an agent without the capabilities that some SDKs lack, so that the
//! control plane treats it like an agent of such an SDK.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_domain::value::Capabilities;
use serde::Deserialize;
use serde_json::Value;

/// A capability in the terms of S2 (`PluginCapabilities`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) enum Capability {
    #[serde(rename = "supportsPause")]
    Pause,
    /// Another run continues within the turn. Without it, that run begins the turn again.
    #[serde(rename = "supportsResume")]
    Resume,
    /// The agent ends in an orderly way when it is stopped.
    #[serde(rename = "supportsKill")]
    Kill,
    #[serde(rename = "supportsHotBriefUpdate")]
    HotBriefUpdate,
}

/// The profiles of S2: names, and missing capabilities.
const PROFILES: [(&str, &[Capability]); 5] = [
    ("all", &[]),
    ("claude", &[Capability::Pause, Capability::HotBriefUpdate]),
    ("openai", &[Capability::HotBriefUpdate]),
    ("gemini", &[Capability::Pause, Capability::Kill]),
    ("minimal", &[Capability::Pause, Capability::Resume, Capability::HotBriefUpdate]),
];

/// The name of a profile, or an object of capabilities. Capabilities that the object omits are supported.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "Value")]
pub(super) struct CapabilityProfile {
    missing: BTreeSet<Capability>,
}

impl CapabilityProfile {
    pub(super) fn supports(&self, capability: Capability) -> bool {
        !self.missing.contains(&capability)
    }

    /// `maximum` without the missing capabilities.
    pub(super) fn limit(&self, maximum: Capabilities) -> Capabilities {
        Capabilities {
            pause: maximum.pause && self.supports(Capability::Pause),
            resume_conversation: maximum.resume_conversation && self.supports(Capability::Resume),
            hot_reload: maximum.hot_reload && self.supports(Capability::HotBriefUpdate),
            ..maximum
        }
    }
}

impl TryFrom<Value> for CapabilityProfile {
    type Error = String;

    fn try_from(given: Value) -> Result<Self, String> {
        if let Some(name) = given.as_str() {
            let found = PROFILES.iter().find(|(known, _)| *known == name);
            let (_, missing) = found.ok_or_else(|| {
                let names = PROFILES.map(|(name, _)| name).join(", ");
                format!("`capabilities`: there is no profile `{name}`, only {names}")
            })?;
            return Ok(Self { missing: missing.iter().copied().collect() });
        }
        let supported = BTreeMap::<Capability, bool>::deserialize(given);
        let supported = supported.map_err(|e| format!("`capabilities`: {e}"))?;
        let missing = supported.into_iter().filter(|(_, is_supported)| !is_supported);
        Ok(Self { missing: missing.map(|(capability, _)| capability).collect() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(given: Value) -> Result<CapabilityProfile, String> {
        serde_json::from_value(given).map_err(|e| e.to_string())
    }

    #[test]
    fn profile_is_a_name_or_a_list_of_capabilities() {
        let listed = json!({ "supportsPause": false, "supportsKill": true, "supportsHotBriefUpdate": false });
        assert_eq!(read(listed), read(json!("claude")));
        assert_eq!(read(json!({})), read(json!("all")));
        assert!(read(json!("codex")).unwrap_err().contains("only all, claude, openai, gemini, minimal"));
        assert!(read(json!({ "supportsPausing": false })).unwrap_err().contains("supportsPausing"));
    }

    #[test]
    fn profile_removes_capabilities_and_adds_none() {
        let maximum = Capabilities { pause: true, cost: true, ..Capabilities::default() };
        let limited = read(json!("openai")).unwrap().limit(maximum);
        assert_eq!(limited, maximum, "capabilities that the adapter lacks are not added");
        let limited = read(json!("minimal")).unwrap().limit(Capabilities { hot_reload: true, ..maximum });
        assert_eq!(limited, Capabilities { pause: false, ..maximum });
    }
}
