//! Context injection: the knowledge of a project that its working agents receive (S2, "`ContextInjection` timing policy"; decision 89).
//!
//! | module | contents |
//! |---|---|
//! | `policy` | the conditions of an injection, with the defaults of the control modes |
//! | `ledger` | the injections of an agent, delivered and undelivered, and the time of the next one |
//! | `content` | the text of an injection, and the items that it contains |
//!
//! [`crate::conversation`] delivers it.

mod content;
mod ledger;
mod policy;

pub use content::{Composed, InjectionKind, KnownItems, compose};
pub use ledger::{DeliveredInjection, InjectionLedger, InjectionSlot, SentInjection, Timing};
pub use policy::{
    ContextInjectionPolicy, InjectionPriority, InjectionReason, PolicyViolation, ReactiveEvent,
};
