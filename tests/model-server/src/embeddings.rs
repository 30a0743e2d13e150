//! OpenAI embeddings: the vectors of a script.

use serde_json::{Value, json};

use crate::{prompt::InvalidRequest, script::Embeddings, tokens};

/// The most texts of a request.
const MAX_TEXTS: usize = 2048;

/// The response to a request whose texts all have a vector.
pub(crate) fn reply(request: &Value, script: &Embeddings) -> Result<Value, InvalidRequest> {
    let model = request["model"].as_str().filter(|model| !model.is_empty());
    let model = model.ok_or_else(|| InvalidRequest::invalid("you must provide a model parameter"))?;
    let texts = texts(&request["input"])?;
    let mut data = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let fits = script.vectors.iter().find(|vector| text.contains(&vector.when));
        let vector =
            fits.ok_or_else(|| InvalidRequest::invalid(format!("no vector is scripted for {text:?}")))?;
        data.push(json!({ "object": "embedding", "index": index, "embedding": vector.values }));
    }
    let tokens: u64 = texts.iter().map(|text| tokens::of_text(text)).sum();
    Ok(json!({
        "object": "list", "model": model, "data": data,
        "usage": { "prompt_tokens": tokens, "total_tokens": tokens },
    }))
}

fn texts(input: &Value) -> Result<Vec<&str>, InvalidRequest> {
    let texts: Option<Vec<&str>> = match input {
        Value::String(text) => Some(vec![text]),
        Value::Array(texts) if (1..=MAX_TEXTS).contains(&texts.len()) => {
            texts.iter().map(Value::as_str).collect()
        }
        _ => None,
    };
    let texts = texts.filter(|texts| texts.iter().all(|text| !text.is_empty()));
    texts.ok_or_else(|| InvalidRequest::invalid("'$.input' is invalid").at("input"))
}
