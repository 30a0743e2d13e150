//! Embeddings of texts by an endpoint of the protocol of `OpenAI` (`POST {base}/embeddings`), and its settings from the environment.

use std::collections::BTreeSet;
use std::sync::Arc;

use pilothouse_domain::Usd;
use pilothouse_domain::coherence::Embedding;
use pilothouse_domain::text::ModelId;
use pilothouse_model_table::Tokens;
use serde::Deserialize;
use serde_json::json;

use super::client::{ModelError, body_of};
use super::settings::{InvalidModelSettings, wrong_address};
use super::{ModelKey, ModelRequest, ModelTransport};

/// The address of the endpoint. Without it, the built-in lexical engine compares texts.
const URL: &str = "PILOTHOUSE_EMBEDDINGS_URL";
const MODEL: &str = "PILOTHOUSE_EMBEDDINGS_MODEL";
const PRICE: &str = "PILOTHOUSE_EMBEDDINGS_PRICE";
/// The default of S2 `embeddingModel`.
const DEFAULT_MODEL: &str = "text-embedding-3-small";

/// The endpoint of an embedding model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingSettings {
    /// The address that `/embeddings` is appended to, such as `https://api.openai.com/v1`.
    pub url: String,
    /// The model, unless a project names another one.
    pub model: ModelId,
    /// US dollars for a million tokens of every model that is asked; `None`: the price in the table of models.
    pub price: Option<Usd>,
}

impl EmbeddingSettings {
    /// Reads the settings; `None` if the server has no embedding model.
    ///
    /// # Errors
    /// Every violation.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, InvalidModelSettings> {
        let text = |name: &str| {
            variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let Some(url) = text(URL) else { return Ok(None) };
        let model = ModelId::parse(text(MODEL).unwrap_or_else(|| DEFAULT_MODEL.to_owned()))
            .map_err(|error| format!("{MODEL} {error}"));
        let price = text(PRICE)
            .map(|text| text.parse::<Usd>())
            .transpose()
            .map_err(|error| format!("{PRICE} has the dollars for a million tokens, like `0.02`: {error}"));
        match (wrong_address(URL, &url), model, price) {
            (None, Ok(model), Ok(price)) => {
                Ok(Some(Self { url: url.trim_end_matches('/').to_owned(), model, price }))
            }
            (url, model, price) => {
                Err(InvalidModelSettings(url.into_iter().chain(model.err()).chain(price.err()).collect()))
            }
        }
    }
}

/// The response to a request for the vectors of texts.
#[derive(Debug)]
pub struct Embedded {
    /// In the order of the texts, all with the same dimensions. An error if the response has others: its tokens cost all the same.
    pub vectors: Result<Vec<Embedding>, ModelError>,
    /// The tokens of the texts, as the endpoint counts them.
    pub tokens: u64,
}

/// Clones share the connection.
#[derive(Clone)]
pub struct EmbeddingClient {
    settings: EmbeddingSettings,
    key: Option<ModelKey>,
    transport: Arc<dyn ModelTransport>,
}

impl EmbeddingClient {
    /// The most texts of a request. Their vectors fit in a response of [`super::MAX_RESPONSE_BYTES`].
    pub const MAX_TEXTS: usize = 32;

    pub fn new(
        settings: EmbeddingSettings,
        key: Option<ModelKey>,
        transport: Arc<dyn ModelTransport>,
    ) -> Self {
        Self { settings, key, transport }
    }

    pub const fn default_model(&self) -> &ModelId {
        &self.settings.model
    }

    /// The cost of tokens of `model`: at the configured price, or at its list price. `None` if neither is known.
    pub fn cost(&self, model: &ModelId, tokens: u64) -> Option<Usd> {
        let listed = || {
            let tokens = Tokens { input: tokens, ..Tokens::default() };
            Usd::new(pilothouse_model_table::price(model.as_str())?.of(tokens)).ok()
        };
        self.settings.price.map(|price| price.of_million(tokens)).or_else(listed)
    }

    /// Embeds at most [`Self::MAX_TEXTS`] texts with `model`.
    pub async fn embed(&self, model: &ModelId, texts: &[&str]) -> Result<Embedded, ModelError> {
        let mut headers = vec![("content-type", "application/json".to_owned())];
        headers.extend(self.key.as_ref().map(|key| ("authorization", format!("Bearer {}", key.0))));
        let body = json!({ "model": model, "input": texts });
        let url = format!("{}/embeddings", self.settings.url);
        let request = ModelRequest { url, headers, body: body.to_string() };
        let body = body_of(self.transport.post(&request).await?)?;
        Ok(Embedded { vectors: read_vectors(&body, texts.len()), tokens: read_tokens(&body) })
    }
}

