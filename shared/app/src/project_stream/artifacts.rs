//! Artifacts as events of the stream (S2 `ArtifactEvent`): versions that an agent stored, and those that a shim reports. The control plane
//! has the contents of the former only.

use pilothouse_api::project_stream::AgentEventContent as C;
use pilothouse_domain::artifact::{Artifact, ArtifactKind, ArtifactReport, ArtifactStatus, Provenance};
use pilothouse_domain::text::cut;
use pilothouse_domain::value::ProjectMembership;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Most characters of an id, a name, a path or an address that a shim reports.
const MAX_TEXT: usize = 500;

/// A version that the agent stored. It has no measure of quality.
pub(super) fn stored(report: &ArtifactReport) -> C {
    C::Artifact {
        artifact_id: report.artifact_id.to_string(),
        name: report.name.to_string(),
        kind: report.kind,
        workstream: report.workstream.clone(),
        status: report.status,
        quality_score: None,
        provenance: Box::new(report.provenance.clone()),
        uri: Some(report.uri.clone()),
        mime_type: Some(report.content.mime_type.to_string()),
        size_bytes: Some(report.content.size_bytes.bytes()),
        content_hash: Some(report.content.content_hash.to_string()),
    }
}

/// An artifact that a shim reported with these fields. `None` without an id or a name, because the fields of a large report are cut.
pub(super) fn reported(fields: &Value, of: &ProjectMembership) -> Option<C> {
    Some(C::Artifact {
        artifact_id: text(fields, "artifactId")?,
        name: text(fields, "name")?,
        kind: read(fields, "kind").unwrap_or(ArtifactKind::Other),
        // S2: the workstream of the agent, if the shim names none.
        workstream: read(fields, "workstream").unwrap_or_else(|| of.workstream.clone()),
        status: read(fields, "status").unwrap_or(ArtifactStatus::Draft),
        quality_score: read(fields, "qualityScore").filter(|score| (0.0..=1.0).contains(score)),
        provenance: Box::new(provenance(&fields["provenance"], of)),
        uri: text(fields, "uri"),
        mime_type: text(fields, "mimeType"),
        size_bytes: read(fields, "sizeBytes"),
        content_hash: text(fields, "contentHash"),
    })
}

/// A shim knows its agent by the id of the session; the agent of the project is named instead.
fn provenance(fields: &Value, of: &ProjectMembership) -> Provenance {
    let sources = fields["sourceArtifactIds"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Provenance {
        created_by: of.agent_id.to_string(),
        created_at: read(fields, "createdAt"),
        modified_by: text(fields, "modifiedBy").map(|_| of.agent_id.to_string()),
        modified_at: read(fields, "modifiedAt"),
        source_artifact_ids: sources.take(Artifact::MAX_SOURCES).map(|id| cut(id, MAX_TEXT)).collect(),
        source_path: text(fields, "sourcePath"),
    }
}

fn text(fields: &Value, name: &str) -> Option<String> {
    let text = fields.get(name)?.as_str().filter(|text| !text.trim().is_empty())?;
    Some(cut(text, MAX_TEXT))
}

fn read<T: DeserializeOwned>(fields: &Value, name: &str) -> Option<T> {
    serde_json::from_value(fields.get(name)?.clone()).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    const AGENT: &str = "01890a5d-ac96-774b-bcce-b302099a8058";

    fn event(fields: &Value) -> Option<Value> {
        let of = json!({ "projectId": AGENT, "agentId": AGENT, "workstream": "api" });
        let of: ProjectMembership = serde_json::from_value(of).unwrap();
        reported(fields, &of).map(|content| serde_json::to_value(content).unwrap())
    }

    #[test]
    fn artifact_of_a_shim_has_the_fields_of_the_specification() {
        let provenance = json!({
            "createdBy": "the-session", "createdAt": "2026-01-01T00:00:00Z", "modifiedBy": "the-session",
            "modifiedAt": "2026-01-02T00:00:00Z", "sourceArtifactIds": ["plan", 7], "sourcePath": "src/api.ts",
        });
        let fields = json!({
            "artifactId": "report", "name": "report.md", "kind": "document", "workstream": "docs",
            "status": "in_review", "qualityScore": 0.5, "provenance": provenance, "uri": "artifact://a/report",
            "mimeType": "text/markdown", "sizeBytes": 4, "contentHash": "abc", "agentId": "the-session",
        });
        let expected = json!({
            "type": "artifact", "artifactId": "report", "name": "report.md", "kind": "document",
            "workstream": "docs", "status": "in_review", "qualityScore": 0.5,
            "provenance": {
                "createdBy": AGENT, "createdAt": "2026-01-01T00:00:00.000Z", "modifiedBy": AGENT,
                "modifiedAt": "2026-01-02T00:00:00.000Z", "sourceArtifactIds": ["plan"],
                "sourcePath": "src/api.ts",
            },
            "uri": "artifact://a/report", "mimeType": "text/markdown", "sizeBytes": 4, "contentHash": "abc",
        });
        assert_eq!(event(&fields), Some(expected));
    }

    #[test]
    fn omitted_fields_of_a_shim_have_defaults() {
        let fields = json!({
            "artifactId": "report", "name": "report.md", "kind": "poem", "workstream": "", "qualityScore": 7,
            "uri": null,
        });
        let expected = json!({
            "type": "artifact", "artifactId": "report", "name": "report.md", "kind": "other",
            "workstream": "api", "status": "draft", "provenance": { "createdBy": AGENT },
        });
        assert_eq!(event(&fields), Some(expected));
        for incomplete in [json!({ "name": "n" }), json!({ "artifactId": " ", "name": "n" }), Value::Null] {
            assert_eq!(event(&incomplete), None, "{incomplete}");
        }
    }
}
