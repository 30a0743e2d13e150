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
    /// A byte for each dimension. Empty for a text that the model refuses.
    base64: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_refused: bool,
}

/// What a model made of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextEmbedding {
    Vector(Embedding),
    /// The model refuses the text. It is asked again when the record has expired.
    Refused,
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
        let stored = StoredEmbedding { base64: BASE64.encode(embedding.bytes()), is_refused: false };
        self.stored_embedding(project, (model, text), &stored, now)
    }

    /// Adds that `model` refuses a text.
    pub fn refused_text(
        &mut self,
        project: ProjectId,
        (model, text): (&ModelId, &str),
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let stored = StoredEmbedding { base64: String::new(), is_refused: true };
        self.stored_embedding(project, (model, text), &stored, now)
    }

    fn stored_embedding(
        &mut self,
        project: ProjectId,
        (model, text): (&ModelId, &str),
        stored: &StoredEmbedding,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut row = write(layout::embedding(project, model, text), "embedding", stored)?;
        self.retain(&mut row, now);
        self.push(Write::Put(row, Condition::Always), Purpose::Record);
        Ok(())
    }
}

impl Store {
    /// What `model` made of a text; `None` if it has to be embedded.
    pub async fn embedding(
        &self,
        project: ProjectId,
        model: &ModelId,
        text: &str,
    ) -> Result<Option<TextEmbedding>, StoreError> {
        let stored = self.load::<StoredEmbedding>(&layout::embedding(project, model, text)).await?;
        let Some(stored) = stored.map(|stored| stored.value) else { return Ok(None) };
        if stored.is_refused {
            return Ok(Some(TextEmbedding::Refused));
        }
        let bytes = BASE64.decode(stored.base64).ok();
        Ok(bytes.and_then(|bytes| Embedding::of_bytes(&bytes).ok()).map(TextEmbedding::Vector))
    }
}
