//! The list of files that an agent did not report as artifacts (decision 96), as far as it still holds.

use pilothouse_domain::AgentSession;
use pilothouse_domain::artifact::{
    Artifact, ArtifactSummary, UnreportedFile, UnreportedFiles, VersionRecord,
};
use pilothouse_domain::journal::{Cause, JournalEntry};
use serde_json::Value;

use crate::App;
use crate::problem::Problem;

/// The artifacts that changed last, which are compared with a list.
const ARTIFACTS: usize = 200;

impl App {
    /// The entry with the latest list of a session among `entries`. `None` if a later one has withdrawn it, or if artifacts have all of its
    /// files by now.
    pub(super) async fn unreported_files<'a>(
        &self,
        session: &AgentSession,
        entries: &[&'a JournalEntry],
    ) -> Result<Option<&'a JournalEntry>, Problem> {
        let last = entries.iter().rev().find_map(|entry| Some((*entry, detail(entry)?)));
        let Some((entry, detail)) = last else { return Ok(None) };
        // A list whose content is elsewhere, because it is large, holds.
        let Ok(unreported) = serde_json::from_value::<UnreportedFiles>(detail.clone()) else {
            return Ok(Some(entry));
        };
        let is_over = unreported.withdrawal().is_some() || self.are_saved(session, &unreported).await?;
        Ok((!is_over).then_some(entry))
    }

    /// Whether artifacts have all files of a list.
    async fn are_saved(&self, session: &AgentSession, list: &UnreportedFiles) -> Result<bool, Problem> {
        let Some(membership) = session.project() else { return Ok(false) };
        if !list.complete || list.total > list.files.len() {
            return Ok(false);
        }
        let listing =
            self.store.artifacts(session.owner_id(), membership.project_id, ARTIFACTS, None).await?;
        for file in &list.files {
            let mut is_saved = false;
            for copy in listing.items.iter().filter(|artifact| may_have(artifact, file)) {
                let part = VersionRecord::id(copy.version);
                let record = self
                    .store
                    .archived_part::<Artifact, VersionRecord>(copy.id, VersionRecord::GROUP, &part)
                    .await?;
                if record.is_some_and(|record| record.version.stored_at >= file.changed_at) {
                    is_saved = true;
                    break;
                }
            }
            if !is_saved {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether the latest version of an artifact may have the content of a file. A list has no hashes.
fn may_have(artifact: &ArtifactSummary, file: &UnreportedFile) -> bool {
    artifact.path.as_str() == file.path
        && artifact.content.size_bytes.bytes() == file.size_bytes
        && artifact.updated_at >= file.changed_at
}

/// The content of a notice with a list, or `null`. The list changes nothing in the session, so no event of the domain has it.
fn detail(entry: &JournalEntry) -> Option<&Value> {
    let Cause::Agent { body, .. } = &entry.cause else { return None };
    let is_list = body["type"] == "notice" && body["name"] == "unreported_files";
    is_list.then(|| &body["detail"])
}
