//! Commands on emergency brakes (S2 "Emergency Brake", decision 72).

pub mod pull;
pub mod release;
