//! Logs as lines of JSON, metrics in `CloudWatch`'s embedded format, which are log lines too, and spans for an optional collector.
//!
//! Every line of an invocation has the fields function, request id, trace id and cold start, and session and owner if the event
//! names them.

mod line;
mod logs;
mod meters;
mod traces;

pub(crate) use logs::INVOCATION;
pub use logs::{Sink, subscriber};
pub use meters::Meters;
pub use traces::{Exporter, Span, cause};

/// Starts logging to standard output for the rest of this process.
pub fn start() {
    let filter = std::env::var("RUST_LOG").ok();
    let subscriber = subscriber(Sink::Stdout, filter.as_deref());
    // Fails only if a test has set a subscriber.
    let _ = tracing::subscriber::set_global_default(subscriber);
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        tracing::error!(place, cause = panic.payload_as_str(), "a panic");
    }));
}
