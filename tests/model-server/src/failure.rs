//! Failures of a provider.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A failure, played in the format of the requested provider. `kind` selects the variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Failure {
    /// 429, optionally with `retry-after`.
    RateLimited {
        /// `retry-after` in seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after: Option<u64>,
        /// `retry-after` as an HTTP date, this many seconds from now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_date: Option<u64>,
    },
    /// 529 for Anthropic, 503 for OpenAI.
    Overloaded,
    /// 500.
    ServerError,
    /// 401.
    Unauthorized,
    /// Any status, body and headers.
    Status {
        status: u16,
        /// Default: an error in the provider's format.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<Value>,
        #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
        headers: std::collections::BTreeMap<String, String>,
    },
    /// The connection breaks after some pieces of the reply.
    Cut {
        #[serde(default)]
        pieces: usize,
        /// Whether half of the next event is still sent.
        #[serde(default)]
        mid_event: bool,
    },
    /// The stream ends normally after some pieces, without its final event.
    Short {
        #[serde(default)]
        pieces: usize,
    },
    /// An error event after some pieces. Without streaming it equals [`Self::Overloaded`].
    ErrorEvent {
        #[serde(default)]
        pieces: usize,
    },
    /// The conversation exceeds the context window.
    Overflow {
        /// Whether the output limit contributes to the overflow, for which Anthropic has another message.
        #[serde(default)]
        with_output: bool,
    },
    /// The quota of the subscription is exceeded.
    QuotaExceeded {
        /// In seconds. Not reported if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resets_in: Option<u64>,
    },
    /// No response until the client disconnects.
    Hang,
    /// 200 with a body that is not JSON.
    Garbage,
}
