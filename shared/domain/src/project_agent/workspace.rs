//! Requirements on the workspace of an agent (S2 `AgentBrief.workspaceRequirements`; decision 92).

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::named;

/// Requirements on the workspace of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct WorkspaceRequirements {
    /// The folders of the working directory that the agent can use. Without any, it can use the whole directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<WorkspaceMount>,
    /// Capabilities that the agent needs.
    #[serde(default)]
    pub capabilities: BTreeSet<SandboxCapability>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_limits: Option<ResourceLimits>,
    /// The image of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_image: Option<String>,
}

/// A folder of the working directory in the container of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct WorkspaceMount {
    /// The path below the working directory, such as `src`, or `.`.
    pub host_path: String,
    /// The absolute path in the container.
    pub sandbox_path: String,
    pub read_only: bool,
}

/// Limits of the container of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct ResourceLimits {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 256))]
    pub cpu_cores: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 64, max = 4_194_304))]
    pub memory_mb: Option<u32>,
    /// The free disk that the place needs when the session first starts there. It is neither reserved nor a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 64, max = 16_777_216))]
    pub disk_mb: Option<u32>,
    /// The longest time of a run. The sidecar then ends the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1_000, max = 2_592_000_000_u64))]
    pub timeout_ms: Option<u64>,
}

/// A capability of the place where an agent runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxCapability {
    /// A shell.
    Terminal,
    /// A headless browser.
    Browser,
    Git,
    /// Docker inside the place.
    Docker,
    NetworkExternal,
    /// No network but the control plane.
    NetworkInternalOnly,
    Gpu,
}

named!(SandboxCapability {
    Terminal => "terminal",
    Browser => "browser",
    Git => "git",
    Docker => "docker",
    NetworkExternal => "network_external",
    NetworkInternalOnly => "network_internal_only",
    Gpu => "gpu",
});

/// The workspace that a worker offers to agents.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceOffer {
    /// Capabilities that agents can use.
    #[serde(default)]
    pub capabilities: BTreeSet<SandboxCapability>,
    /// Parts of the requirements that the worker applies, besides the capabilities.
    #[serde(default)]
    pub applies: BTreeSet<WorkspacePart>,
    /// The free space of the file system of the worker's data folder, in MiB. Omitted by places that do not announce it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_disk_mb: Option<u64>,
}

/// A part of the requirements that not every worker can apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkspacePart {
    Mounts,
    BaseImage,
    CpuAndMemory,
}

/// One violation of requirements.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkspaceViolation {
    #[error("must have at most {max} entries")]
    TooMany { max: usize },
    #[error("must be a path below the working directory without `..`, such as `src`")]
    HostPath,
    #[error("must be an absolute path without `..`, and not `/`")]
    SandboxPath,
    #[error("is the path of another mount")]
    Duplicate,
    #[error("must be from {min} to {max}")]
    Range { min: u64, max: u64 },
    #[error("must not have both `network_external` and `network_internal_only`")]
    Network,
    #[error("must be the name of an image: 1 to {max} characters without spaces, not beginning with `-`")]
    Image { max: usize },
}

/// A requirement that a place does not meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnmetRequirement {
    #[error("it does not announce the capability `{0}`")]
    Capability(SandboxCapability),
    #[error("it cannot apply `mounts`, which need a worker with containers")]
    Mounts,
    #[error("it cannot apply `baseImage`, which needs a worker with containers")]
    BaseImage,
    #[error("it cannot limit processors and memory, which needs a worker with containers")]
    CpuAndMemory,
    #[error("it does not announce its free disk, which `diskMb` needs")]
    UnknownDisk,
    #[error("it has {free} MiB of free disk, and `diskMb` is {needed}")]
    Disk { needed: u32, free: u64 },
}

impl WorkspaceRequirements {
    pub const MAX_MOUNTS: usize = 20;
    pub const MAX_PATH: usize = 1000;
    pub const MAX_IMAGE: usize = 300;

