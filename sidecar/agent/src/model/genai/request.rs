//! Converts a conversation to the types of the `genai` crate.

use std::sync::Arc;

use genai::adapter::AdapterKind;
use genai::chat::{
    CacheControl, ChatMessage, ChatOptions, ChatRequest, ContentPart, CustomPart, MessageContent,
    MessageOptions, ReasoningEffort, Tool, ToolCall as Call, ToolResponse,
};
use genai::resolver::{AuthData, Endpoint};
use genai::{ModelIden, ServiceTarget};
use pilothouse_domain::value::ThinkingLevel;
use serde_json::{Value, json};

use super::frames::Frames;
use super::{SILENCE, failure};
use crate::message::{AgentMessage, AssistantContent, AssistantMessage, ToolResultMessage, UserContent};
use crate::model::registry::{Api, ProviderConfig};
use crate::model::{ModelError, ModelRequest, ToolSpec};

/// Prefix of the signature of a thought that its provider did not show.
pub(super) const REDACTED: &str = "redacted:";

/// The formats in which providers expect a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Anthropic,
    Chat,
    Responses,
    Gemini,
    Bedrock,
}

impl Format {
    pub(super) fn of(api: Api, model: &str) -> Self {
        match api {
            Api::AnthropicMessages => Self::Anthropic,
            Api::Vertex if model.starts_with("claude") => Self::Anthropic,
            Api::Gemini | Api::Vertex => Self::Gemini,
            Api::OpenaiResponses => Self::Responses,
            Api::Bedrock => Self::Bedrock,
            Api::OpenaiChat
            | Api::Ollama
            | Api::Openrouter
            | Api::Deepseek
            | Api::Moonshot
            | Api::Mistral
            | Api::Xai
            | Api::Zai
            | Api::Groq => Self::Chat,
        }
    }
}

pub(super) fn target(provider: &ProviderConfig, model: &str) -> Result<ServiceTarget, ModelError> {
    let name = &provider.name;
    let key = match &provider.api_key {
        Some(key) => key.expose(),
        None if provider.is_available() => "none",
        None => return Err(failure::rejected(format!("the provider `{name}` has no key"))),
    };
    let base = provider.base_url.as_deref().or(provider.api.default_base_url());
    let base = base.ok_or_else(|| failure::rejected(format!("the provider `{name}` has no `baseUrl`")))?;
    let base = format!("{}/", base.trim_end_matches('/'));
    let kind = match provider.api {
        Api::AnthropicMessages => AdapterKind::Anthropic,
        Api::OpenaiChat | Api::Ollama => AdapterKind::OpenAI,
        Api::OpenaiResponses => AdapterKind::OpenAIResp,
        Api::Gemini => AdapterKind::Gemini,
        Api::Vertex => AdapterKind::Vertex,
        Api::Bedrock => AdapterKind::BedrockApi,
        Api::Openrouter => AdapterKind::OpenRouter,
        Api::Deepseek => AdapterKind::DeepSeek,
        Api::Moonshot => AdapterKind::Moonshot,
        Api::Mistral => AdapterKind::Mistral,
        Api::Xai => AdapterKind::Xai,
        Api::Zai => AdapterKind::Zai,
        Api::Groq => AdapterKind::Groq,
    };
    Ok(ServiceTarget {
        endpoint: Endpoint::from_owned(base),
        auth: AuthData::from_single(key),
        model: ModelIden::new(kind, model),
    })
}

pub(super) fn options(
    provider: &ProviderConfig,
    request: &ModelRequest,
    level: ThinkingLevel,
    frames: &Arc<Frames>,
) -> ChatOptions {
    let most = u32::try_from(request.max_output_tokens).unwrap_or(u32::MAX);
    let format = Format::of(provider.api, &request.model);
    let effort = effort(format, level, most);
    let mut options = ChatOptions::default()
        .with_max_tokens(most)
        .with_capture_usage(true)
        .with_capture_content(true)
        .with_capture_tool_calls(true)
        // With Responses, capturing requests a summary, which models without thinking reject.
        .with_capture_reasoning_content(format != Format::Responses || effort.is_some())
        .with_stream_header_timeout(SILENCE)
        .with_stream_read_timeout(SILENCE)
        .with_raw_frame_sink_arc(Arc::clone(frames) as Arc<_>);
    if matches!(format, Format::Anthropic | Format::Chat | Format::Responses) && provider.api != Api::Vertex {
        // The `genai` crate interprets the end of some model names as an effort and removes it. The body restores the
        // name.
        let mut body = json!({ "model": request.model });
        if effort.is_none() && ReasoningEffort::from_model_name(&request.model).0.is_some() {
            let field = if format == Format::Responses { "reasoning" } else { "reasoning_effort" };
            if let Some(body) = body.as_object_mut() {
                body.insert(field.into(), Value::Null);
            }
        }
        options = options.with_extra_body(body);
    }
    // Compatible servers may reject the field. Without it, newer models of OpenAI cache nothing.
    if provider.api == Api::OpenaiResponses
        || (provider.api == Api::OpenaiChat && provider.base_url.is_none())
    {
        options = options.with_prompt_cache_key(request.conversation.as_str());
    }
    options.reasoning_effort = effort;
    options
}

