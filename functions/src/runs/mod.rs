//! Runs, as what runs them tells of them.

pub mod task_stopped;
