//! Requests to the protocols of `OpenAI` and Anthropic, and their answers: one prompt, one answer in the format of a JSON Schema.

use std::sync::Arc;

use pilothouse_domain::Usd;
use pilothouse_domain::text::ModelId;
use pilothouse_model_table::Tokens;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    ModelKey, ModelPrice, ModelProtocol, ModelRequest, ModelResponse, ModelSettings, ModelTransport,
    NoResponse,
};

/// The version of Anthropic's protocol.
const ANTHROPIC_VERSION: &str = "2023-06-01";
/// The most tokens of an answer.
const MAX_OUTPUT_TOKENS: u32 = 4_000;
/// Characters of a response that an error quotes.
const QUOTED: usize = 300;

#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    pub instructions: String,
    pub input: String,
    /// The name of the answer: letters, digits and `_`.
    pub answer_name: &'static str,
    /// JSON Schema of the answer, an object.
    pub answer_schema: Value,
}

/// The text of an answer is JSON, unless the model ignores the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub text: String,
    pub tokens: TokenUse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenUse {
    pub input: u64,
    pub output: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error("the model gave no response")]
    NoResponse(#[from] NoResponse),
    #[error("the model refused the request with status {status}: {body}")]
    Refused { status: u16, body: String },
    #[error("the response of the model is not one of its protocol: {0}")]
    Protocol(String),
}

impl ModelError {
    /// Whether the same request will be refused again, because it or the key is wrong.
    pub const fn is_permanent(&self) -> bool {
        matches!(self, Self::Refused { status: 400..=407 | 409..=428 | 430..=499, .. })
    }

    /// Whether a part of the input may be the reason, and not the key, the model or the address.
    pub const fn may_concern_input(&self) -> bool {
        matches!(self, Self::Refused { status: 400 | 413 | 422, .. })
    }
}

/// Clones share the connection.
#[derive(Clone)]
pub struct ModelClient {
    settings: ModelSettings,
    key: Option<ModelKey>,
    transport: Arc<dyn ModelTransport>,
}

impl ModelClient {
    pub fn new(settings: ModelSettings, key: Option<ModelKey>, transport: Arc<dyn ModelTransport>) -> Self {
        Self { settings, key, transport }
    }

    pub const fn default_model(&self) -> &ModelId {
        &self.settings.model
    }

    /// The cost of tokens of `model`: at the configured price, at its list price, or, if the model is not in the table, at the prices
    /// that S2 uses in its estimates.
    pub fn cost(&self, model: &ModelId, tokens: TokenUse) -> Usd {
        let listed = || {
            let tokens = Tokens { input: tokens.input, output: tokens.output, ..Tokens::default() };
            Usd::new(pilothouse_model_table::price(model.as_str())?.of(tokens)).ok()
        };
        let of =
            |price: ModelPrice| price.input.of_million(tokens.input) + price.output.of_million(tokens.output);
        self.settings.price.map(of).or_else(listed).unwrap_or_else(|| of(ModelPrice::default()))
    }

    /// Sends a prompt to `model`.
    pub async fn ask(&self, model: &ModelId, prompt: &Prompt) -> Result<Answer, ModelError> {
        let request = match self.settings.protocol {
            ModelProtocol::OpenAi => self.chat_completion(model, prompt),
            ModelProtocol::Anthropic => self.message(model, prompt),
        };
        let body = body_of(self.transport.post(&request).await?)?;
        match self.settings.protocol {
            ModelProtocol::OpenAi => read_chat_completion(&body),
            ModelProtocol::Anthropic => read_message(&body),
        }
    }

    fn request(&self, path: &str, body: &Value) -> ModelRequest {
        let key = self.key.as_ref().map(|key| &key.0);
        let mut headers = vec![("content-type", "application/json".to_owned())];
        match self.settings.protocol {
            ModelProtocol::OpenAi => {
                headers.extend(key.map(|key| ("authorization", format!("Bearer {key}"))));
            }
            ModelProtocol::Anthropic => {
                headers.push(("anthropic-version", ANTHROPIC_VERSION.to_owned()));
                headers.extend(key.map(|key| ("x-api-key", key.clone())));
            }
        }
        ModelRequest { url: format!("{}{path}", self.settings.url), headers, body: body.to_string() }
    }