    /// Names every violation, with its path below the requirements.
    pub(super) fn check(&self) -> Vec<(String, WorkspaceViolation)> {
        use WorkspaceViolation as V;
        let mut found = Vec::new();
        let mut violated = |path: String, violation| found.push((path, violation));
        if self.mounts.len() > Self::MAX_MOUNTS {
            violated("mounts".to_owned(), V::TooMany { max: Self::MAX_MOUNTS });
        }
        let mut seen = BTreeSet::new();
        for (at, mount) in self.mounts.iter().enumerate() {
            if !is_below(&mount.host_path) {
                violated(format!("mounts[{at}].hostPath"), V::HostPath);
            }
            let is_path =
                mount.sandbox_path.strip_prefix('/').is_some_and(|rest| is_below(rest) && rest != ".");
            if !is_path {
                violated(format!("mounts[{at}].sandboxPath"), V::SandboxPath);
            } else if !seen.insert(mount.sandbox_path.trim_end_matches('/')) {
                violated(format!("mounts[{at}].sandboxPath"), V::Duplicate);
            }
        }
        let network = [SandboxCapability::NetworkExternal, SandboxCapability::NetworkInternalOnly];
        if network.iter().all(|capability| self.capabilities.contains(capability)) {
            violated("capabilities".to_owned(), V::Network);
        }
        let limits = self.resource_limits.unwrap_or_default();
        for (field, value, min, max) in [
            ("cpuCores", limits.cpu_cores.map(u64::from), 1, 256),
            ("memoryMb", limits.memory_mb.map(u64::from), 64, 4_194_304),
            ("diskMb", limits.disk_mb.map(u64::from), 64, 16_777_216),
            ("timeoutMs", limits.timeout_ms, 1_000, 2_592_000_000),
        ] {
            if value.is_some_and(|value| !(min..=max).contains(&value)) {
                violated(format!("resourceLimits.{field}"), V::Range { min, max });
            }
        }
        let is_image = |image: &String| {
            (1..=Self::MAX_IMAGE).contains(&image.len())
                && !image.starts_with('-')
                && image.chars().all(|c| c.is_ascii_graphic())
        };
        if self.base_image.as_ref().is_some_and(|image| !is_image(image)) {
            violated("baseImage".to_owned(), V::Image { max: Self::MAX_IMAGE });
        }
        found
    }

    /// The requirements that a place with this offer does not meet.
    pub fn unmet(&self, offer: &WorkspaceOffer) -> Vec<UnmetRequirement> {
        let mut unmet = self.unmet_except_disk(offer);
        unmet.extend(self.unmet_disk(offer));
        unmet
    }

    fn unmet_disk(&self, offer: &WorkspaceOffer) -> Option<UnmetRequirement> {
        let needed = self.resource_limits.unwrap_or_default().disk_mb?;
        match offer.free_disk_mb {
            None => Some(UnmetRequirement::UnknownDisk),
            Some(free) => (free < u64::from(needed)).then_some(UnmetRequirement::Disk { needed, free }),
        }
    }

    /// Like [`Self::unmet`], for a place where the session has run. Its own files use the disk there, so free disk does not count.
    pub fn unmet_except_disk(&self, offer: &WorkspaceOffer) -> Vec<UnmetRequirement> {
        let limits = self.resource_limits.unwrap_or_default();
        let missing = self.capabilities.difference(&offer.capabilities).copied();
        let parts = [
            (!self.mounts.is_empty(), WorkspacePart::Mounts, UnmetRequirement::Mounts),
            (self.base_image.is_some(), WorkspacePart::BaseImage, UnmetRequirement::BaseImage),
            (
                limits.cpu_cores.is_some() || limits.memory_mb.is_some(),
                WorkspacePart::CpuAndMemory,
                UnmetRequirement::CpuAndMemory,
            ),
        ];
        let unapplied =
            parts.into_iter().filter(|(is_needed, part, _)| *is_needed && !offer.applies.contains(part));
        missing.map(UnmetRequirement::Capability).chain(unapplied.map(|(_, _, unmet)| unmet)).collect()
    }

    /// The capabilities that the tools and the role of a brief suggest (S2, "Inference rules"). Tool names of Claude Code are known.
    pub fn inferred(tools: &[String], role: &str) -> BTreeSet<SandboxCapability> {
        use SandboxCapability as C;
        let of_tool = |tool: &String| -> &'static [C] {
            match tool.as_str() {
                "Read" | "Write" | "Edit" | "Bash" => &[C::Terminal],
                "WebSearch" | "WebFetch" => &[C::Browser, C::NetworkExternal],
                "Git" => &[C::Git, C::Terminal],
                _ => &[],
            }
        };
        let role = role.to_lowercase();
        let of_role =
            [("deploy", [C::Docker, C::NetworkExternal]), ("research", [C::Browser, C::NetworkExternal])];
        let suggested = of_role.into_iter().filter(|(word, _)| role.contains(word)).flat_map(|(_, all)| all);
        tools.iter().flat_map(of_tool).copied().chain(suggested).collect()
    }
}

