//! Names of variants in texts and stored data.
//!
//! They are written out, because the output of `Debug` changes when a variant is renamed. Stored hashes and cursors contain them.

/// Gives an enum without fields the names that `Display` shows.
macro_rules! named {
    ($name:ident { $($variant:ident => $text:literal,)+ }) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(match self {
                    $(Self::$variant => $text,)+
                })
            }
        }

        #[cfg(test)]
        impl $crate::names::Named for $name {
            const NAMED: &'static [(Self, &'static str)] = &[$((Self::$variant, $text),)+];
        }
    };
}
pub(crate) use named;

/// What tests compare.
#[cfg(test)]
pub(crate) trait Named: Sized + 'static {
    /// Each variant with its name.
    const NAMED: &'static [(Self, &'static str)];
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::Named;

    /// The name of a variant is that of its JSON, so that a text and a stored value say the same.
    fn is_that_of_json<T: Named + Serialize + std::fmt::Display>() {
        for (variant, name) in T::NAMED {
            assert_eq!(serde_json::to_value(variant).unwrap(), *name);
            assert_eq!(variant.to_string(), *name);
        }
    }

    #[test]
    fn names_are_those_of_json() {
        is_that_of_json::<crate::agent_api::AgentTaskPriority>();
        is_that_of_json::<crate::agent_api::LearningKind>();
        is_that_of_json::<crate::chain::SessionChainStatus>();
        is_that_of_json::<crate::session::AgentSessionStatus>();
        is_that_of_json::<crate::session::LifecycleCommand>();
        is_that_of_json::<crate::session::RunCause>();
        is_that_of_json::<crate::skill::MemoryPillCategory>();
        is_that_of_json::<crate::skill::MemoryPillStatus>();
        is_that_of_json::<crate::value::ActivityItemType>();
        is_that_of_json::<crate::value::FailureReason>();
        is_that_of_json::<crate::value::MessagePriority>();
        is_that_of_json::<crate::value::MessageSource>();
        is_that_of_json::<crate::value::ValidationType>();
    }
}