    fn chat_completion(&self, model: &ModelId, prompt: &Prompt) -> ModelRequest {
        let schema = json!({ "name": prompt.answer_name, "schema": prompt.answer_schema });
        let body = json!({
            "model": model,
            "max_completion_tokens": MAX_OUTPUT_TOKENS,
            "messages": [
                { "role": "system", "content": prompt.instructions },
                { "role": "user", "content": prompt.input },
            ],
            "response_format": { "type": "json_schema", "json_schema": schema },
        });
        self.request("/chat/completions", &body)
    }

    /// The answer is the input of a tool that the model has to call.
    fn message(&self, model: &ModelId, prompt: &Prompt) -> ModelRequest {
        let tool = json!({ "name": prompt.answer_name, "input_schema": prompt.answer_schema });
        let body = json!({
            "model": model,
            "max_tokens": MAX_OUTPUT_TOKENS,
            "system": prompt.instructions,
            "messages": [{ "role": "user", "content": prompt.input }],
            "tools": [tool],
            "tool_choice": { "type": "tool", "name": prompt.answer_name },
        });
        self.request("/v1/messages", &body)
    }
}

/// The body of a response that is a success.
pub(super) fn body_of(response: ModelResponse) -> Result<String, ModelError> {
    let ModelResponse { status, body } = response;
    if (200..300).contains(&status) {
        Ok(body)
    } else {
        Err(ModelError::Refused { status, body: body.chars().take(QUOTED).collect() })
    }
}

fn protocol(error: &serde_json::Error) -> ModelError {
    ModelError::Protocol(error.to_string())
}

fn read_chat_completion(body: &str) -> Result<Answer, ModelError> {
    #[derive(Deserialize)]
    struct Completion {
        choices: Vec<Choice>,
        #[serde(default)]
        usage: Usage,
    }
    #[derive(Deserialize)]
    struct Choice {
        message: Message,
    }
    #[derive(Deserialize)]
    struct Message {
        /// Absent if the model refuses to answer.
        #[serde(default)]
        content: Option<String>,
    }
    #[derive(Default, Deserialize)]
    struct Usage {
        prompt_tokens: u64,
        completion_tokens: u64,
    }
    let Completion { choices, usage } = serde_json::from_str(body).map_err(|error| protocol(&error))?;
    let text = choices.into_iter().next().and_then(|choice| choice.message.content).unwrap_or_default();
    Ok(Answer { text, tokens: TokenUse { input: usage.prompt_tokens, output: usage.completion_tokens } })
}

fn read_message(body: &str) -> Result<Answer, ModelError> {
    #[derive(Deserialize)]
    struct Message {
        content: Vec<Block>,
        #[serde(default)]
        usage: Usage,
    }
    #[derive(Deserialize)]
    #[serde(tag = "type", rename_all = "snake_case")]
    enum Block {
        ToolUse {
            input: Value,
        },
        Text {
            text: String,
        },
        #[serde(other)]
        Other,
    }
    #[derive(Default, Deserialize)]
    struct Usage {
        input_tokens: u64,
        output_tokens: u64,
    }
    let Message { content, usage } = serde_json::from_str(body).map_err(|error| protocol(&error))?;
    let of_tool = content.iter().find_map(|block| match block {
        Block::ToolUse { input } => Some(input.to_string()),
        Block::Text { .. } | Block::Other => None,
    });
    let of_text = || {
        content.iter().find_map(|block| match block {
            Block::Text { text } => Some(text.clone()),
            Block::ToolUse { .. } | Block::Other => None,
        })
    };
    let text = of_tool.or_else(of_text).unwrap_or_default();
    Ok(Answer { text, tokens: TokenUse { input: usage.input_tokens, output: usage.output_tokens } })
}