/// One vector for each text is required.
fn read_vectors(body: &str, texts: usize) -> Result<Vec<Embedding>, ModelError> {
    #[derive(Deserialize)]
    struct Response {
        data: Vec<Entry>,
    }
    #[derive(Deserialize)]
    struct Entry {
        index: usize,
        embedding: Vec<f64>,
    }
    let Response { mut data } =
        serde_json::from_str(body).map_err(|error| ModelError::Protocol(error.to_string()))?;
    data.sort_by_key(|entry| entry.index);
    if !data.iter().map(|entry| entry.index).eq(0..texts) {
        return Err(ModelError::Protocol(format!("{} embeddings for {texts} texts", data.len())));
    }
    let dimensions: BTreeSet<usize> = data.iter().map(|entry| entry.embedding.len()).collect();
    if dimensions.len() > 1 {
        return Err(ModelError::Protocol("embeddings with different dimensions".to_owned()));
    }
    let vectors = data.iter().map(|entry| Embedding::new(&entry.embedding)).collect::<Result<_, _>>();
    vectors.map_err(|error| ModelError::Protocol(error.to_string()))
}

/// The tokens that a response counts, also one without valid vectors.
fn read_tokens(body: &str) -> u64 {
    #[derive(Deserialize)]
    struct Response {
        #[serde(default)]
        usage: Option<Usage>,
    }
    /// Some servers have only one of the numbers.
    #[derive(Default, Deserialize)]
    struct Usage {
        #[serde(default)]
        prompt_tokens: u64,
        #[serde(default)]
        total_tokens: u64,
    }
    let usage = serde_json::from_str::<Response>(body).ok().and_then(|response| response.usage);
    let Usage { prompt_tokens, total_tokens } = usage.unwrap_or_default();
    prompt_tokens.max(total_tokens)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<Option<EmbeddingSettings>, InvalidModelSettings> {
        EmbeddingSettings::read(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn address_of_embeddings_is_enough() {
        assert_eq!(settings(&[(MODEL, "nomic-embed-text"), (PRICE, "cheap")]), Ok(None));
        let read = settings(&[(URL, "https://models.example/v1/")]).unwrap().unwrap();
        assert_eq!((read.url.as_str(), read.model.as_str()), ("https://models.example/v1", DEFAULT_MODEL));
        assert_eq!(read.price, None);
        let priced = settings(&[(URL, "http://m"), (MODEL, "nomic-embed-text"), (PRICE, "0.02")]);
        let priced = priced.unwrap().unwrap();
        assert_eq!(
            (priced.model.as_str(), priced.price.unwrap().to_string()),
            ("nomic-embed-text", "0.02".to_owned())
        );
        let wrong = settings(&[(URL, "models"), (PRICE, "cheap")]).unwrap_err().to_string();
        assert!(wrong.contains(URL) && wrong.contains(PRICE), "{wrong}");
    }

    #[test]
    fn vectors_are_in_the_order_of_their_texts() {
        let body = json!({
            "data": [{ "index": 1, "embedding": [0.0, 1.0] }, { "index": 0, "embedding": [1.0, 0.0] }],
            "usage": { "prompt_tokens": 7, "total_tokens": 7 },
        });
        let body = body.to_string();
        assert_eq!(read_tokens(&body), 7);
        assert_eq!(read_vectors(&body, 2).unwrap()[0], Embedding::new(&[1.0, 0.0]).unwrap());
        let local = json!({ "data": [{ "index": 0, "embedding": [1] }] }).to_string();
        assert_eq!(read_vectors(&local, 1).unwrap().len(), 1);
        assert_eq!(read_tokens(&local), 0, "a server that counts nothing");
    }

    #[test]
    fn response_without_a_vector_for_each_text_is_refused() {
        let entry = |index: usize, embedding: &[f64]| json!({ "index": index, "embedding": embedding });
        for data in [
            json!([]),
            json!([entry(0, &[1.0])]),
            json!([entry(0, &[1.0]), entry(0, &[1.0])]),
            json!([entry(0, &[1.0]), entry(1, &[0.0])]),
            json!([entry(0, &[1.0]), entry(1, &[])]),
            json!([entry(0, &[1.0]), entry(1, &[1.0, 0.0])]),
            json!([entry(0, &[1.0]), { "index": 1, "embedding": [null] }]),
        ] {
            let body = json!({ "data": data, "usage": { "prompt_tokens": 7 } }).to_string();
            assert!(matches!(read_vectors(&body, 2), Err(ModelError::Protocol(_))), "{data}");
            assert_eq!(read_tokens(&body), 7, "{data}");
        }
        assert!(read_vectors("<html>", 1).is_err());
        assert_eq!(read_tokens("<html>"), 0);
    }

    #[test]
    fn longest_vectors_fit_in_a_response() {
        let vector = vec![-1.234_567_890_123_456_8e-300; Embedding::MAX_DIMENSIONS];
        let entry = json!({ "object": "embedding", "index": 10, "embedding": vector }).to_string();
        assert!(EmbeddingClient::MAX_TEXTS * (entry.len() + 1) < crate::models::MAX_RESPONSE_BYTES - 1000);
    }
}
