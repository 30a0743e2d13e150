//! Events of artifacts.

use super::version::ArtifactAuthor;
use crate::ProjectId;
use crate::event::aggregate_events;
use crate::text::{Feedback, WorkstreamId};
use crate::value::ContentHash;

aggregate_events! {
    pub enum ArtifactEvent {
        /// A version was stored; version 1 creates the artifact.
        Reported = "ArtifactReportedEvent" {
            project_id: ProjectId,
            workstream: WorkstreamId,
            version: u32,
            content_hash: ContentHash,
            author: ArtifactAuthor,
        },
        /// A person approved a version, which `author` wrote.
        Approved = "ArtifactApprovedEvent" { project_id: ProjectId, version: u32, author: ArtifactAuthor },
        Rejected = "ArtifactRejectedEvent" {
            project_id: ProjectId,
            version: u32,
            author: ArtifactAuthor,
            reason: Feedback,
        },
    }
}
