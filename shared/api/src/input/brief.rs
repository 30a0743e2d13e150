//! Parts of an agent's brief. The brief checks their values.

use deserr::{Deserr, IntoValue, ValuePointerRef};
use pilothouse_domain::project_agent::{
    DelegationPolicy, HistoryPolicy, ResourceLimits, SandboxCapability, SecretRef, SecretScope,
    SessionPolicy, WorkspaceMount, WorkspaceRequirements,
};

use super::Violations;

#[derive(Deserr)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
struct DelegationFields {
    can_spawn_subagents: bool,
    #[deserr(default)]
    allowed_handoffs: Option<Vec<String>>,
    #[deserr(default)]
    max_depth: Option<u32>,
}

impl Deserr<Violations> for DelegationPolicy {
    fn deserialize_from_value<V: IntoValue>(
        value: deserr::Value<V>,
        location: ValuePointerRef<'_>,
    ) -> Result<Self, Violations> {
        let DelegationFields { can_spawn_subagents, allowed_handoffs, max_depth } =
            Deserr::<Violations>::deserialize_from_value(value, location)?;
        let max_depth = max_depth.unwrap_or_else(Self::default_depth);
        Ok(Self { can_spawn_subagents, allowed_handoffs, max_depth })
    }
}

#[derive(Deserr)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
struct SecretFields {
    name: String,
    vault_key: String,
    #[deserr(default)]
    scope: Option<SecretScope>,
}

impl Deserr<Violations> for SecretRef {
    fn deserialize_from_value<V: IntoValue>(
        value: deserr::Value<V>,
        location: ValuePointerRef<'_>,
    ) -> Result<Self, Violations> {
        let SecretFields { name, vault_key, scope } =
            Deserr::<Violations>::deserialize_from_value(value, location)?;
        Ok(Self { name, vault_key, scope: scope.unwrap_or_default() })
    }
}

#[derive(Deserr)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
struct WorkspaceFields {
    #[deserr(default)]
    mounts: Vec<MountFields>,
    #[deserr(default)]
    capabilities: Vec<SandboxCapability>,
    #[deserr(default)]
    resource_limits: Option<LimitFields>,
    #[deserr(default)]
    base_image: Option<String>,
}

#[derive(Deserr)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
struct MountFields {
    host_path: String,
    sandbox_path: String,
    read_only: bool,
}

#[derive(Deserr)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
struct LimitFields {
    #[deserr(default)]
    cpu_cores: Option<u32>,
    #[deserr(default)]
    memory_mb: Option<u32>,
    #[deserr(default)]
    disk_mb: Option<u32>,
    #[deserr(default)]
    timeout_ms: Option<u64>,
}

impl Deserr<Violations> for WorkspaceRequirements {
    fn deserialize_from_value<V: IntoValue>(
        value: deserr::Value<V>,
        location: ValuePointerRef<'_>,
    ) -> Result<Self, Violations> {
        let fields: WorkspaceFields = Deserr::<Violations>::deserialize_from_value(value, location)?;
        let mount = |MountFields { host_path, sandbox_path, read_only }: MountFields| WorkspaceMount {
            host_path,
            sandbox_path,
            read_only,
        };
        let limits = |LimitFields { cpu_cores, memory_mb, disk_mb, timeout_ms }: LimitFields| {
            ResourceLimits { cpu_cores, memory_mb, disk_mb, timeout_ms }
        };
        Ok(Self {
            mounts: fields.mounts.into_iter().map(mount).collect(),
            capabilities: fields.capabilities.into_iter().collect(),
            resource_limits: fields.resource_limits.map(limits),
            base_image: fields.base_image,
        })
    }
}

#[derive(Deserr)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
struct SessionFields {
    #[deserr(default)]
    max_turns: Option<u32>,
    #[deserr(default)]
    context_budget_tokens: Option<u64>,
    history_policy: HistoryPolicy,
    #[deserr(default)]
    history_n: Option<u32>,
}

impl Deserr<Violations> for SessionPolicy {
    fn deserialize_from_value<V: IntoValue>(
        value: deserr::Value<V>,
        location: ValuePointerRef<'_>,
    ) -> Result<Self, Violations> {
        let SessionFields { max_turns, context_budget_tokens, history_policy, history_n } =
            Deserr::<Violations>::deserialize_from_value(value, location)?;
        Ok(Self { max_turns, context_budget_tokens, history_policy, history_n })
    }
}
