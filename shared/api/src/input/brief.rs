//! Parts of an agent's brief. The brief checks their values.

use deserr::{Deserr, IntoValue, ValuePointerRef};
use pilothouse_domain::project_agent::{
    DelegationPolicy, HistoryPolicy, SecretRef, SecretScope, SessionPolicy,
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
