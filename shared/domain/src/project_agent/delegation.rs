//! The limits of delegation by an agent (S2 `AgentBrief.delegationPolicy`; decision 92).

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::is_name;

/// The limits of delegation by an agent. Its sidecar enforces the policy; the agent cannot read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct DelegationPolicy {
    /// Whether the agent may start subagents.
    pub can_spawn_subagents: bool,
    /// Names of subagents, or ids of other agents, to which it may delegate; `null` for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_handoffs: Option<Vec<String>>,
    /// The greatest depth of nested subagents. A subagent of the agent itself has the depth 1.
    #[serde(default = "DelegationPolicy::default_depth")]
    #[schemars(range(max = 10))]
    pub max_depth: u32,
}

/// One violation of a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DelegationViolation {
    #[error("must be at most {max}")]
    TooDeep { max: u32 },
    #[error("must be at least 1, because the agent may start subagents")]
    NoDepth,
    #[error("must have at most {max} entries")]
    TooMany { max: usize },
    #[error("must name an agent, because the agent may start subagents; omit it to allow any")]
    Empty,
    #[error("must have 1 to {max} characters, none of them a control character")]
    Name { max: usize },
    #[error("is listed twice")]
    Duplicate,
}

/// Work that an agent is about to delegate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delegation<'a> {
    /// To a subagent with these names, at this depth.
    Subagent { names: &'a [&'a str], depth: u32 },
    /// To another agent with these names, which takes over all work.
    Handoff { names: &'a [&'a str] },
}

/// The reason of a refused delegation, as a sentence for the agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DelegationDenied {
    #[error("This agent may not start subagents.")]
    Subagents,
    #[error("Subagents of this agent may be nested {max} deep, and no deeper.")]
    Depth { max: u32 },
    #[error("This agent may delegate only to: {}.", .0.join(", "))]
    Recipient(Vec<String>),
    #[error("This agent may not delegate to another agent.")]
    Handoffs,
}

impl DelegationPolicy {
    pub const MAX_DEPTH: u32 = 10;
    pub const MAX_HANDOFFS: usize = 50;
    /// Most characters of a name in `allowedHandoffs`.
    pub const MAX_NAME: usize = 200;

    pub const fn default_depth() -> u32 {
        1
    }

    /// Names every violation, with its path below the policy.
    pub(super) fn check(&self) -> Vec<(String, DelegationViolation)> {
        let mut found = Vec::new();
        if self.max_depth > Self::MAX_DEPTH {
            found.push(("maxDepth".to_owned(), DelegationViolation::TooDeep { max: Self::MAX_DEPTH }));
        }
        if self.can_spawn_subagents && self.max_depth == 0 {
            found.push(("maxDepth".to_owned(), DelegationViolation::NoDepth));
        }
        let Some(names) = &self.allowed_handoffs else { return found };
        if names.len() > Self::MAX_HANDOFFS {
            let violation = DelegationViolation::TooMany { max: Self::MAX_HANDOFFS };
            found.push(("allowedHandoffs".to_owned(), violation));
        }
        if names.is_empty() && self.can_spawn_subagents {
            found.push(("allowedHandoffs".to_owned(), DelegationViolation::Empty));
        }
        let mut seen = BTreeSet::new();
        for (at, name) in names.iter().enumerate() {
            let violation = if !is_name(name, Self::MAX_NAME) {
                DelegationViolation::Name { max: Self::MAX_NAME }
            } else if !seen.insert(name) {
                DelegationViolation::Duplicate
            } else {
                continue;
            };
            found.push((format!("allowedHandoffs[{at}]"), violation));
        }
        found
    }

