//! The body of an upload.

use axum::extract::{FromRequest, Request};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use deserr::Deserr;
use pilothouse_api::Violation;
use pilothouse_api::input::{FieldError, Violations, distinct_ids};
use pilothouse_app::http::Problem;
use pilothouse_app::http::body;
use pilothouse_domain::artifact::{Artifact, ArtifactKind, ArtifactPath, ContentSize, MimeType};
use pilothouse_domain::text::{ArtifactName, Tags, WorkstreamId};
use pilothouse_domain::value::ContentHash;
use pilothouse_domain::{ArtifactId, ProjectId, ToolCallId};
use pilothouse_wire::keys::sha256_hex;
use schemars::JsonSchema;
use tokio::sync::OnceCell;

use crate::large_body::LargeBody;

/// Most bytes of a body: a content of 4 MB in base64, and the description.
const MAX_BODY_BYTES: usize = 5_700_000;

/// A version of an artifact with its content (S2 `ArtifactUpload`).
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UploadArtifact {
    /// The project. Agents, and owners with one project, may leave it out.
    #[deserr(default)]
    pub project_id: Option<ProjectId>,
    /// The artifact that this is a version of. Either this or `path` is required.
    #[deserr(default)]
    pub artifact_id: Option<ArtifactId>,
    /// The path of the caller's own artifact, relative to the project. It is created if there is none.
    #[deserr(default)]
    pub path: Option<ArtifactPath>,
    /// The name. Default: the last part of the path, or the name that the artifact has.
    #[deserr(default)]
    pub name: Option<ArtifactName>,
    /// The kind of result.
    pub kind: ArtifactKind,
    /// The workstream that owns it. Default: that of the artifact or of the agent.
    #[deserr(default)]
    pub workstream: Option<WorkstreamId>,
    /// Tags for searching: at most 20. Default: none.
    #[deserr(default)]
    pub tags: Option<Tags>,
    /// The media type. Default: `text/plain` for a text, `application/octet-stream` otherwise.
    #[deserr(default)]
    pub mime_type: Option<MimeType>,
    /// The file that it is a copy of, relative to the project.
    #[deserr(default)]
    pub source_path: Option<ArtifactPath>,
    /// The artifacts that it was derived from: at most 50. Default: none.
    #[deserr(default, try_from(Option<Vec<String>>) = sources -> FieldError)]
    #[schemars(with = "Option<Vec<ArtifactId>>")]
    pub source_artifact_ids: Vec<ArtifactId>,
    /// The version that the caller has read. Required if somebody else has written the latest one; 0 for a new artifact.
    #[deserr(default)]
    pub expected_version: Option<u32>,
    /// The tool call that reports it.
    #[deserr(default)]
    pub tool_call_id: Option<ToolCallId>,
    /// The content as text: at most 4 MB.
    #[deserr(default)]
    pub text: Option<String>,
    /// The content in base64: at most 4 MB.
    #[deserr(default)]
    pub base64: Option<String>,
    /// The SHA-256 of the content. Without `text` and `base64`, it is required and names a content that was uploaded before.
    #[deserr(default)]
    pub content_hash: Option<ContentHash>,
    /// The size of the content in bytes. Required with `contentHash` alone.
    #[deserr(default)]
    pub size_bytes: Option<ContentSize>,
}

fn sources(texts: Option<Vec<String>>) -> Result<Vec<ArtifactId>, FieldError> {
    let ids = distinct_ids(texts.unwrap_or_default())?;
    if ids.len() > Artifact::MAX_SOURCES {
        return Err(FieldError(format!("must have at most {} entries", Artifact::MAX_SOURCES)));
    }
    Ok(ids)
}

/// The artifact to which an upload adds a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Artifact(ArtifactId),
    /// The caller's own artifact at this path.
    Path(ArtifactPath),
}

/// The content of an upload.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    Inline {
        bytes: Bytes,
        hash: ContentHash,
        is_text: bool,
    },
    /// A content that was uploaded before.
    Uploaded {
        hash: ContentHash,
        size: ContentSize,
    },
}

impl Content {
    pub(crate) const fn hash(&self) -> &ContentHash {
        match self {
            Self::Inline { hash, .. } | Self::Uploaded { hash, .. } => hash,
        }
    }
}

/// A checked upload: it has one target and one content.
pub(crate) struct Upload {
    pub(crate) input: UploadArtifact,
    pub(crate) target: Target,
    pub(crate) content: Content,
    /// Set when an inline content is stored, so that a retry after a lost race does not store it again.
    pub(crate) is_stored: OnceCell<()>,
    /// SHA-256 of the body, for `Idempotency-Key`.
    pub(crate) body_hash: String,
}

impl UploadArtifact {
    fn target(&self) -> Result<Target, Violation> {
        match (self.artifact_id, &self.path) {
            (Some(id), None) => Ok(Target::Artifact(id)),
            (None, Some(path)) => Ok(Target::Path(path.clone())),
            (None, None) => Err(violation("path", "is missing; send it, or `artifactId`")),
            (Some(_), Some(_)) => Err(violation("path", "cannot be sent together with `artifactId`")),
        }
    }

    fn content(&mut self) -> Result<Content, Violation> {
        let (bytes, is_text) = match (self.text.take(), self.base64.take()) {
            (Some(text), None) => (Bytes::from(text), true),
            (None, Some(text)) => {
                let bytes = STANDARD.decode(&text).map_err(|_| violation("base64", "is not base64"))?;
                let is_text = std::str::from_utf8(&bytes).is_ok();
                (Bytes::from(bytes), is_text)
            }
            (Some(_), Some(_)) => {
                return Err(violation("base64", "cannot be sent together with `text`"));
            }
            (None, None) => {
                let hash = self.content_hash.clone();
                let hash =
                    hash.ok_or_else(|| violation("text", "is missing; send it, `base64` or `contentHash`"))?;
                let size = self.size_bytes.ok_or_else(|| violation("sizeBytes", "is missing"))?;
                return Ok(Content::Uploaded { hash, size });
            }
        };
        let length = bytes.len() as u64;
        if length > ContentSize::MAX_INLINE {
            let most = ContentSize::MAX_INLINE;
            let message =
                format!("has {length} bytes; request an address for a content of more than {most} bytes");
            return Err(violation(if is_text { "text" } else { "base64" }, &message));
        }
        if self.size_bytes.is_some_and(|size| size.bytes() != length) {
            return Err(violation("sizeBytes", &format!("is not the size of the content, {length}")));
        }
        let hash = ContentHash::parse(sha256_hex(&bytes));
        let hash = hash.map_err(|wrong| violation("contentHash", &wrong.to_string()))?;
        if self.content_hash.as_ref().is_some_and(|given| *given != hash) {
            return Err(violation("contentHash", "is not the SHA-256 of the content"));
        }
        Ok(Content::Inline { bytes, hash, is_text })
    }
}

fn violation(field: &str, message: &str) -> Violation {
    Violation { field: field.to_owned(), message: message.to_owned() }
}

impl<S: Send + Sync> FromRequest<S> for Upload {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let read = LargeBody::read(request.into_body(), MAX_BODY_BYTES).await?;
        let mut input: UploadArtifact = body::read(&read.bytes)?;
        let body_hash = sha256_hex(&read.bytes);
        match (input.target(), input.content()) {
            (Ok(target), Ok(content)) => {
                Ok(Self { input, target, content, is_stored: OnceCell::new(), body_hash })
            }
            (target, content) => {
                Err(Problem::Invalid(target.err().into_iter().chain(content.err()).collect()))
            }
        }
    }
}
