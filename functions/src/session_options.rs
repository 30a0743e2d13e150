//! The options of a session as fields of requests, with their descriptions and limits.

use pilothouse_api::input::FieldError;
use pilothouse_api::patch::Patch;

use crate::fields::{idle_time, percent, present, retries, timeout};

/// Declares the input of a request for a new session or template, whose fields include the options of a session. `Deserr` cannot
/// flatten a struct.
///
/// Each group of [`struct_with_option_groups`] expands to optional fields. The function `session_options` of the input collects
/// them. The file imports the types `AnswerText`, `ContextPolicy`, `FieldError` and `SessionOptions`.
macro_rules! input_with_session_options {
    ($(#[$meta:meta])* pub struct $name:ident { $($fields:tt)* }) => {
        $crate::session_options::struct_with_option_groups! { [$(#[$meta])* pub struct $name] {} $($fields)* }

        impl $name {
            fn session_options(&self) -> SessionOptions {
                SessionOptions {
                    plan_approval_required: self.plan_approval_required,
                    request_timeout_seconds: self.request_timeout_seconds,
                    default_answer: self.default_answer.clone(),
                    context_warn_at_percent: self.context_warn_at_percent,
                    context_policy: self.context_policy,
                    idle_timeout_seconds: self.idle_timeout_seconds,
                    paused_timeout_seconds: self.paused_timeout_seconds,
                    max_retries: self.max_retries,
                }
            }
        }
    };
}
pub(crate) use input_with_session_options;

/// Declares the input of an update whose fields include changes to the options of a session.
///
/// Groups of [`struct_with_option_groups`] whose names end with `_changes` expand to the fields. The function `session_options` of
/// the input applies them to earlier options. The file imports the same types, and `Patch`.
macro_rules! input_with_session_option_changes {
    ($(#[$meta:meta])* pub struct $name:ident { $($fields:tt)* }) => {
        $crate::session_options::struct_with_option_groups! { [$(#[$meta])* pub struct $name] {} $($fields)* }

        impl $name {
            fn session_options(&self, before: &SessionOptions) -> SessionOptions {
                SessionOptions {
                    plan_approval_required: self.plan_approval_required.or(before.plan_approval_required),
                    request_timeout_seconds: self.request_timeout_seconds.apply_to(&before.request_timeout_seconds),
                    default_answer: self.default_answer.apply_to(&before.default_answer),
                    context_warn_at_percent: self.context_warn_at_percent.apply_to(&before.context_warn_at_percent),
                    context_policy: self.context_policy.apply_to(&before.context_policy),
                    idle_timeout_seconds: self.idle_timeout_seconds.apply_to(&before.idle_timeout_seconds),
                    paused_timeout_seconds: self.paused_timeout_seconds.apply_to(&before.paused_timeout_seconds),
                    max_retries: self.max_retries.apply_to(&before.max_retries),
                }
            }
        }
    };
}
pub(crate) use input_with_session_option_changes;

/// Declares a struct and replaces each group of options, for example `..request_options`, with its fields. The order of the
/// fields is the order in which an error message lists them.
macro_rules! struct_with_option_groups {
    ([$($head:tt)*] { $($done:tt)* }) => {
        $($head)* { $($done)* }
    };
    ([$($head:tt)*] { $($done:tt)* } ..plan_approval, $($rest:tt)*) => {
        $crate::session_options::struct_with_option_groups! {
            [$($head)*]
            {
                $($done)*
                /// Whether the owner must approve a plan before the agent leaves plan mode. Default: `true`.
                #[deserr(default)]
                pub plan_approval_required: Option<bool>,
            }
            $($rest)*
        }
    };
    ([$($head:tt)*] { $($done:tt)* } ..request_options, $($rest:tt)*) => {
        $crate::session_options::struct_with_option_groups! {
            [$($head)*]
            {
                $($done)*
                /// How long a question or a plan waits for the owner, in seconds. Default: 24 hours.
                #[deserr(default, try_from(Option<u64>) = crate::fields::timeout -> FieldError)]
                #[schemars(range(min = 1, max = 2_592_000))]
                pub request_timeout_seconds: Option<u64>,
                /// The answer to questions that the owner does not answer in time. Without it, the session fails.
                #[deserr(default)]
                pub default_answer: Option<AnswerText>,
                /// The fill level of the context window, in percent, at which a warning is raised. Default: 85.
                #[deserr(default, try_from(Option<u64>) = crate::fields::percent -> FieldError)]
                #[schemars(range(min = 1, max = 99))]
                pub context_warn_at_percent: Option<u8>,
            }
            $($rest)*
        }
    };
    ([$($head:tt)*] { $($done:tt)* } ..context_policy, $($rest:tt)*) => {
        $crate::session_options::struct_with_option_groups! {
            [$($head)*]
            {
                $($done)*
                /// The action when the context window fills up: `handoff` (the default) or `compact`.
                #[deserr(default)]
                pub context_policy: Option<ContextPolicy>,
            }
            $($rest)*
        }
    };
    ([$($head:tt)*] { $($done:tt)* } ..idle_timeouts, $($rest:tt)*) => {
        $crate::session_options::struct_with_option_groups! {
            [$($head)*]
            {
                $($done)*
                /// The idle time in seconds after which an idle or waiting session hibernates. 0 disables hibernation. Default: 15 minutes.
                #[deserr(default, try_from(Option<u64>) = crate::fields::idle_time -> FieldError)]
                pub idle_timeout_seconds: Option<u64>,
                /// The idle time in seconds after which a Paused session hibernates. 0 disables hibernation. Default: one hour.
                #[deserr(default, try_from(Option<u64>) = crate::fields::idle_time -> FieldError)]
                pub paused_timeout_seconds: Option<u64>,
            }
            $($rest)*
        }
    };
    ([$($head:tt)*] { $($done:tt)* } ..retries, $($rest:tt)*) => {
        $crate::session_options::struct_with_option_groups! {
            [$($head)*]
            {
                $($done)*
                /// How often a failed session can be retried. Default: 3.
                #[deserr(default, try_from(Option<u64>) = crate::fields::retries -> FieldError)]
                #[schemars(range(min = 0, max = 100))]
                pub max_retries: Option<u32>,
            }
            $($rest)*
        }
    };
    ([$($head:tt)*] { $($done:tt)* } ..plan_approval_changes, $($rest:tt)*) => {
        $crate::session_options::struct_with_option_groups! {
            [$($head)*]
            {
                $($done)*
                /// Whether the owner must approve a plan before the agent leaves plan mode.
                #[deserr(default)]
                pub plan_approval_required: Option<bool>,
            }
            $($rest)*
        }
    };
    ([$($head:tt)*] { $($done:tt)* } ..request_option_changes, $($rest:tt)*) => {
        $crate::session_options::struct_with_option_groups! {
            [$($head)*]
            {
                $($done)*
                /// How long a question or a plan waits for the owner, in seconds.
                #[deserr(default, try_from(Patch<u64>) = crate::session_options::patched_timeout -> FieldError)]
                pub request_timeout_seconds: Patch<u64>,
                /// The answer to questions that the owner does not answer in time. Without it, the session fails.
                #[deserr(default)]
                pub default_answer: Patch<AnswerText>,
                /// The fill level of the context window, in percent, at which a warning is raised.
                #[deserr(default, try_from(Patch<u64>) = crate::session_options::patched_percent -> FieldError)]
                pub context_warn_at_percent: Patch<u8>,
            }
            $($rest)*
        }
    };
    ([$($head:tt)*] { $($done:tt)* } ..context_policy_changes, $($rest:tt)*) => {
        $crate::session_options::struct_with_option_groups! {
            [$($head)*]
            {
                $($done)*
                /// The action when the context window fills up: `handoff` or `compact`.
                #[deserr(default)]
                pub context_policy: Patch<ContextPolicy>,
            }
            $($rest)*
        }
    };
    ([$($head:tt)*] { $($done:tt)* } ..idle_timeout_changes, $($rest:tt)*) => {
        $crate::session_options::struct_with_option_groups! {
            [$($head)*]
            {
                $($done)*
                /// The idle time in seconds after which an idle or waiting session hibernates. 0 disables hibernation.
                #[deserr(default, try_from(Patch<u64>) = crate::session_options::patched_idle_time -> FieldError)]
                pub idle_timeout_seconds: Patch<u64>,
                /// The idle time in seconds after which a Paused session hibernates. 0 disables hibernation.
                #[deserr(default, try_from(Patch<u64>) = crate::session_options::patched_idle_time -> FieldError)]
                pub paused_timeout_seconds: Patch<u64>,
            }
            $($rest)*
        }
    };
    ([$($head:tt)*] { $($done:tt)* } ..retry_changes, $($rest:tt)*) => {
        $crate::session_options::struct_with_option_groups! {
            [$($head)*]
            {
                $($done)*
                /// How often a failed session can be retried.
                #[deserr(default, try_from(Patch<u64>) = crate::session_options::patched_retries -> FieldError)]
                pub max_retries: Patch<u32>,
            }
            $($rest)*
        }
    };
    ([$($head:tt)*] { $($done:tt)* } $(#[$meta:meta])* pub $field:ident: $type:ty, $($rest:tt)*) => {
        $crate::session_options::struct_with_option_groups! {
            [$($head)*]
            { $($done)* $(#[$meta])* pub $field: $type, }
            $($rest)*
        }
    };
}
pub(crate) use struct_with_option_groups;

pub(crate) fn patched_timeout(patch: Patch<u64>) -> Result<Patch<u64>, FieldError> {
    patch.try_map(present(timeout))
}

pub(crate) fn patched_idle_time(patch: Patch<u64>) -> Result<Patch<u64>, FieldError> {
    patch.try_map(present(idle_time))
}

pub(crate) fn patched_retries(patch: Patch<u64>) -> Result<Patch<u32>, FieldError> {
    patch.try_map(present(retries))
}

pub(crate) fn patched_percent(patch: Patch<u64>) -> Result<Patch<u8>, FieldError> {
    patch.try_map(present(percent))
}