/// Thinking counts as output. At least half of the limit is left for the reply.
fn effort(format: Format, level: ThinkingLevel, most: u32) -> Option<ReasoningEffort> {
    let effort = match level {
        // Anthropic needs an explicit value to disable thinking. Other providers keep their default.
        ThinkingLevel::Off => return (format == Format::Anthropic).then_some(ReasoningEffort::Zero),
        ThinkingLevel::Minimal => ReasoningEffort::Minimal,
        ThinkingLevel::Low => ReasoningEffort::Low,
        ThinkingLevel::Medium => ReasoningEffort::Medium,
        ThinkingLevel::High => ReasoningEffort::High,
        ThinkingLevel::Max => ReasoningEffort::Max,
    };
    if matches!(format, Format::Chat | Format::Responses) {
        // OpenAI has no level `max`.
        return Some(if matches!(effort, ReasoningEffort::Max) { ReasoningEffort::XHigh } else { effort });
    }
    // The `genai` crate sets a budget of 24,000, 8,000 or 1,024 tokens, which must be below the output limit.
    Some(match effort {
        _ if most <= 2 * 1_024 => ReasoningEffort::Zero,
        ReasoningEffort::Medium | ReasoningEffort::High | ReasoningEffort::Max if most <= 2 * 8_000 => {
            ReasoningEffort::Low
        }
        ReasoningEffort::High | ReasoningEffort::Max if most <= 2 * 24_000 => ReasoningEffort::Medium,
        effort => effort,
    })
}

pub(super) fn chat(provider: &ProviderConfig, request: ModelRequest) -> ChatRequest {
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    let format = Format::of(provider.api, &request.model);
    let anthropic = format == Format::Anthropic;
    let plain_thoughts = provider.returns_thoughts();
    let mut chat = ChatRequest::default();
    if !request.system.is_empty() {
        if anthropic {
            messages.push(cached(ChatMessage::system(request.system)));
        } else {
            chat = chat.with_system(request.system);
        }
    }
    let mut conversation = request.messages.iter().map(|message| &**message).peekable();
    while let Some(message) = conversation.next() {
        match message {
            AgentMessage::User(user) => messages.push(ChatMessage::user(parts(&user.content))),
            AgentMessage::Assistant(reply) => {
                let same = reply.provider == request.provider && reply.model == request.model;
                let parts = assistant(reply, format, same, plain_thoughts);
                let pieces = if format == Format::Responses { apart(parts) } else { vec![parts] };
                messages.extend(
                    pieces.into_iter().map(|p| ChatMessage::assistant(MessageContent::from_parts(p))),
                );
            }
            AgentMessage::ToolResult(result) => {
                // All results of a reply are sent together (S1 3.3).
                let mut results = vec![result];
                while let Some(AgentMessage::ToolResult(result)) =
                    conversation.next_if(|next| matches!(next, AgentMessage::ToolResult(_)))
                {
                    results.push(result);
                }
                messages.extend(tool_results(&results, anthropic));
            }
            // The session passes commands on as user messages.
            AgentMessage::BashExecution(_) => {}
        }
    }
    if anthropic && let Some(last) = messages.pop() {
        // Caches the conversation up to here for the next request.
        messages.push(cached(last));
    }
    chat.messages = messages;
    if !request.tools.is_empty() {
        chat = chat.with_tools(request.tools.iter().cloned().map(tool));
    }
    chat
}

fn cached(message: ChatMessage) -> ChatMessage {
    message.with_options(MessageOptions::from(CacheControl::Ephemeral))
}

fn tool(spec: ToolSpec) -> Tool {
    Tool::new(spec.name).with_description(spec.description).with_schema(spec.input_schema)
}

fn parts<'a>(content: impl IntoIterator<Item = &'a UserContent>) -> MessageContent {
    let part = |block: &UserContent| match block {
        UserContent::Text { text } => ContentPart::from_text(text.as_str()),
        UserContent::Image { mime_type, data } => {
            ContentPart::from_binary_base64(mime_type.as_str(), data.as_str(), None)
        }
    };
    MessageContent::from_parts(content.into_iter().map(part).collect::<Vec<_>>())
}

