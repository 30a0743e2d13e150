//! What can be seen of a function: logs as lines of JSON, and metrics in `CloudWatch`'s embedded format, which are lines of
//! the log too, and spans where a collector takes them.
//!
//! Every line of an invocation carries its fields: function, request id, trace id, cold start, and session and owner
//! where the event names them.

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
    // There is none before, unless a test has set one.
    let _ = tracing::subscriber::set_global_default(subscriber);
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        tracing::error!(place, cause = panic.payload_as_str(), "a panic");
    }));
}
