//! Commands on the ticks of a project (S2, "Tick Service"; decision 67).

pub mod advance;
