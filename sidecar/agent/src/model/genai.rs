//! The port over the crate `genai`.

use std::sync::Arc;

use async_trait::async_trait;

use super::registry::ModelRegistry;
use super::{LanguageModel, ModelError, ModelRequest, ModelStream};

/// Speaks to the providers of a registry. Building one does nothing yet: the client is made with the first request.
pub struct GenaiModel {
    registry: Arc<ModelRegistry>,
}

impl GenaiModel {
    /// For these providers.
    pub const fn new(registry: Arc<ModelRegistry>) -> Self {
        Self { registry }
    }
}

#[async_trait]
#[allow(clippy::todo)]
impl LanguageModel for GenaiModel {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let _ = (&self.registry, request);
        todo!()
    }
}
