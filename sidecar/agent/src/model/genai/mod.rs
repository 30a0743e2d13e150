//! Implements the model port with the `genai` crate: Anthropic Messages, `OpenAI` Chat Completions and Responses, Gemini,
//! Vertex AI, Bedrock, and compatible servers.

mod connections;
mod failure;
mod frames;
mod layout;
mod reply;
mod request;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{Stream, StreamExt, stream};
use genai::chat::{ChatStream, ChatStreamEvent, ToolCall};
use pilothouse_domain::value::ThinkingLevel;

pub use self::connections::Connections;
use self::frames::Frames;
use self::request::Format;
use super::registry::{ModelRegistry, ProviderConfig};
use super::{Delta, LanguageModel, ModelError, ModelRequest, ModelStream};

/// Longest silence of a provider, before and during its reply.
const SILENCE: Duration = Duration::from_mins(5);

/// Calls the providers of a registry.
pub struct GenaiModel {
    registry: Arc<ModelRegistry>,
    connections: Connections,
}

impl GenaiModel {
    pub fn new(registry: Arc<ModelRegistry>) -> Self {
        Self::over(Connections::default(), registry)
    }

    pub const fn over(connections: Connections, registry: Arc<ModelRegistry>) -> Self {
        Self { registry, connections }
    }
}

#[async_trait]
impl LanguageModel for GenaiModel {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let provider = self
            .registry
            .provider(&request.provider)
            .cloned()
            .ok_or_else(|| failure::rejected(format!("unknown provider `{}`", request.provider)))?;
        let (known, name) = (self.registry.find(&request.provider, &request.model), &request.model);
        let model =
            known.cloned().or_else(|| self.registry.resolve(&format!("{}/{name}", provider.name)).ok());
        let level = model.map_or(ThinkingLevel::Off, |model| model.level(request.thinking));
        let target = request::target(&provider, &request.model)?;
        let frames = Arc::new(Frames::default());
        let options = request::options(&provider, &request, level, &frames);
        let (provider_name, model) = (request.provider.clone(), request.model.clone());
        let chat = request::chat(&provider, request);
        let client = self.connections.client().await?;
        let opened = client.exec_chat_stream(target, chat, Some(&options)).await;
        let response = opened.map_err(|error| failure::of(&error, &provider, &frames))?;
        let reading = Reading {
            chat: response.stream,
            frames,
            provider,
            name: (provider_name, model),
            pending: VecDeque::new(),
            over: false,
        };
        Ok(reading.deltas().boxed())
    }
}

/// A reply that is being received.
struct Reading {
    chat: ChatStream,
    frames: Arc<Frames>,
    provider: ProviderConfig,
    name: (String, String),
    /// Items that follow the initial usage.
    pending: VecDeque<Option<genai::Result<ChatStreamEvent>>>,
    over: bool,
}

impl Reading {
    fn deltas(self) -> impl Stream<Item = Result<Delta, ModelError>> + Send + 'static {
        stream::unfold(self, |mut reading| async move {
            if reading.over {
                return None;
            }
            let delta = reading.next().await;
            reading.over = !matches!(
                delta,
                Ok(Delta::Begun
                    | Delta::Text(_)
                    | Delta::Thinking(_)
                    | Delta::ToolCall { .. }
                    | Delta::Usage(_))
            );
            Some((delta, reading))
        })
    }

    async fn next(&mut self) -> Result<Delta, ModelError> {
        loop {
            let event = if let Some(event) = self.pending.pop_front() {
                event
            } else {
                tokio::select! {
                    biased;
                    event = self.chat.next() => event,
                    () = self.frames.first() => return Ok(Delta::Begun),
                }
            };
            if let Some(usage) = self.frames.begun() {
                self.pending.push_back(event);
                return Ok(Delta::Usage(usage));
            }
            let event = match event {
                None => return Err(failure::broken("the answer ended before it was complete")),
                Some(event) => event.map_err(|error| failure::of(&error, &self.provider, &self.frames))?,
            };
            match event {
                // The crate emits it before there is a connection.
                ChatStreamEvent::Start
                | ChatStreamEvent::Heartbeat
                | ChatStreamEvent::ThoughtSignatureChunk(_) => {}
                ChatStreamEvent::Chunk(chunk) if chunk.content.is_empty() => {}
                ChatStreamEvent::Chunk(chunk) => {
                    self.frames.text(&chunk.content);
                    return Ok(Delta::Text(chunk.content));
                }
                ChatStreamEvent::ReasoningChunk(chunk) => return Ok(Delta::Thinking(chunk.content)),
                ChatStreamEvent::ToolCallChunk(chunk) => {
                    self.frames.call(&chunk.tool_call.call_id);
                    let ToolCall { call_id: id, fn_name: name, fn_arguments, .. } = chunk.tool_call;
                    let bytes = fn_arguments.as_str().map_or(0, str::len) as u64;
                    return Ok(Delta::ToolCall { id, name, bytes });
                }
                ChatStreamEvent::End(end) => {
                    let (provider, model) = std::mem::take(&mut self.name);
                    let reply = reply::complete(
                        end,
                        Format::of(self.provider.api, &model),
                        &self.frames,
                        provider,
                        model,
                    )?;
                    return Ok(Delta::Done(reply));
                }
            }
        }
    }
}
