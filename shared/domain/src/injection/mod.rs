//! Context injection: the knowledge of a project that its working agents receive (S2, "`ContextInjection` timing policy"; decision 89).
//!
//! | module | contents |
//! |---|---|
//! | `policy` | when an agent receives knowledge, with the defaults of the control modes |
//! | `ledger` | what an agent has received, what is under way, and when the next injection may follow |
//! | `content` | the text of an injection, and what the agent knows afterwards |
//!
//! How an injection reaches the agent is part of [`crate::conversation`].

mod content;
mod ledger;
mod policy;

pub use content::{Composed, InjectionKind, KnownItems, compose};
pub use ledger::{DeliveredInjection, InjectionLedger, InjectionSlot, SentInjection, Timing};
pub use policy::{
    ContextInjectionPolicy, InjectionPriority, InjectionReason, PolicyViolation, ReactiveEvent,
};
