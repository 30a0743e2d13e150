//! Capability profiles (S2, "Capability-gated lifecycle semantics"): an agent that lacks what some SDKs lack, so that
//! the control plane degrades as it does for them.

use pilothouse_domain::value::Capabilities;
use serde::Deserialize;
use serde_json::Value;

/// What the agent can do, in the terms of S2 (`PluginCapabilities`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
#[allow(clippy::struct_excessive_bools)] // a list of independent yes-or-no answers
pub(super) struct CapabilityProfile {
    pub supports_pause: bool,
    /// Whether another run continues within the turn. Otherwise it begins the turn again.
    pub supports_resume: bool,
    /// Whether the agent ends in an orderly way when it is stopped.
    pub supports_kill: bool,
    pub supports_hot_brief_update: bool,
}

impl Default for CapabilityProfile {
    fn default() -> Self {
        Self::ALL
    }
}

impl CapabilityProfile {
    const ALL: Self = Self {
        supports_pause: true,
        supports_resume: true,
        supports_kill: true,
        supports_hot_brief_update: true,
    };
    const CLAUDE: Self = Self { supports_pause: false, supports_hot_brief_update: false, ..Self::ALL };
    const OPENAI: Self = Self { supports_hot_brief_update: false, ..Self::ALL };
    const GEMINI: Self = Self { supports_pause: false, supports_kill: false, ..Self::ALL };
    const MINIMAL: Self = Self { supports_resume: false, ..Self::CLAUDE };

    /// The profiles of S2 by name.
    const NAMED: [(&'static str, Self); 5] = [
        ("all", Self::ALL),
        ("claude", Self::CLAUDE),
        ("openai", Self::OPENAI),
        ("gemini", Self::GEMINI),
        ("minimal", Self::MINIMAL),
    ];

    /// `maximum` without what the profile lacks.
    pub(super) const fn limit(self, maximum: Capabilities) -> Capabilities {
        Capabilities {
            pause: maximum.pause && self.supports_pause,
            resume_conversation: maximum.resume_conversation && self.supports_resume,
            hot_reload: maximum.hot_reload && self.supports_hot_brief_update,
            ..maximum
        }
    }
}

/// Capabilities one by one. Those that are left out are present.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools)] // a list of independent yes-or-no answers
struct Fields {
    supports_pause: bool,
    supports_resume: bool,
    supports_kill: bool,
    supports_hot_brief_update: bool,
}

impl Default for Fields {
    fn default() -> Self {
        Self {
            supports_pause: true,
            supports_resume: true,
            supports_kill: true,
            supports_hot_brief_update: true,
        }
    }
}

impl TryFrom<Value> for CapabilityProfile {
    type Error = String;

    fn try_from(given: Value) -> Result<Self, String> {
        if let Some(name) = given.as_str() {
            let found = Self::NAMED.iter().find(|(known, _)| *known == name);
            return found.map(|(_, profile)| *profile).ok_or_else(|| {
                let names = Self::NAMED.map(|(name, _)| name).join(", ");
                format!("`capabilities`: there is no profile `{name}`, only {names}")
            });
        }
        let fields = Fields::deserialize(given).map_err(|e| format!("`capabilities`: {e}"))?;
        Ok(Self {
            supports_pause: fields.supports_pause,
            supports_resume: fields.supports_resume,
            supports_kill: fields.supports_kill,
            supports_hot_brief_update: fields.supports_hot_brief_update,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn profile_is_a_name_or_a_list_of_capabilities() {
        let read = |given| serde_json::from_value::<CapabilityProfile>(given).map_err(|e| e.to_string());
        assert_eq!(
            read(json!({ "supportsPause": false, "supportsHotBriefUpdate": false })),
            read(json!("claude"))
        );
        assert_eq!(read(json!({})), Ok(CapabilityProfile::ALL));
        assert!(read(json!("codex")).unwrap_err().contains("only all, claude, openai, gemini, minimal"));
        assert!(read(json!({ "supportsPausing": false })).unwrap_err().contains("supportsPausing"));
    }

    #[test]
    fn profile_removes_capabilities_and_adds_none() {
        let maximum = Capabilities { pause: true, cost: true, ..Capabilities::default() };
        let limited = CapabilityProfile::OPENAI.limit(maximum);
        assert_eq!(limited, maximum, "what the adapter cannot do is not added");
        let limited = CapabilityProfile::MINIMAL.limit(Capabilities { hot_reload: true, ..maximum });
        assert_eq!(limited, Capabilities { pause: false, ..maximum });
    }
}
