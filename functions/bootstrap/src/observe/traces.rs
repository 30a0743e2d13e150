//! Exports spans of invocations and of their messages to a collector, by OTLP over HTTP in JSON.
//!
//! A few spans per invocation do not need a tracing framework: the exporter sends one request. It is awaited, because the
//! environment is frozen after the response.
//!
//! Following OpenTelemetry's conventions for messaging, each message of a batch has a separate span, a child of its origin. It
//! links to the span of the invocation, which links to the origins of all messages.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_s3::primitives::SdkBody;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use pilothouse_app::trace::Recorded;
use pilothouse_domain::TraceParent;
use serde_json::{Value, json};

use crate::http_client::{HttpClient, HttpClientError};

const SESSION: &str = "pilothouse.session.id";
const EXPORT_TIMEOUT: Duration = Duration::from_millis(500);

/// The parent of an invocation: from `traceparent`, otherwise from Lambda's own trace.
pub fn cause(traceparent: Option<&str>, xray: Option<&str>) -> Option<TraceParent> {
    traceparent.and_then(|text| text.parse().ok()).or_else(|| xray.and_then(from_xray))
}

/// Parses `Root=1-{8 digits}-{24 digits};Parent={16 digits};Sampled=1`.
fn from_xray(header: &str) -> Option<TraceParent> {
    let part =
        |name: &str| header.split(';').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='));
    let mut root = part("Root")?.split('-').skip(1);
    let (time, rest) = (root.next()?, root.next()?);
    let trace = (time.len() == 8 && rest.len() == 24).then(|| [time, rest].concat())?;
    let trace = u128::from_str_radix(&trace, 16).ok()?;
    // Without active tracing there is a trace id but no span id.
    let span = part("Parent").and_then(|span| u64::from_str_radix(span, 16).ok()).filter(|span| *span != 0);
    TraceParent::new(trace, span.unwrap_or_else(rand::random))
}

#[derive(Debug)]
pub struct Span {
    pub name: String,
    pub place: TraceParent,
    pub parent: Option<TraceParent>,
    pub began: SystemTime,
    pub request_id: String,
    pub cold_start: bool,
    /// None if the request names no session.
    pub session: Option<String>,
    pub failure: Option<String>,
    pub messages: Vec<Recorded>,
}

pub struct Exporter {
    http: HttpClient,
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
    /// Creates an exporter for `OTEL_EXPORTER_OTLP_ENDPOINT`, if it is set.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let endpoint = variable("OTEL_EXPORTER_OTLP_ENDPOINT").filter(|endpoint| !endpoint.is_empty())?;
        let headers = variable("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
        let headers = headers.split(',').filter_map(|pair| pair.split_once('='));
        Some(Self {
            http: HttpClient::new(),
            url: format!("{}/v1/traces", endpoint.trim_end_matches('/')),
            headers: headers.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect(),
            service: variable("OTEL_SERVICE_NAME").unwrap_or_else(|| "pilothouse".to_owned()),
        })
    }

    /// Exports a span that ends now. Failures are logged; they do not fail the invocation.
    pub async fn send(&self, span: &Span) {
        match tokio::time::timeout(EXPORT_TIMEOUT, self.post(span)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "failed to export a span to the collector of traces"
            ),
            Err(_) => tracing::warn!("timed out while exporting a span to the collector of traces"),
        }
    }

    async fn post(&self, span: &Span) -> Result<(), HttpClientError> {
        let body = self.document(span, SystemTime::now()).to_string();
        let mut request = http::Request::post(&self.url).header("content-type", "application/json");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request =
            request.body(SdkBody::from(body)).map_err(|error| HttpClientError::Address(Box::new(error)))?;
        let request =
            HttpRequest::try_from(request).map_err(|error| HttpClientError::Address(Box::new(error)))?;
        self.http.send(request).await.map(drop)
    }

    fn document(&self, span: &Span, ended: SystemTime) -> Value {
        let mut spans = vec![of_invocation(span, ended)];
        spans.extend(span.messages.iter().map(|message| of_message(message, span.place, ended)));
        json!({ "resourceSpans": [{
            "resource": { "attributes": [text("service.name", &self.service), text("faas.name", &span.name)] },
            "scopeSpans": [{ "scope": { "name": "pilothouse" }, "spans": spans }],
        }] })
    }
}

