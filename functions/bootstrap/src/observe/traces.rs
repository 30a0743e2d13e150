//! Spans of invocations, to a collector that speaks OTLP over HTTP in JSON.
//!
//! One span an invocation does not need a tracing framework: this exporter is a request. It is waited for, as nothing
//! happens in an environment after its answer.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_s3::primitives::SdkBody;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use serde_json::{Value, json};

use crate::outside::{Outside, OutsideError};

/// How long an invocation waits for the collector.
const PATIENCE: Duration = Duration::from_millis(500);

/// Where an invocation stands in a trace (W3C Trace Context).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    trace: String,
    parent: Option<String>,
}

fn is_hex(text: &str, length: usize) -> bool {
    let hex = text.len() == length && text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'));
    hex && text.bytes().any(|b| b != b'0')
}

impl TraceContext {
    /// What `traceparent` says; else what Lambda's own trace says; else a trace of its own.
    pub fn of(traceparent: Option<&str>, xray: Option<&str>) -> Self {
        let given = traceparent.and_then(Self::from_traceparent).or_else(|| xray.and_then(Self::from_xray));
        given.unwrap_or_else(|| Self {
            trace: format!("{:032x}", rand::random::<u128>().max(1)),
            parent: None,
        })
    }

    /// `00-{trace}-{parent}-{flags}`.
    fn from_traceparent(header: &str) -> Option<Self> {
        let mut parts = header.trim().split('-');
        let (version, trace, parent) = (parts.next()?, parts.next()?, parts.next()?);
        let fits = version != "ff" && version.len() == 2 && is_hex(trace, 32) && is_hex(parent, 16);
        fits.then(|| Self { trace: trace.to_owned(), parent: Some(parent.to_owned()) })
    }

    /// `Root=1-{8 digits}-{24 digits};Parent={16 digits};Sampled=1`.
    fn from_xray(header: &str) -> Option<Self> {
        let part =
            |name: &str| header.split(';').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='));
        let mut root = part("Root")?.split('-').skip(1);
        let trace = [root.next()?, root.next()?].concat().to_ascii_lowercase();
        let parent = part("Parent").filter(|parent| is_hex(parent, 16)).map(ToOwned::to_owned);
        is_hex(&trace, 32).then_some(Self { trace, parent })
    }
}

/// One invocation.
#[derive(Debug)]
pub struct Span {
    /// The function.
    pub name: String,
    /// Where it stands.
    pub context: TraceContext,
    /// When it began.
    pub began: SystemTime,
    /// The id of the invocation.
    pub request_id: String,
    /// Whether it is the first of its environment.
    pub cold_start: bool,
    /// Why it failed.
    pub failure: Option<String>,
}

/// Sends spans to a collector.
pub struct Exporter {
    outside: Outside,
    url: String,
    headers: Vec<(String, String)>,
    service: String,
}

fn nanos(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

impl Exporter {
    /// To the collector of `OTEL_EXPORTER_OTLP_ENDPOINT`; nothing where none is named.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let endpoint = variable("OTEL_EXPORTER_OTLP_ENDPOINT").filter(|endpoint| !endpoint.is_empty())?;
        let headers = variable("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
        let headers = headers.split(',').filter_map(|pair| pair.split_once('='));
        Some(Self {
            outside: Outside::new(),
            url: format!("{}/v1/traces", endpoint.trim_end_matches('/')),
            headers: headers.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect(),
            service: variable("OTEL_SERVICE_NAME").unwrap_or_else(|| "pilothouse".to_owned()),
        })
    }

    /// Sends a span that ends now, and logs when that does not work: no invocation fails for it.
    pub async fn send(&self, span: &Span) {
        match tokio::time::timeout(PATIENCE, self.post(span)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the collector of traces did not take a span"
            ),
            Err(_) => tracing::warn!("the collector of traces is too slow"),
        }
    }

    async fn post(&self, span: &Span) -> Result<(), OutsideError> {
        let body = self.document(span, SystemTime::now()).to_string();
        let mut request = http::Request::post(&self.url).header("content-type", "application/json");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request =
            request.body(SdkBody::from(body)).map_err(|error| OutsideError::Address(Box::new(error)))?;
        let request =
            HttpRequest::try_from(request).map_err(|error| OutsideError::Address(Box::new(error)))?;
        self.outside.send(request).await.map(drop)
    }

    fn document(&self, span: &Span, ended: SystemTime) -> Value {
        let mut told = json!({
            "traceId": span.context.trace,
            "spanId": format!("{:016x}", rand::random::<u64>().max(1)),
            "name": span.name,
            "kind": 2,
            "startTimeUnixNano": nanos(span.began),
            "endTimeUnixNano": nanos(ended),
            "attributes": [
                text("faas.invocation_id", &span.request_id),
                { "key": "faas.coldstart", "value": { "boolValue": span.cold_start } },
            ],
            "status": match &span.failure {
                None => json!({}),
                Some(failure) => json!({ "code": 2, "message": failure }),
            },
        });
        if let Some(parent) = &span.context.parent {
            told["parentSpanId"] = parent.as_str().into();
        }
        json!({ "resourceSpans": [{
            "resource": { "attributes": [text("service.name", &self.service), text("faas.name", &span.name)] },
            "scopeSpans": [{ "scope": { "name": "pilothouse" }, "spans": [told] }],
        }] })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_goes_on_from_what_is_given() {
        let w3c = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let xray = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
        let given = TraceContext::of(Some(w3c), Some(xray));
        assert_eq!(given.trace, "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(given.parent.as_deref(), Some("b7ad6b7169203331"));
        let given = TraceContext::of(None, Some(xray));
        assert_eq!(given.trace, "5759e988bd862e3fe1be46a994272793");
        assert_eq!(given.parent.as_deref(), Some("53995c3f42cd8ad8"));
    }

    #[test]
    fn what_is_no_context_begins_a_trace_of_its_own() {
        let zeros = format!("00-{}-b7ad6b7169203331-01", "0".repeat(32));
        for text in ["", "00", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", &zeros] {
            let own = TraceContext::of(Some(text), Some("Root=1-5e6722a7-cc56xmpl46db7ae02d4da47e"));
            assert!(is_hex(&own.trace, 32) && own.parent.is_none(), "{text}");
            assert_ne!(own, TraceContext::of(Some(text), None));
        }
    }

    #[test]
    fn a_span_says_what_a_collector_needs() {
        let environment = |name: &str| {
            let known = [
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector.example/"),
                ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a=b, y=c"),
            ];
            known.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let exporter = Exporter::from_environment(environment).unwrap();
        assert_eq!(exporter.url, "https://collector.example/v1/traces");
        assert_eq!(exporter.headers[0], ("x-key".to_owned(), "a=b".to_owned()));
        let span = Span {
            name: "intake".to_owned(),
            context: TraceContext { trace: "a".repeat(32), parent: Some("b".repeat(16)) },
            began: UNIX_EPOCH + Duration::from_nanos(5),
            request_id: "r".to_owned(),
            cold_start: true,
            failure: Some("why".to_owned()),
        };
        let document = exporter.document(&span, UNIX_EPOCH + Duration::from_nanos(9));
        let told = &document["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!((&told["startTimeUnixNano"], &told["endTimeUnixNano"]), (&json!("5"), &json!("9")));
        assert_eq!((&told["parentSpanId"], &told["status"]["code"]), (&json!("b".repeat(16)), &json!(2)));
        assert!(Exporter::from_environment(|_| None).is_none());
    }
}
