//! Validates requests to `generateContent` with Gemini's rules.

use serde_json::Value;

use crate::prompt::{InvalidRequest, Prompt, Turn};

/// The path contains the model and the method: `/v1beta/models/MODEL:streamGenerateContent`.
pub(crate) fn read(path: &str, body: &Value) -> Result<Prompt, InvalidRequest> {
    let (_, named) = path.rsplit_once('/').unwrap_or_default();
    let (model, method) = named.split_once(':').unwrap_or((named, ""));
    let contents = body["contents"].as_array().filter(|contents| !contents.is_empty());
    let contents = contents.ok_or_else(|| {
        InvalidRequest::invalid("* GenerateContentRequest.contents: contents is not specified")
    })?;
    let declared = body["tools"].as_array().into_iter().flatten();
    let functions = declared.flat_map(|tool| tool["functionDeclarations"].as_array().into_iter().flatten());
    let generation = &body["generationConfig"];
    let mut prompt = Prompt {
        model: model.to_owned(),
        stream: method == "streamGenerateContent",
        system: texts(&body["systemInstruction"]),
        tools: functions.filter_map(|function| function["name"].as_str().map(str::to_owned)).collect(),
        max_output: generation["maxOutputTokens"].as_u64(),
        thinks: true,
        wants_usage: true,
        structured: generation["responseMimeType"] == "application/json",
        ..Prompt::default()
    };
    // Calls without responses, which must follow together in the next turn.
    let mut open = 0;
    for content in contents {
        let parts = content["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
        let responses = parts.iter().filter(|part| part["functionResponse"].is_object()).count();
        if responses != open {
            return Err(InvalidRequest::invalid(
                "Please ensure that the number of function response parts is equal to the number of function call parts \
                 of the function call turn.",
            ));
        }
        open = 0;
        match content["role"].as_str().unwrap_or("user") {
            "model" => {
                open = parts.iter().filter(|part| part["functionCall"].is_object()).count();
                prompt.turns.push(Turn::Assistant);
            }
            "user" | "function" => {
                for part in parts {
                    let response = &part["functionResponse"];
                    if response.is_object() {
                        let id = response["id"].as_str().unwrap_or_default().to_owned();
                        prompt.turns.push(Turn::Result { id, text: output(&response["response"]) });
                    } else if let Some(text) = part["text"].as_str() {
                        prompt.turns.push(Turn::User(text.to_owned()));
                    }
                }
            }
            _ => return Err(InvalidRequest::invalid("Please use a valid role: user, model.")),
        }
    }
    if open > 0 {
        return Err(InvalidRequest::invalid(
            "Please ensure that function call turn comes before its function response turn.",
        ));
    }
    Ok(prompt)
}

fn texts(content: &Value) -> String {
    let parts = content["parts"].as_array().into_iter().flatten();
    parts.filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// A function's output, or its complete response.
fn output(response: &Value) -> String {
    response["output"].as_str().map_or_else(|| response.to_string(), str::to_owned)
}
