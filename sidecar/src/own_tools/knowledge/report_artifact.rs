//! `report_artifact`: the agent stores a result of its work in the project (S2 `ArtifactEvent`).

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pilothouse_agent::model::ToolSpec;
use pilothouse_agent::tool::{Tool, ToolContext, ToolOutput};
use pilothouse_domain::ArtifactId;
use pilothouse_domain::artifact::{ArtifactKind, ArtifactPath, ContentSize};
use pilothouse_wire::keys::sha256_hex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::workspace;
use crate::agent_api::AgentApi;
use crate::own_tools::arguments;
use crate::process::in_process::AgentThread;
use crate::unreported::ReportedFiles;

const NAME: &str = "report_artifact";

const DESCRIPTION: &str = "Stores a result of your work in the project, where people review it and other agents can read it: a file of \
the working directory, or a text. Report the same path again when it has changed; that makes a new version.";

/// Most bytes of a text in JSON: those of a content of 4 MB in base64, which a request can have.
const MAX_ESCAPED: u64 = ContentSize::MAX_INLINE.div_ceil(3) * 4;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// The path of the file, relative to the working directory. With `text`, any path that names the result.
    path: ArtifactPath,
    /// What kind of result it is.
    kind: ArtifactKind,
    /// The content, if it is not in a file.
    #[serde(default)]
    text: Option<String>,
    /// The name for people. Default: the name of the file.
    #[serde(default)]
    name: Option<String>,
    /// The media type, such as `text/markdown`.
    #[serde(default)]
    mime_type: Option<String>,
    /// Tags for searching.
    #[serde(default)]
    tags: Option<Vec<String>>,
    /// The ids of the artifacts that it was derived from.
    #[serde(default)]
    source_artifact_ids: Option<Vec<ArtifactId>>,
    /// Another agent's artifact of your workstream that this is a version of.
    #[serde(default)]
    artifact_id: Option<ArtifactId>,
    /// The version that you have read, if somebody else has written it.
    #[serde(default)]
    expected_version: Option<u32>,
}

impl Arguments {
    /// The request without its content.
    fn description(&self, call: &str) -> Map<String, Value> {
        let fields = [
            ("kind", json!(self.kind)),
            ("name", json!(self.name)),
            ("mimeType", json!(self.mime_type)),
            ("tags", json!(self.tags)),
            ("sourceArtifactIds", json!(self.source_artifact_ids)),
            ("artifactId", json!(self.artifact_id)),
            ("expectedVersion", json!(self.expected_version)),
            ("path", json!(self.artifact_id.is_none().then_some(&self.path))),
            ("sourcePath", json!(self.text.is_none().then_some(&self.path))),
            ("toolCallId", json!(call)),
        ];
        fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

pub(super) struct ReportArtifactTool {
    spec: ToolSpec,
    api: AgentApi,
    /// Reads files, if the agent's rights are not the sidecar's.
    thread: Option<AgentThread>,
    working_directory: PathBuf,
    reported: ReportedFiles,
}

impl ReportArtifactTool {
    pub(super) fn new(
        api: AgentApi,
        thread: Option<AgentThread>,
        working_directory: &Path,
        reported: ReportedFiles,
    ) -> Self {
        let spec = arguments::spec::<Arguments>(NAME, DESCRIPTION);
        Self { spec, api, thread, working_directory: working_directory.to_owned(), reported }
    }

    async fn content(&self, arguments: &Arguments) -> Result<Vec<u8>, ToolOutput> {
        if let Some(text) = &arguments.text {
            return Ok(text.clone().into_bytes());
        }
        let read = workspace::read(self.thread.as_ref(), &self.working_directory, &arguments.path).await;
        read.map_err(|error| ToolOutput::error(format!("It was not stored: {error}.")))
    }
}

/// The field of the request that has a small content, and its value. Base64 has a length that is known, and texts with many characters to
/// escape do not fit otherwise.
fn inline(bytes: Vec<u8>, redacted: impl FnOnce(String) -> String) -> (&'static str, Value) {
    let text = match String::from_utf8(bytes) {
        Ok(text) => redacted(text),
        Err(binary) => return ("base64", json!(STANDARD.encode(binary.as_bytes()))),
    };
    let escaped = json!(text);
    if escaped.to_string().len() as u64 <= MAX_ESCAPED {
        return ("text", escaped);
    }
    ("base64", json!(STANDARD.encode(text)))
}

#[async_trait]
impl Tool for ReportArtifactTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, context: ToolContext) -> ToolOutput {
        let arguments: Arguments = match arguments::read(arguments) {
            Ok(arguments) => arguments,
            Err(wrong) => return wrong,
        };
        let bytes = match self.content(&arguments).await {
            Ok(bytes) => bytes,
            Err(refused) => return refused,
        };
        let mut body = arguments.description(&context.tool_call_id);
        let artifacts = format!("sessions/{}/artifacts", self.api.session());
        let (size, hash) = (bytes.len() as u64, sha256_hex(&bytes));
        if size > ContentSize::MAX_INLINE {
            let identity = json!({ "contentHash": hash, "sizeBytes": size });
            if let Err(refused) = self.api.upload(&format!("{artifacts}/uploads"), &identity, bytes).await {
                return refused;
            }
            body.extend(identity.as_object().cloned().unwrap_or_default());
        } else {
            let (field, value) = inline(bytes, |text| self.api.redacted(text));
            body.insert(field.to_owned(), value);
        }
        let stored = |response: &Value| {
            self.reported.record(&arguments.path, size, hash);
            response.to_string()
        };
        self.api.post(&artifacts, &Value::Object(body), stored).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_with_many_characters_to_escape_is_sent_in_base64() {
        let most = usize::try_from(ContentSize::MAX_INLINE).unwrap();
        let none = |text: String| text;
        assert_eq!(inline("a\"b".into(), none), ("text", json!("a\"b")));
        assert_eq!(inline(vec![0xff], none), ("base64", json!("/w==")));
        let (field, content) = inline("\n".repeat(most).into_bytes(), none);
        assert_eq!((field, content.as_str().unwrap().len() as u64), ("base64", MAX_ESCAPED));
        assert_eq!(
            inline(b"key".to_vec(), |_| "\"".repeat(most)).1,
            json!(STANDARD.encode("\"".repeat(most)))
        );
    }
}
