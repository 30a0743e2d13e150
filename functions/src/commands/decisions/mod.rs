//! Commands of the inbox (S2; decision 73).

pub mod resolve;