/// Builds the common fields of a span. Kind 2 is a server, 5 a consumer.
fn any(
    name: &str,
    kind: u8,
    place: TraceParent,
    parent: Option<TraceParent>,
    times: [SystemTime; 2],
    failure: Option<&str>,
) -> Value {
    let [began, ended] = times.map(nanos);
    let mut otlp_span = json!({
        "traceId": place.trace_id(),
        "spanId": place.span_id(),
        "name": name,
        "kind": kind,
        "startTimeUnixNano": began,
        "endTimeUnixNano": ended,
        "status": match failure {
            None => json!({}),
            Some(failure) => json!({ "code": 2, "message": failure }),
        },
    });
    if let Some(parent) = parent {
        otlp_span["parentSpanId"] = parent.span_id().into();
    }
    otlp_span
}

fn link(to: TraceParent) -> Value {
    json!({ "traceId": to.trace_id(), "spanId": to.span_id() })
}

fn of_invocation(span: &Span, ended: SystemTime) -> Value {
    let kind = if span.messages.is_empty() { 2 } else { 5 };
    let mut otlp_span =
        any(&span.name, kind, span.place, span.parent, [span.began, ended], span.failure.as_deref());
    let mut attributes = vec![
        text("faas.invocation_id", &span.request_id),
        json!({ "key": "faas.coldstart", "value": { "boolValue": span.cold_start } }),
    ];
    attributes.extend(span.session.as_ref().map(|session| text(SESSION, session)));
    otlp_span["attributes"] = attributes.into();
    let origins = span.messages.iter().filter(|message| message.remote).filter_map(|message| message.parent);
    otlp_span["links"] = origins.map(link).collect();
    otlp_span
}

fn of_message(message: &Recorded, invocation: TraceParent, ended: SystemTime) -> Value {
    let Recorded { place, parent, remote, began, about, failure, .. } = message;
    let times = [*began, message.ended.unwrap_or(ended)];
    let mut otlp_span = any(about.function, 5, *place, *parent, times, failure.as_deref());
    let system = if about.source == "journal" { "dynamodb_stream" } else { "aws_sqs" };
    let mut attributes = vec![
        text("messaging.system", system),
        text("messaging.operation.type", "process"),
        text("messaging.operation.name", about.function),
        text("messaging.destination.name", about.source),
        text(SESSION, &about.session.to_string()),
        text("pilothouse.message.kind", &about.kind),
    ];
    attributes.extend(about.run.map(|run| text("pilothouse.run.id", &run.to_string())));
    otlp_span["attributes"] = attributes.into();
    if *remote {
        otlp_span["links"] = json!([link(invocation)]);
    }
    otlp_span
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const W3C: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn trace_continues_the_given_context() {
        let xray = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
        assert_eq!(cause(Some(W3C), Some(xray)).unwrap().to_string(), W3C);
        let given = cause(None, Some(xray)).unwrap();
        assert_eq!(given.trace_id(), "5759e988bd862e3fe1be46a994272793");
        assert_eq!(given.span_id(), "53995c3f42cd8ad8");
        let passive = cause(None, Some("Root=1-5759e988-bd862e3fe1be46a994272793")).unwrap();
        assert_eq!(passive.trace_id(), given.trace_id());
    }

    #[test]
    fn invalid_trace_context_is_ignored() {
        for xray in ["", "Root=1-5e6722a7-cc56xmpl46db7ae02d4da47e", "Root=1-0-0", "Root=1-é-x"] {
            assert_eq!(cause(Some("00-nonsense"), Some(xray)), None, "{xray}");
        }
    }

    #[test]
    fn span_contains_what_a_collector_needs() {
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
            place: W3C.parse().unwrap(),
            parent: TraceParent::new(1, 2),
            began: UNIX_EPOCH + Duration::from_nanos(5),
            request_id: "r".to_owned(),
            cold_start: true,
            session: None,
            failure: Some("why".to_owned()),
            messages: Vec::new(),
        };
        let document = exporter.document(&span, UNIX_EPOCH + Duration::from_nanos(9));
        let span_json = &document["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!(
            (&span_json["startTimeUnixNano"], &span_json["endTimeUnixNano"]),
            (&json!("5"), &json!("9"))
        );
        assert_eq!(
            (&span_json["parentSpanId"], &span_json["status"]["code"]),
            (&json!("0000000000000002"), &json!(2))
        );
        assert!(Exporter::from_environment(|_| None).is_none());
    }
}
