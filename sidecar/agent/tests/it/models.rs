//! The model port over real HTTP with a scripted server, in all three protocols: replies and errors of providers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use pilothouse_agent::event::{AgentOutcome, SessionEvent};
use pilothouse_agent::message::{
    AgentMessage, AssistantContent, AssistantMessage, StopReason, ToolResultMessage, Usage, UserContent,
    UserMessage,
};
use pilothouse_agent::model::genai::GenaiModel;
use pilothouse_agent::model::registry::{Api, ModelRegistry, ProviderConfig};
use pilothouse_agent::model::{Delta, LanguageModel, ModelError, ModelRequest, OmittedContent, ToolSpec};
use pilothouse_agent::session::{PromptOptions, Start};
use pilothouse_domain::Timestamp;
use pilothouse_domain::value::ThinkingLevel;
use pilothouse_model_server::{Failure, ModelServer, Script, Step, Stop, Tokens};
use serde_json::{Value, json};

use crate::support::*;

const APIS: [Api; 3] = [Api::AnthropicMessages, Api::OpenaiChat, Api::OpenaiResponses];

struct Line {
    server: ModelServer,
    model: GenaiModel,
}

impl Line {
    async fn new(api: Api, steps: impl IntoIterator<Item = Step>) -> Self {
        let server = ModelServer::start(Script::of(steps)).await.unwrap();
        let model = GenaiModel::new(registry_of(api, Some(server.openai_base_url()), 100_000));
        Self { server, model }
    }

    async fn ask(&self, request: ModelRequest) -> Result<(Vec<Delta>, AssistantMessage), ModelError> {
        within(async {
            let mut stream = self.model.stream(request).await?;
            let mut deltas = Vec::new();
            while let Some(delta) = stream.next().await {
                match delta? {
                    Delta::Done(reply) => {
                        assert!(stream.next().await.is_none(), "nothing comes after the whole answer");
                        return Ok((deltas, reply));
                    }
                    delta => deltas.push(delta),
                }
            }
            panic!("the stream ended without an end");
        })
        .await
    }

    fn body(&self) -> Value {
        self.server.prompts().last().unwrap().body.clone()
    }
}

fn user(text: &str) -> AgentMessage {
    let content = vec![UserContent::Text { text: text.into() }];
    AgentMessage::User(UserMessage { content, timestamp: Timestamp::from_millis(0) })
}

fn request(model: &str, messages: Vec<AgentMessage>) -> ModelRequest {
    let input_schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    ModelRequest {
        conversation: "conversation-1".into(),
        provider: "test".into(),
        model: model.into(),
        system: "You are a test.".into(),
        messages: Arc::new(messages.into_iter().map(Arc::new).collect()),
        tools: [ToolSpec { name: "read".into(), description: "Reads.".into(), input_schema }].into(),
        thinking: ThinkingLevel::Off,
        max_output_tokens: 4_000,
    }
}

fn result(call: &str, content: Vec<UserContent>, is_error: bool) -> AgentMessage {
    AgentMessage::ToolResult(ToolResultMessage {
        tool_call_id: call.into(),
        tool_name: "read".into(),
        content,
        is_error,
        timestamp: Timestamp::from_millis(0),
    })
}

