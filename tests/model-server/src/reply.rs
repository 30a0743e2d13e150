//! A reply independent of the protocol, and the events of its stream.

use serde_json::Value;

use crate::{
    director::Choice,
    prompt::Prompt,
    script::{Script, Stop, Tokens},
    template::Source,
    tokens,
};

/// Default number of characters in a piece.
const CHUNK: usize = 16;

/// A reply of the model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    /// Unique id of the reply.
    pub(crate) id: String,
    pub(crate) model: String,
    /// The thought and the provider's signature.
    pub(crate) thinking: Option<(String, String)>,
    pub(crate) text: Option<String>,
    pub(crate) calls: Vec<Call>,
    pub(crate) usage: Tokens,
    pub(crate) stop: Stop,
    /// Characters in a piece.
    pub(crate) chunk: usize,
    /// Whether the end of the stream reports the usage.
    pub(crate) tells_usage: bool,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    /// Id without the provider's prefix.
    pub(crate) id: String,
    pub(crate) name: String,
    /// Arguments as text.
    pub(crate) arguments: String,
    /// Text before this call, after everything earlier.
    pub(crate) says: Option<String>,
}

impl Reply {
    /// Converts a selected step to the reply to a request.
    pub(crate) fn new(choice: &Choice, script: &Script, prompt: &Prompt, id: &str) -> Self {
        let step = &choice.step;
        let source = Source { prompt, vars: &script.vars };
        let calls = step.tools.iter().enumerate().map(|(place, tool)| Call {
            id: match &tool.id {
                Some(name) => format!("{id}{place}_{name}"),
                None => format!("{id}{place}"),
            },
            name: tool.name.clone(),
            says: tool.says.as_ref().map(|says| source.fill(says)).filter(|says| !says.is_empty()),
            arguments: match (&tool.raw_input, &tool.input) {
                (Some(raw), _) => raw.clone(),
                (None, Value::Null) => "{}".to_owned(),
                (None, input) => source.fill_value(input).to_string(),
            },
        });
        let natural = if step.tools.is_empty() { Stop::End } else { Stop::ToolUse };
        let signed = |thinking: &String| {
            let thinking = source.fill(thinking);
            let signature = step.signature.clone().unwrap_or_else(|| signature(&thinking));
            (thinking, signature)
        };
        Self {
            id: id.to_owned(),
            model: prompt.model.clone(),
            thinking: step.thinking.as_ref().filter(|_| prompt.thinks).map(signed),
            text: step.text.as_ref().map(|text| source.fill(text)).filter(|text| !text.is_empty()),
            calls: calls.collect(),
            usage: tokens::usage(step, prompt, choice.cached),
            stop: step.stop.unwrap_or(natural),
            chunk: step.chunk.unwrap_or(CHUNK).max(1),
            tells_usage: prompt.wants_usage,
        }
    }

    /// The pieces of a text.
    pub(crate) fn pieces(&self, text: &str) -> Vec<String> {
        let characters: Vec<char> = text.chars().collect();
        characters.chunks(self.chunk).map(|piece| piece.iter().collect()).collect()
    }
}

/// The signature of a thought. It depends only on the text, so that another server process accepts it as well.
pub(crate) fn signature(thinking: &str) -> String {
    // FNV-1a: it need not be secure, it only detects changes.
    let hash = thinking.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("c2lnbmVk{hash:016x}")
}

/// A server-sent event (SSE).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// The event's name, in protocols with named events.
    pub(crate) name: Option<&'static str>,
    pub(crate) data: String,
    /// Whether the event contains a piece of the reply.
    pub(crate) is_piece: bool,
}

impl Event {
    pub(crate) fn named(name: &'static str, data: &Value) -> Self {
        Self { name: Some(name), data: data.to_string(), is_piece: false }
    }

    /// An event without a name.
    pub(crate) fn data(data: &(impl ToString + ?Sized)) -> Self {
        Self { name: None, data: data.to_string(), is_piece: false }
    }

    /// Marks the event as a piece of the reply.
    pub(crate) fn piece(mut self) -> Self {
        self.is_piece = true;
        self
    }

    /// The event in the SSE format.
    pub(crate) fn bytes(&self) -> String {
        match self.name {
            Some(name) => format!("event: {name}\ndata: {}\n\n", self.data),
            None => format!("data: {}\n\n", self.data),
        }
    }
}
