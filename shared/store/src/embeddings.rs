//! Vectors of texts, by model and content: a text is embedded once (decision 88). They expire with the records of agents, so that those
//! of earlier versions go away.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use pilothouse_domain::coherence::Embedding;
use pilothouse_domain::text::ModelId;
use pilothouse_domain::{ProjectId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::commit::{Commit, Purpose};
use crate::error::StoreError;
use crate::layout;
use crate::repository::{Store, write};
use crate::table::{Condition, Write};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredEmbedding {
    /// A byte for each dimension.
    base64: String,
}

impl Commit {
    /// Adds the vector that `model` made of a text.
    pub fn embedding(
        &mut self,
        project: ProjectId,
        (model, text): (&ModelId, &str),
        embedding: &Embedding,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let stored = StoredEmbedding { base64: BASE64.encode(embedding.bytes()) };
        let mut row = write(layout::embedding(project, model, text), "embedding", &stored)?;
        self.retain(&mut row, now);
        self.push(Write::Put(row, Condition::Always), Purpose::Record);
        Ok(())
    }
}

impl Store {
    /// The vector that `model` made of a text; `None` if it has to be embedded.
    pub async fn embedding(
        &self,
        project: ProjectId,
        model: &ModelId,
        text: &str,
    ) -> Result<Option<Embedding>, StoreError> {
        let stored = self.load::<StoredEmbedding>(&layout::embedding(project, model, text)).await?;
        let bytes = stored.and_then(|stored| BASE64.decode(stored.value.base64).ok());
        Ok(bytes.and_then(|bytes| Embedding::of_bytes(&bytes).ok()))
    }
}
