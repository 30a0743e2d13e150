//! How a provider fails.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One failure, in the words of whichever provider is asked. `kind` names it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Failure {
    /// 429, perhaps with `retry-after`.
    RateLimited {
        /// `retry-after` in seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after: Option<u64>,
        /// `retry-after` as an HTTP date, this many seconds from now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_date: Option<u64>,
    },
    /// 529 of Anthropic, 503 of OpenAI.
    Overloaded,
    /// 500.
    ServerError,
    /// 401.
    Unauthorized,
    /// Any status, body and headers.
    Status {
        /// The status.
        status: u16,
        /// The body; an error in the provider's form without it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<Value>,
        /// Headers.
        #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
        headers: std::collections::BTreeMap<String, String>,
    },
    /// The connection breaks after some pieces of the answer.
    Cut {
        /// How many pieces come whole.
        #[serde(default)]
        pieces: usize,
        /// Whether half of the next event still comes.
        #[serde(default)]
        mid_event: bool,
    },
    /// The stream ends in order after some pieces, without saying that it is over.
    Short {
        /// How many pieces come.
        #[serde(default)]
        pieces: usize,
    },
    /// An error comes as an event of the stream, after some pieces. Where nothing is streamed it is [`Self::Overloaded`].
    ErrorEvent {
        /// How many pieces come before it.
        #[serde(default)]
        pieces: usize,
    },
    /// The conversation does not fit.
    Overflow {
        /// Whether the limit of the output is to blame too, in the words that Anthropic has for that.
        #[serde(default)]
        with_output: bool,
    },
    /// The plan that pays is used up.
    QuotaExceeded {
        /// Seconds until it can go on; not said without it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resets_in: Option<u64>,
    },
    /// Nothing comes until the client goes away.
    Hang,
    /// 200, and no JSON.
    Garbage,
}