/// Thoughts are sent only to the model that wrote them: other models cannot use their signatures. `plain_thoughts`: also
/// those without a signature.
fn assistant(reply: &AssistantMessage, format: Format, same: bool, plain_thoughts: bool) -> Vec<ContentPart> {
    let mut parts = Vec::with_capacity(reply.content.len());
    for block in &reply.content {
        match block {
            AssistantContent::Text { text } if text.is_empty() => {}
            AssistantContent::Text { text } => parts.push(ContentPart::from_text(text.as_str())),
            AssistantContent::Thinking { thinking, signature: Some(signature) } if same => {
                match (format, signature.strip_prefix(REDACTED)) {
                    (Format::Anthropic, Some(data)) => {
                        let data = json!({ "type": "redacted_thinking", "data": data });
                        parts.push(ContentPart::Custom(CustomPart { model_iden: None, data }));
                    }
                    (Format::Anthropic, None) => {
                        parts.push(ContentPart::ThoughtSignature(signature.clone()));
                        parts.push(ContentPart::ReasoningContent(thinking.clone()));
                    }
                    (Format::Responses | Format::Gemini, _) => {
                        parts.push(ContentPart::ThoughtSignature(signature.clone()));
                    }
                    (Format::Chat | Format::Bedrock, _) => {}
                }
            }
            AssistantContent::Thinking { thinking, signature: None }
                if same && plain_thoughts && format == Format::Chat && !thinking.is_empty() =>
            {
                parts.push(ContentPart::ReasoningContent(thinking.clone()));
            }
            AssistantContent::Thinking { .. } => {}
            AssistantContent::ToolCall(call) => parts.push(ContentPart::ToolCall(Call {
                call_id: call.id.clone(),
                fn_name: call.name.clone(),
                fn_arguments: object(&call.arguments),
                thought_signatures: None,
            })),
        }
    }
    parts
}

/// One message for each thought with the blocks after it, because the `genai` crate moves the thoughts of a message to
/// its beginning.
fn apart(parts: Vec<ContentPart>) -> Vec<Vec<ContentPart>> {
    let mut pieces: Vec<Vec<ContentPart>> = vec![Vec::with_capacity(parts.len())];
    for part in parts {
        let is_thought = |part: &ContentPart| matches!(part, ContentPart::ThoughtSignature(_));
        if is_thought(&part) && pieces.last().is_some_and(|piece| piece.iter().any(|part| !is_thought(part)))
        {
            pieces.push(Vec::new());
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push(part);
        }
    }
    pieces
}

/// Providers accept only objects as arguments.
fn object(arguments: &Value) -> Value {
    match arguments {
        Value::Object(_) => arguments.clone(),
        Value::Null => json!({}),
        other => json!({ "invalid": other }),
    }
}

fn tool_results(results: &[&ToolResultMessage], anthropic: bool) -> Vec<ChatMessage> {
    if anthropic {
        let blocks: Vec<ContentPart> = results.iter().map(|result| anthropic_result(result)).collect();
        return vec![ChatMessage::tool(MessageContent::from_parts(blocks))];
    }
    let mut images = Vec::new();
    let mut responses = Vec::with_capacity(results.len());
    for result in results {
        let mut texts = Vec::new();
        for block in &result.content {
            match block {
                UserContent::Text { text } => texts.push(text.clone()),
                image @ UserContent::Image { .. } => {
                    texts.push(format!("(an image; it follows as image {})", images.len() + 1));
                    images.push(image);
                }
            }
        }
        let text = texts.join("\n");
        let text = if result.is_error { format!("Error: {text}") } else { text };
        responses.push(ContentPart::ToolResponse(ToolResponse::new(result.tool_call_id.as_str(), text)));
    }
    let mut messages = vec![ChatMessage::tool(MessageContent::from_parts(responses))];
    if !images.is_empty() {
        // Results can contain only text, so images follow after the results.
        let title = UserContent::Text { text: "The images of the results above:".into() };
        messages.push(ChatMessage::user(parts(std::iter::once(&title).chain(images))));
    }
    messages
}

/// A result in Anthropic's format, with its images and error flag.
fn anthropic_result(result: &ToolResultMessage) -> ContentPart {
    let block = |block: &UserContent| match block {
        UserContent::Text { text } => json!({ "type": "text", "text": text }),
        UserContent::Image { mime_type, data } => json!({
            "type": "image", "source": { "type": "base64", "media_type": mime_type, "data": data },
        }),
    };
    let is_empty = |block: &UserContent| matches!(block, UserContent::Text { text } if text.is_empty());
    let content: Vec<Value> = result.content.iter().filter(|block| !is_empty(block)).map(block).collect();
    let data = json!({
        "type": "tool_result", "tool_use_id": result.tool_call_id, "content": content, "is_error": result.is_error,
    });
    ContentPart::Custom(CustomPart { model_iden: None, data })
}