    /// Whether the agent may delegate this work.
    pub fn check_delegation(&self, delegation: Delegation<'_>) -> Result<(), DelegationDenied> {
        let names = match delegation {
            Delegation::Subagent { names, depth } => {
                self.check_depth(depth)?;
                names
            }
            Delegation::Handoff { names } => names,
        };
        match &self.allowed_handoffs {
            Some(allowed) if allowed.is_empty() => Err(DelegationDenied::Handoffs),
            Some(allowed) if !allowed.iter().any(|allowed| names.contains(&allowed.as_str())) => {
                Err(DelegationDenied::Recipient(allowed.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Whether a subagent of this depth may work.
    pub const fn check_depth(&self, depth: u32) -> Result<(), DelegationDenied> {
        if !self.can_spawn_subagents {
            return Err(DelegationDenied::Subagents);
        }
        if depth > self.max_depth { Err(DelegationDenied::Depth { max: self.max_depth }) } else { Ok(()) }
    }

    /// Whether the agent may ever start the subagent of this name.
    pub fn offers(&self, name: &str) -> bool {
        self.check_delegation(Delegation::Subagent { names: &[name], depth: 1 }).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(can_spawn_subagents: bool, handoffs: Option<&[&str]>, max_depth: u32) -> DelegationPolicy {
        let allowed_handoffs = handoffs.map(|names| names.iter().map(ToString::to_string).collect());
        DelegationPolicy { can_spawn_subagents, allowed_handoffs, max_depth }
    }

    #[test]
    fn every_violation_of_a_delegation_policy_is_named() {
        use DelegationViolation as V;
        let of = |policy: DelegationPolicy| policy.check();
        assert_eq!(of(policy(true, Some(&["a", "b"]), 1)), []);
        assert_eq!(of(policy(false, Some(&[]), 0)), []);
        assert_eq!(
            of(policy(true, Some(&[]), 0)),
            [("maxDepth".to_owned(), V::NoDepth), ("allowedHandoffs".to_owned(), V::Empty)]
        );
        let long = "x".repeat(201);
        let found = of(policy(true, Some(&["a", "", "a", "b\n", &long]), 11));
        let paths: Vec<_> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "maxDepth",
                "allowedHandoffs[1]",
                "allowedHandoffs[2]",
                "allowedHandoffs[3]",
                "allowedHandoffs[4]"
            ]
        );
        assert_eq!(found[2].1, V::Duplicate);
        let many: Vec<String> = (0..51).map(|n| format!("a{n}")).collect();
        let many = DelegationPolicy { allowed_handoffs: Some(many), ..policy(true, None, 1) };
        assert_eq!(many.check(), [("allowedHandoffs".to_owned(), V::TooMany { max: 50 })]);
    }

    #[test]
    fn policy_decides_by_kind_depth_and_recipient() {
        let child = |policy: &DelegationPolicy, name: &str, depth| {
            policy.check_delegation(Delegation::Subagent { names: &[name], depth })
        };
        let handoff = |policy: &DelegationPolicy, names: &[&str]| {
            policy.check_delegation(Delegation::Handoff { names })
        };
        let none = policy(false, None, 1);
        assert_eq!(child(&none, "a", 1), Err(DelegationDenied::Subagents));
        assert_eq!(handoff(&none, &["a"]), Ok(()), "a handoff is no subagent");
        let any = policy(true, None, 2);
        assert_eq!((child(&any, "a", 1), child(&any, "b", 2)), (Ok(()), Ok(())));
        assert_eq!(child(&any, "a", 3), Err(DelegationDenied::Depth { max: 2 }));
        let listed = policy(true, Some(&["reviewer", "id-7"]), 1);
        assert_eq!((child(&listed, "reviewer", 1), handoff(&listed, &["x", "id-7"])), (Ok(()), Ok(())));
        let only = Err(DelegationDenied::Recipient(vec!["reviewer".into(), "id-7".into()]));
        assert_eq!((child(&listed, "other", 1), handoff(&listed, &[])), (only.clone(), only));
        assert_eq!(handoff(&policy(false, Some(&[]), 0), &["a"]), Err(DelegationDenied::Handoffs));
        assert!(listed.offers("reviewer") && !listed.offers("other") && !none.offers("reviewer"));
    }
}
