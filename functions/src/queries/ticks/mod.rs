//! Ticks of projects (S2, "Tick Service"; decision 67).

pub mod get;
