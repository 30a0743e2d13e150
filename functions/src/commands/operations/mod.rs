//! Commands for operators of the deployment.

pub mod redrive_dead_letters;
