//! Images in requests.

use deserr::Deserr;
use pilothouse_domain::value::ImageType;
use schemars::JsonSchema;

use super::Violations;

/// An image of a message or of an objective. All images of a request together have at most 4 MB.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageInput {
    /// The media type, which must be that of the bytes.
    pub media_type: ImageType,
    /// The bytes in base64.
    pub base64: String,
}
