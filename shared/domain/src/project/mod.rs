//! Agents of a project (S2). What the trust and escalation engines need is in [`crate::control_mode`], [`crate::tick`],
//! [`crate::trust`], [`crate::escalation`] and [`crate::decision`].

mod agent_status;

pub use agent_status::AgentStatus;
