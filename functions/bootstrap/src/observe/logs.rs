use std::io::Write as _;
use std::sync::mpsc::Sender;

use pilothouse_app::METRICS;
use pilothouse_domain::Timestamp;
use pilothouse_store::{Clock, system_clock};
use serde_json::{Map, Value};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};

use super::line::Fields;
use super::meters::Meters;

/// The default filter. Failures are logged once, here, so the Lambda runtime is silenced.
const DEFAULT: &str = "info,aws=warn,lambda_runtime=off";
/// The span of an invocation, whose metrics are written when it closes.
pub(crate) const INVOCATION: &str = "invocation";

#[derive(Debug, Clone)]
pub enum Sink {
    /// Standard output, which Lambda collects.
    Stdout,
    /// A test that reads the lines.
    Test(Sender<String>),
}

impl Sink {
    fn write(&self, line: &Value) {
        match self {
            // One write per line, because Lambda treats each write as an entry. Errors cannot be reported anywhere.
            Self::Stdout => drop(std::io::stdout().lock().write_all(format!("{line}\n").as_bytes())),
            Self::Test(sender) => drop(sender.send(line.to_string())),
        }
    }
}

/// Creates a subscriber that logs to `sink` what `filter` accepts (targets and levels, as in `RUST_LOG`), and collects metrics.
pub fn subscriber(sink: Sink, filter: Option<&str>) -> impl Subscriber + Send + Sync {
    let wanted = filter.and_then(|filter| format!("{DEFAULT},{filter}").parse::<Targets>().ok());
    let wanted = wanted.or_else(|| DEFAULT.parse().ok()).unwrap_or_default();
    let wanted = wanted.with_target(METRICS, LevelFilter::TRACE);
    Registry::default().with(wanted).with(Lines { sink, clock: system_clock() })
}

struct Lines {
    sink: Sink,
    clock: Clock,
}

impl Lines {
    fn time(&self) -> Timestamp {
        (self.clock)()
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
        if attributes.metadata().name() == INVOCATION {
            span.extensions_mut().insert(Meters::default());
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let meta = event.metadata();
        let mut scope =
            context.event_scope(event).into_iter().flat_map(tracing_subscriber::registry::Scope::from_root);
        if meta.target() == METRICS {
            if let Some(mut meters) = scope.find_map(|span| span.extensions().get::<Meters>().cloned()) {
                event.record(&mut meters);
            }
            return;
        }
        let mut line = Map::new();
        line.insert("time".to_owned(), self.time().to_string().into());
        line.insert("level".to_owned(), meta.level().as_str().into());
        let mut said = Fields::default();
        event.record(&mut said);
        if let Some(message) = said.0.remove("message") {
            line.insert("message".to_owned(), message);
        }
        for span in scope {
            if let Some(Fields(fields)) = span.extensions().get::<Fields>() {
                line.extend(fields.clone());
            }
        }
        line.insert("target".to_owned(), meta.target().into());
        line.extend(said.0);
        self.sink.write(&Value::Object(line));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let extensions = span.extensions();
        let (Some(meters), Some(Fields(fields))) = (extensions.get::<Meters>(), extensions.get::<Fields>())
        else {
            return;
        };
        let function = fields.get("function").and_then(Value::as_str).unwrap_or("unknown");
        if let Some(line) = meters.line(function, self.time()) {
            self.sink.write(&line);
        }
    }
}