#[tokio::test]
async fn text_calls_and_usage_match_the_response() {
    for api in APIS {
        let tokens = Tokens { input: 70, output: 9, cache_read: 30, cache_write: 0 };
        let step = Step::text("I look at both.")
            .and_tool("read", json!({ "path": "a" }))
            .and_tool("read", json!({ "path": "b" }));
        let line = Line::new(api, [step.taking(tokens)]).await;
        let (deltas, reply) = line.ask(request("small", vec![user("go")])).await.unwrap();
        let text: String = deltas
            .iter()
            .filter_map(|delta| match delta {
                Delta::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(text, "I look at both.", "{api:?}");
        assert_eq!(reply.text(), "I look at both.", "{api:?}");
        let calls: Vec<_> =
            reply.tool_calls().map(|call| (call.name.clone(), call.arguments.clone())).collect();
        assert_eq!(calls, [("read".into(), json!({ "path": "a" })), ("read".into(), json!({ "path": "b" }))]);
        assert_eq!(reply.stop_reason, StopReason::ToolUse, "{api:?}");
        assert_eq!(reply.usage, Usage { input: 70, output: 9, cache_read: 30, cache_write: 0 }, "{api:?}");
        assert_eq!((reply.provider.as_str(), reply.model.as_str()), ("test", "small"));
        assert_eq!(line.body()["model"], "small");
    }
}

#[tokio::test]
async fn text_between_two_calls_keeps_its_position_both_ways() {
    for api in APIS {
        let step = Step::text("I look at a.").and_tool("read", json!({ "path": "a" })).and_says_before(
            "Now at b.",
            "read",
            json!({ "path": "b" }),
        );
        let line = Line::new(api, [step, Step::text("done")]).await;
        let (_, reply) = line.ask(request("small", vec![user("go")])).await.unwrap();
        let order: Vec<String> = reply
            .content
            .iter()
            .map(|block| match block {
                AssistantContent::Text { text } => text.clone(),
                AssistantContent::ToolCall(call) => call.arguments["path"].to_string(),
                AssistantContent::Thinking { .. } => "a thought".into(),
            })
            .collect();
        assert_eq!(order, ["I look at a.", "\"a\"", "Now at b.", "\"b\""], "{api:?}");
        let ids: Vec<String> = reply.tool_calls().map(|call| call.id.clone()).collect();
        let seen = || vec![UserContent::Text { text: "seen".into() }];
        let mut messages = vec![user("go"), AgentMessage::Assistant(reply)];
        messages.extend(ids.iter().map(|id| result(id, seen(), false)));
        line.ask(request("small", messages)).await.unwrap();
        let body = line.body();
        let kinds = |items: &Value, field: &str| -> Vec<String> {
            let kinds = items.as_array().unwrap().iter();
            kinds.map(|item| item[field].as_str().unwrap_or_default().to_owned()).collect()
        };
        match api {
            Api::AnthropicMessages => {
                let blocks = kinds(&body["messages"][1]["content"], "type");
                assert_eq!(blocks, ["text", "tool_use", "text", "tool_use"], "{body:#}");
            }
            Api::OpenaiResponses => {
                let items = kinds(&body["input"], "type");
                let at = items.iter().position(|kind| kind == "function_call").unwrap();
                assert_eq!(items[at - 1..at + 3], ["message", "function_call", "message", "function_call"]);
            }
            // Chat Completions has one field for text and one for calls.
            _ => {}
        }
    }
}

#[tokio::test]
async fn anthropic_cache_writes_are_counted_and_marked() {
    let tokens = Tokens { input: 5, output: 2, cache_read: 100, cache_write: 50 };
    let line = Line::new(Api::AnthropicMessages, [Step::text("hi").taking(tokens)]).await;
    let (_, reply) = line.ask(request("small", vec![user("go")])).await.unwrap();
    assert_eq!(reply.usage, Usage { input: 5, output: 2, cache_read: 100, cache_write: 50 });
    let body = line.body();
    assert_eq!(body["system"][0]["cache_control"]["type"], "ephemeral", "{body:#}");
    assert_eq!(body["messages"][0]["content"][0]["cache_control"]["type"], "ephemeral", "{body:#}");
}

#[tokio::test]
async fn gemini_answers_with_calls_and_gets_their_results() {
    let steps = [Step::text("I look.").and_tool("read", json!({ "path": "a" })), Step::text("done")];
    let server = ModelServer::start(Script::of(steps)).await.unwrap();
    let base_url = Some(format!("{}/v1beta", server.base_url()));
    let line = Line { model: GenaiModel::new(registry_of(Api::Gemini, base_url, 100_000)), server };
    let (_, reply) = line.ask(request("small", vec![user("go")])).await.unwrap();
    assert_eq!((reply.text().as_str(), reply.stop_reason), ("I look.", StopReason::ToolUse));
    let id = reply.tool_calls().next().unwrap().id.clone();
    let seen = vec![UserContent::Text { text: "the content".into() }];
    let messages = vec![user("go"), AgentMessage::Assistant(reply), result(&id, seen, false)];
    let (_, reply) = line.ask(request("small", messages)).await.unwrap();
    assert_eq!((reply.text().as_str(), reply.stop_reason), ("done", StopReason::Stop));
    assert!(line.body().to_string().contains("the content"), "{}", line.body());
}

#[tokio::test]
async fn local_server_needs_no_key() {
    let server = ModelServer::start(Script::of([Step::text("hi")])).await.unwrap();
    let registry = ModelRegistry::from_env(|name| {
        (name == "OLLAMA_HOST").then(|| server.base_url().trim_start_matches("http://").to_owned())
    });
    let local = registry.resolve("ollama/qwen3").unwrap();
    assert!(local.limits_assumed && local.price.is_some());
    let line = Line { model: GenaiModel::new(Arc::new(registry)), server };
    let asked = ModelRequest { provider: "ollama".into(), ..request("qwen3", vec![user("go")]) };
    assert_eq!(line.ask(asked).await.unwrap().1.text(), "hi");
}

#[tokio::test]
async fn plain_thoughts_are_returned_where_the_provider_demands_them() {
    for (api, returned) in [(Api::Deepseek, true), (Api::OpenaiChat, false)] {
        let steps = [Step::tool("read", json!({})).thinking("Let me see."), Step::text("done")];
        let line = Line::new(api, steps).await;
        let (_, reply) = line.ask(request("large", vec![user("go")])).await.unwrap();
        let id = reply.tool_calls().next().unwrap().id.clone();
        let messages = vec![user("go"), AgentMessage::Assistant(reply), result(&id, Vec::new(), false)];
        line.ask(request("large", messages)).await.unwrap();
        let body = line.body();
        let replies = body["messages"].as_array().unwrap().iter();
        let thoughts: Vec<_> = replies.filter_map(|message| message["reasoning_content"].as_str()).collect();
        assert_eq!(thoughts, if returned { vec!["Let me see."] } else { Vec::new() }, "{api:?}: {body:#}");
    }
}

#[tokio::test]
async fn openai_caches_the_prompt_of_a_conversation() {
    let line = Line::new(Api::OpenaiResponses, [Step::text("hi")]).await;
    line.ask(request("small", vec![user("go")])).await.unwrap();
    assert_eq!(line.body()["prompt_cache_key"], "conversation-1");
    // A compatible server may reject the field.
    let line = Line::new(Api::OpenaiChat, [Step::text("hi")]).await;
    line.ask(request("small", vec![user("go")])).await.unwrap();
    assert_eq!(line.body()["prompt_cache_key"], Value::Null);
}

#[tokio::test]
async fn model_without_vision_gets_no_images() {
    let model = Scripted::new([say("one")]);
    let provider = ProviderConfig {
        models: vec![serde_json::from_value(json!({ "id": "blind", "vision": false })).unwrap()],
        ..registry().provider("test").unwrap().clone()
    };
    let registry = Arc::new(ModelRegistry::new().with(provider));
    let open = SessionSetup::with_registry(model.clone(), Vec::new(), registry).open();
    let images = vec![UserContent::Image { mime_type: "image/png".into(), data: "AAAA".into() }];
    within(open.session.prompt("look", PromptOptions { images, ..PromptOptions::default() })).await.unwrap();
    let seen = texts(&model.requests()[0].messages);
    assert_eq!(seen, ["user: look (An image was here. The model cannot see it.)"]);
}

#[tokio::test]
async fn results_and_images_are_sent_as_each_provider_requires() {
    for api in APIS {
        let step = Step::tool("read", json!({ "path": "a" })).and_tool("read", json!({ "path": "b" }));
        let line = Line::new(api, [step, Step::text("done")]).await;
        let image = UserContent::Image { mime_type: "image/png".into(), data: "iVBORw0KGgo=".into() };
        let mut messages = vec![AgentMessage::User(UserMessage {
            content: vec![UserContent::Text { text: "go".into() }, image.clone()],
            timestamp: Timestamp::from_millis(0),
        })];
        let (_, reply) = line.ask(request("small", messages.clone())).await.unwrap();
        let ids: Vec<String> = reply.tool_calls().map(|call| call.id.clone()).collect();
        messages.push(AgentMessage::Assistant(reply));
        messages.push(result(&ids[0], vec![UserContent::Text { text: "shows".into() }, image], false));
        messages.push(result(&ids[1], vec![UserContent::Text { text: "no such file".into() }], true));
        messages.push(user("look"));
        let (_, reply) = line.ask(request("small", messages)).await.unwrap();
        assert_eq!((reply.text().as_str(), reply.stop_reason), ("done", StopReason::Stop), "{api:?}");
        let body = line.body().to_string();
        assert_eq!(body.matches("iVBORw0KGgo=").count(), 2, "{api:?}: {body}");
        assert!(body.contains("no such file"));
        assert!(api != Api::AnthropicMessages || body.contains("\"is_error\":true"), "{body}");
    }
}

#[tokio::test]
async fn results_of_a_reply_are_sent_as_one_message_where_required() {
    let step = Step::tool("read", json!({ "path": "a" })).and_tool("read", json!({ "path": "b" }));
    let line = Line::new(Api::AnthropicMessages, [step, Step::text("done")]).await;
    let mut messages = vec![user("go")];
    let (_, reply) = line.ask(request("small", messages.clone())).await.unwrap();
    let ids: Vec<String> = reply.tool_calls().map(|call| call.id.clone()).collect();
    messages.push(AgentMessage::Assistant(reply));
    messages.extend(ids.iter().map(|id| result(id, vec![UserContent::Text { text: id.clone() }], false)));
    line.ask(request("small", messages)).await.unwrap();
    let body = line.body();
    let roles: Vec<&Value> =
        body["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "user"], "{body:#}");
    let blocks = body["messages"][2]["content"].as_array().unwrap();
    let of: Vec<_> = blocks.iter().map(|block| (&block["type"], &block["tool_use_id"])).collect();
    let kind = json!("tool_result");
    assert_eq!(of, [(&kind, &json!(ids[0])), (&kind, &json!(ids[1]))], "{body:#}");
}

#[tokio::test]
async fn results_follow_their_calls_where_each_is_a_message() {
    let step = Step::tool("read", json!({ "path": "a" })).and_tool("read", json!({ "path": "b" }));
    let line = Line::new(Api::OpenaiChat, [step, Step::text("done")]).await;
    let (_, reply) = line.ask(request("small", vec![user("go")])).await.unwrap();
    let ids: Vec<String> = reply.tool_calls().map(|call| call.id.clone()).collect();
    let mut messages = vec![user("go"), AgentMessage::Assistant(reply)];
    messages.extend(ids.iter().map(|id| result(id, vec![UserContent::Text { text: id.clone() }], false)));
    messages.push(user("look"));
    line.ask(request("small", messages)).await.unwrap();
    let body = line.body();
    let sent = body["messages"].as_array().unwrap();
    let roles: Vec<&Value> =
        sent.iter().map(|message| &message["role"]).filter(|role| **role != "system").collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool", "user"], "{body:#}");
    let answered: Vec<&Value> = sent
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| &message["tool_call_id"])
        .collect();
    assert_eq!(answered, ids.iter().collect::<Vec<_>>(), "{body:#}");
}

#[tokio::test]
async fn signed_thoughts_are_returned_only_to_their_model() {
    let steps = || {
        let thought = Step { signature: Some("c2lnbmF0dXJl".into()), ..Step::tool("read", json!({})) };
        [thought.thinking("Let me see."), Step::text("done"), Step::text("done")]
    };
    let line = Line::new(Api::AnthropicMessages, steps()).await;
    let thinking = |messages| ModelRequest { thinking: ThinkingLevel::Low, ..request("large", messages) };
    let (deltas, reply) = line.ask(thinking(vec![user("go")])).await.unwrap();
    assert!(deltas.iter().any(|delta| matches!(delta, Delta::Thinking(_))));
    let thought = reply.content.first().cloned();
    let expected =
        AssistantContent::Thinking { thinking: "Let me see.".into(), signature: Some("c2lnbmF0dXJl".into()) };
    assert_eq!(thought, Some(expected));
    let id = reply.tool_calls().next().unwrap().id.clone();
    let messages = vec![
        user("go"),
        AgentMessage::Assistant(reply),
        result(&id, vec![UserContent::Text { text: "x".into() }], false),
    ];
    line.ask(thinking(messages.clone())).await.unwrap();
    let body = line.body();
    assert_eq!(body["messages"][1]["content"][0]["signature"], "c2lnbmF0dXJl", "{body:#}");
    line.ask(request("small", messages)).await.unwrap();
    assert!(!line.body().to_string().contains("c2lnbmF0dXJl"), "to another model it means nothing");
}

#[tokio::test]
async fn thinking_levels_map_to_provider_terms() {
    let levels = [ThinkingLevel::Off, ThinkingLevel::Low, ThinkingLevel::High, ThinkingLevel::Max];
    for (api, field) in [
        (Api::AnthropicMessages, "/thinking/budget_tokens"),
        (Api::OpenaiChat, "/reasoning_effort"),
        (Api::OpenaiResponses, "/reasoning/effort"),
    ] {
        let mut seen = Vec::new();
        let line = Line::new(api, levels.map(|_| Step::text("ok"))).await;
        for thinking in levels {
            let asked =
                ModelRequest { thinking, max_output_tokens: 64_000, ..request("large", vec![user("go")]) };
            line.ask(asked).await.unwrap();
            seen.push(line.body().pointer(field).cloned().unwrap_or_default());
        }
        let expected = match api {
            Api::AnthropicMessages => [Value::Null, json!(1_024), json!(24_000), json!(24_000)],
            _ => [Value::Null, json!("low"), json!("high"), json!("xhigh")],
        };
        assert_eq!(seen, expected, "{api:?}");
        let line = Line::new(api, [Step::text("ok")]).await;
        line.ask(ModelRequest { thinking: ThinkingLevel::High, ..request("small", vec![user("go")]) })
            .await
            .unwrap();
        assert_eq!(line.body().pointer(field).cloned().unwrap_or_default(), Value::Null, "it cannot think");
    }
}

#[tokio::test]
async fn model_name_with_an_effort_suffix_stays_unchanged() {
    for api in APIS {
        let line = Line::new(api, [Step::text("ok")]).await;
        line.ask(request("mistral-medium", vec![user("go")])).await.unwrap();
        let body = line.body();
        assert_eq!(body["model"], "mistral-medium", "{api:?}");
        assert!(body["reasoning_effort"].is_null() && body["reasoning"].is_null(), "{api:?}: {body:#}");
    }
}

#[tokio::test]
async fn malformed_arguments_are_kept_and_the_conversation_continues() {
    for api in APIS {
        let mut step = Step::tool("echo", json!({}));
        step.tools[0].raw_input = Some("{\"text\": \"half".into());
        let server = ModelServer::start(Script::of([step, Step::text("sorry")])).await.unwrap();
        let registry = registry_of(api, Some(server.openai_base_url()), 100_000);
        let model = Arc::new(GenaiModel::new(Arc::clone(&registry)));
        let open = SessionSetup::with_registry(model, vec![TestTool::echo()], registry).open();
        assert_eq!(open.prompt("go").await, AgentOutcome::Completed, "{api:?}");
        let texts = open.texts();
        assert!(texts[2].contains("are no JSON object"), "{api:?}: {texts:?}");
        assert_eq!(texts[3], "assistant: sorry");
    }
}

#[tokio::test]
async fn refusals_and_output_limits_are_distinguished() {
    for api in APIS {
        let refused = Step { stop: Some(Stop::Refusal), ..Step::text("I will not.") };
        let cut = Step { stop: Some(Stop::Length), ..Step::text("and then") };
        let line = Line::new(api, [refused, cut]).await;
        let (_, reply) = line.ask(request("small", vec![user("go")])).await.unwrap();
        assert_eq!(
            (reply.stop_reason, reply.text().as_str()),
            (StopReason::Refusal, "I will not."),
            "{api:?}"
        );
        let (_, reply) = line.ask(request("small", vec![user("go")])).await.unwrap();
        assert_eq!((reply.stop_reason, reply.text().as_str()), (StopReason::Length, "and then"), "{api:?}");
    }
}

async fn failed(api: Api, failure: Failure) -> ModelError {
    let line = Line::new(api, [Step::text("a longer answer in several pieces").failing([failure])]).await;
    line.ask(request("small", vec![user("go")])).await.expect_err("it fails")
}

fn rate_limited(retry_after: Option<u64>, retry_after_date: Option<u64>) -> Failure {
    Failure::RateLimited { retry_after, retry_after_date }
}

#[tokio::test]
async fn retryable_errors_are_transient_and_give_the_delay() {
    for api in APIS {
        for failure in [
            rate_limited(None, None),
            Failure::Overloaded,
            Failure::ServerError,
            Failure::Cut { pieces: 1, mid_event: false },
            Failure::Cut { pieces: 1, mid_event: true },
            Failure::Short { pieces: 1 },
            Failure::ErrorEvent { pieces: 1 },
            Failure::Garbage,
        ] {
            let error = failed(api, failure.clone()).await;
            let transient = matches!(error, ModelError::Transient { retry_after: None, .. });
            assert!(transient, "{api:?}, {failure:?}: {error:?}");
        }
        let error = failed(api, rate_limited(Some(7), None)).await;
        let ModelError::Transient { status: Some(429), retry_after: Some(wait), .. } = error else {
            panic!("{api:?}: {error:?}")
        };
        assert_eq!(wait, Duration::from_secs(7), "{api:?}");
        let error = failed(api, rate_limited(None, Some(60))).await;
        let ModelError::Transient { retry_after: Some(wait), .. } = error else {
            panic!("{api:?}: {error:?}")
        };
        assert!((50..=61).contains(&wait.as_secs()), "{api:?}: {wait:?}");
    }
}

#[tokio::test]
async fn a_conversation_that_does_not_fit_is_an_overflow() {
    for api in APIS {
        for with_output in [false, true] {
            let error = failed(api, Failure::Overflow { with_output }).await;
            assert!(matches!(error, ModelError::ContextOverflow { .. }), "{api:?}: {error:?}");
        }
    }
}

#[tokio::test]
async fn exhausted_plan_reports_its_reset_time() {
    for api in APIS {
        let error = failed(api, Failure::QuotaExceeded { resets_in: None }).await;
        assert!(matches!(error, ModelError::QuotaExceeded { reset_at: None, .. }), "{api:?}: {error:?}");
        let error = failed(api, Failure::QuotaExceeded { resets_in: Some(3_600) }).await;
        let ModelError::QuotaExceeded { reset_at: Some(at), .. } = error else {
            panic!("{api:?}: {error:?}")
        };
        let now = Timestamp::from_millis(jiff::Timestamp::now().as_millisecond());
        let wait = at.since(now).as_secs();
        assert!((3_500..=3_601).contains(&wait), "{api:?}: {wait}");
    }
}

#[tokio::test]
async fn other_errors_are_rejected_without_showing_the_key() {
    for api in APIS {
        let error = failed(api, Failure::Unauthorized).await;
        assert!(matches!(error, ModelError::Rejected { status: Some(401), .. }), "{api:?}: {error:?}");
        let body = json!({ "error": { "message": "the key sk-test-key is wrong", "type": "invalid_request_error" } });
        let failure = Failure::Status { status: 400, body: Some(body), headers: BTreeMap::new() };
        let error = failed(api, failure).await;
        assert!(matches!(error, ModelError::Rejected { status: Some(400), .. }), "{api:?}: {error:?}");
        assert!(!format!("{error:?}").contains("sk-test-key"), "{error:?}");
    }
}

#[tokio::test]
async fn rejected_content_is_recognised() {
    for (message, expected) in [
        ("messages.0.content.1.image.source.base64: image exceeds 5 MB maximum", OmittedContent::Images),
        ("Invalid MIME type. Only image types are supported.", OmittedContent::Images),
        ("messages.1.content.0: Invalid `signature` in `thinking` block", OmittedContent::Thoughts),
        ("The encrypted content for item rs_1 could not be verified.", OmittedContent::Thoughts),
    ] {
        for api in APIS {
            let body = json!({ "error": { "message": message, "type": "invalid_request_error" } });
            let failure = Failure::Status { status: 400, body: Some(body), headers: BTreeMap::new() };
            let error = failed(api, failure).await;
            let recognised =
                matches!(&error, ModelError::RejectedContent { content, .. } if *content == expected);
            assert!(recognised, "{api:?}: {error:?}");
        }
    }
}

#[tokio::test]
async fn unreachable_server_is_transient() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    for api in APIS {
        let model = GenaiModel::new(registry_of(api, Some(format!("http://127.0.0.1:{port}/v1")), 1_000));
        let mut stream = model.stream(request("small", vec![user("go")])).await.unwrap();
        let error = within(stream.next()).await.unwrap().expect_err("no server listens there");
        assert!(matches!(error, ModelError::Transient { status: None, .. }), "{api:?}: {error:?}");
    }
}

#[tokio::test]
async fn session_survives_failures_of_every_provider() {
    for api in APIS {
        let failures =
            [rate_limited(Some(0), None), Failure::Overloaded, Failure::Cut { pieces: 2, mid_event: true }];
        let steps = [Step::tool("echo", json!({ "text": "one" })).failing(failures), Step::text("done")];
        let server = ModelServer::start(Script::of(steps)).await.unwrap();
        let registry = registry_of(api, Some(server.openai_base_url()), 100_000);
        let model = Arc::new(GenaiModel::new(Arc::clone(&registry)));
        let open = SessionSetup::with_registry(model, vec![TestTool::echo()], registry).open();
        assert_eq!(open.prompt("go").await, AgentOutcome::Completed, "{api:?}");
        let texts = open.texts();
        assert_eq!((texts.len(), texts[3].as_str()), (4, "assistant: done"), "{api:?}: {texts:?}");
    }
}

#[tokio::test]
async fn usage_reported_before_a_broken_reply_is_charged() {
    let tokens = Tokens { input: 1_000, output: 5, cache_read: 100, cache_write: 10 };
    let step = |text: &str| Step::text(text).taking(tokens);
    let cut = Failure::Cut { pieces: 1, mid_event: false };
    let steps = [
        step("a longer answer in several pieces").failing([cut]),
        step("half of another answer").waiting_inside("never"),
    ];
    let server = ModelServer::start(Script::of(steps)).await.unwrap();
    let registry = registry_of(Api::AnthropicMessages, Some(server.openai_base_url()), 100_000);
    let model = Arc::new(GenaiModel::new(Arc::clone(&registry)));
    let mut open = SessionSetup::with_registry(model, Vec::new(), registry).open();
    assert_eq!(open.prompt("go").await, AgentOutcome::Completed);
    let total = open.session.state().meters.total();
    assert_eq!((total.calls, total.usage.input, total.usage.cache_read), (2, 2_000, 200));
    open.received_events();
    let run = open.begin("again");
    within(async { while !matches!(open.events.recv().await, Some(SessionEvent::TextDelta(_))) {} }).await;
    within(open.session.abort()).await;
    within(run).await.unwrap();
    assert_eq!(open.session.state().meters.total().usage.input, 3_000);
}

#[tokio::test]
async fn unreported_usage_of_a_broken_reply_is_estimated() {
    for api in [Api::OpenaiChat, Api::OpenaiResponses] {
        let tokens = Tokens { input: 1_000, output: 5, ..Tokens::default() };
        let cut = Failure::Cut { pieces: 3, mid_event: false };
        let steps = [
            // A rejected request is not charged.
            Step::text("a longer answer in several pieces")
                .taking(tokens)
                .failing([Failure::Overloaded, cut]),
            Step::text("half of another answer, and more of it").waiting_inside("never"),
        ];
        let server = ModelServer::start(Script::of(steps)).await.unwrap();
        let registry = registry_of(api, Some(server.openai_base_url()), 100_000);
        let model = Arc::new(GenaiModel::new(Arc::clone(&registry)));
        let setup = SessionSetup::with_registry(model, Vec::new(), registry);
        let mut open = setup.open();
        let prompt = "go on, if".repeat(100);
        assert_eq!(open.prompt(&prompt).await, AgentOutcome::Completed, "{api:?}");
        let reckoned = |events: Vec<SessionEvent>| -> Vec<Usage> {
            let usage = |event| match event {
                SessionEvent::Usage { usage, estimated: true, .. } => Some(usage),
                _ => None,
            };
            events.into_iter().filter_map(usage).collect()
        };
        let [broken] = reckoned(open.received_events())[..] else {
            panic!("{api:?}: it is not reckoned once")
        };
        // Eight hundred bytes of prompt, and the 33 characters of the reply, at three bytes per token.
        assert!(broken.input >= 800 / 3 && broken.output == 11, "{api:?}: {broken:?}");
        assert_eq!(open.session.state().meters.total().usage.input, 1_000 + broken.input, "{api:?}");

        let run = open.begin("again");
        within(async { while !matches!(open.events.recv().await, Some(SessionEvent::TextDelta(_))) {} })
            .await;
        within(open.session.abort()).await;
        within(run).await.unwrap();
        let [aborted] = reckoned(open.received_events())[..] else {
            panic!("{api:?}: it is not reckoned once")
        };
        assert!(aborted.input > 1_000 && aborted.output > 0, "{api:?}: {aborted:?}");
        let (file, meters) = (file(&open.session), open.session.state().meters);
        drop(open);
        let open = Open::start(setup.config.clone(), Start::File(file));
        assert_eq!(open.session.state().meters, meters, "{api:?}: the tree has it too");
    }
}

#[tokio::test]
async fn an_abort_closes_the_connection() {
    for api in APIS {
        let step = Step::text("a longer answer in several pieces").waiting_inside("never");
        let server = ModelServer::start(Script::of([step])).await.unwrap();
        let registry = registry_of(api, Some(server.openai_base_url()), 100_000);
        let model = Arc::new(GenaiModel::new(Arc::clone(&registry)));
        let open = SessionSetup::with_registry(model, Vec::new(), registry).open();
        let run = open.begin("go");
        within(server.wait_for(1)).await;
        within(open.session.abort()).await;
        assert_eq!(within(run).await.unwrap(), AgentOutcome::Aborted);
        let gone = |all: &[pilothouse_model_server::Request]| {
            all.iter().all(|request| request.outcome == pilothouse_model_server::Outcome::Gone)
        };
        within(server.wait_until(gone)).await;
    }
}