/// Whether a relative path stays below its root.
fn is_below(path: &str) -> bool {
    (1..=WorkspaceRequirements::MAX_PATH).contains(&path.len())
        && !path.starts_with('/')
        && !path.chars().any(char::is_control)
        && path.split('/').all(|part| part != "..")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn requirements(json: &Value) -> WorkspaceRequirements {
        WorkspaceRequirements::deserialize(json).unwrap()
    }

    #[test]
    fn every_violation_of_a_workspace_is_named() {
        let mount =
            |host: &str, sandbox: &str| json!({ "hostPath": host, "sandboxPath": sandbox, "readOnly": true });
        let good = requirements(&json!({
            "mounts": [mount("src", "/w/src"), mount(".", "/w")], "capabilities": ["terminal"],
            "resourceLimits": { "cpuCores": 2, "memoryMb": 4096, "diskMb": 64, "timeoutMs": 1000 },
            "baseImage": "example.com/agents:1@sha256:0",
        }));
        assert_eq!(good.check(), []);
        let wrong = requirements(&json!({
            "mounts": [mount("/etc", "/"), mount("a/../..", "w"), mount("a", "/w/x"), mount("b", "/w/x/")],
            "capabilities": ["network_external", "network_internal_only"],
            "resourceLimits": { "cpuCores": 0, "memoryMb": 1, "diskMb": 1, "timeoutMs": 1 },
            "baseImage": "--privileged",
        }));
        let found: Vec<_> = wrong.check().into_iter().map(|(path, _)| path).collect();
        assert_eq!(
            found,
            [
                "mounts[0].hostPath",
                "mounts[0].sandboxPath",
                "mounts[1].hostPath",
                "mounts[1].sandboxPath",
                "mounts[3].sandboxPath",
                "capabilities",
                "resourceLimits.cpuCores",
                "resourceLimits.memoryMb",
                "resourceLimits.diskMb",
                "resourceLimits.timeoutMs",
                "baseImage",
            ]
        );
        let many: Vec<_> = (0..21).map(|n| mount("a", &format!("/m{n}"))).collect();
        let many = requirements(&json!({ "mounts": many }));
        assert_eq!(many.check(), [("mounts".to_owned(), WorkspaceViolation::TooMany { max: 20 })]);
    }

    #[test]
    fn unmet_requirements_of_a_place_are_named() {
        use UnmetRequirement as U;
        let needs = requirements(&json!({
            "mounts": [{ "hostPath": "src", "sandboxPath": "/src", "readOnly": true }],
            "capabilities": ["terminal", "gpu"],
            "resourceLimits": { "memoryMb": 512, "diskMb": 100 },
            "baseImage": "agents",
        }));
        let offer = |json: Value| serde_json::from_value::<WorkspaceOffer>(json).unwrap();
        let process = offer(json!({ "capabilities": ["terminal", "git"] }));
        let lacking =
            [U::Capability(SandboxCapability::Gpu), U::Mounts, U::BaseImage, U::CpuAndMemory, U::UnknownDisk];
        assert_eq!(needs.unmet(&process), lacking);
        let all = json!({ "capabilities": ["terminal", "gpu"],
            "applies": ["mounts", "base_image", "cpu_and_memory"], "freeDiskMb": 100 });
        assert_eq!(needs.unmet(&offer(all)), []);
        let timed = requirements(&json!({ "resourceLimits": { "timeoutMs": 1000 } }));
        assert_eq!(timed.unmet(&WorkspaceOffer::default()), [], "each sidecar ends its run in time");
    }

    #[test]
    fn free_disk_is_compared_unless_the_session_has_run_there() {
        let needs = requirements(&json!({ "resourceLimits": { "diskMb": 100 } }));
        let with = |free| WorkspaceOffer { free_disk_mb: free, ..WorkspaceOffer::default() };
        assert_eq!(needs.unmet(&with(Some(99))), [UnmetRequirement::Disk { needed: 100, free: 99 }]);
        assert_eq!(needs.unmet(&with(None)), [UnmetRequirement::UnknownDisk]);
        assert_eq!(needs.unmet(&with(Some(100))), []);
        for free in [None, Some(0)] {
            assert_eq!(needs.unmet_except_disk(&with(free)), [], "its own files use the disk");
        }
        let absurd = requirements(&json!({ "resourceLimits": { "diskMb": 16_777_217 } }));
        let range = WorkspaceViolation::Range { min: 64, max: 16_777_216 };
        assert_eq!(absurd.check(), [("resourceLimits.diskMb".to_owned(), range)]);
    }

    #[test]
    fn tools_and_role_suggest_capabilities() {
        use SandboxCapability as C;
        let of = |tools: &[&str], role: &str| {
            let tools: Vec<_> = tools.iter().map(ToString::to_string).collect();
            WorkspaceRequirements::inferred(&tools, role).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(of(&["Read", "mcp__x__y"], "Builder"), [C::Terminal]);
        assert_eq!(of(&["Git"], "Deploy Agent"), [C::Terminal, C::Git, C::Docker, C::NetworkExternal]);
        assert_eq!(of(&["WebFetch"], "Research Agent"), [C::Browser, C::NetworkExternal]);
        assert_eq!(of(&[], "Builder"), []);
    }
}
