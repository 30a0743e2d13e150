//! Artifacts in the agent API (S2, "Security boundaries"; decision 84).

pub mod prepare_upload;
pub mod put_content;
pub mod read;
pub mod report;
