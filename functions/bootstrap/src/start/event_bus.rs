//! The event bus (`EventBridge`) and the topic of notifications (SNS). Their two requests are signed here, because the SDKs of
//! both services would add megabytes to the artifact.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use axum::body::{Body, to_bytes};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use pilothouse_app::integrations::{EventBus, PublishError};
use pilothouse_domain::UserId;
use pilothouse_domain::announcement::{Announcement, Notification};
use serde::Deserialize;
use serde_json::{Value, json};

use super::clients::Clients;
use crate::http_client::{HttpClient, HttpClientError};

/// All bytes except those that never have to be escaped (RFC 3986, 2.3).
const ESCAPED_IN_FORMS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The maximum number of entries per request (`EventBridge`).
const ENTRIES: usize = 10;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_ANSWER_BYTES: usize = 64 * 1024;

pub(super) struct AwsEventBus {
    http: HttpClient,
    credentials: SharedCredentialsProvider,
    region: String,
    endpoint: Option<String>,
    bus: String,
    topic: String,
}

impl AwsEventBus {
    /// Returns `None` if the environment has no region or no credentials.
    pub(super) fn new(clients: &Clients, bus: &str, topic: &str) -> Option<Self> {
        Some(Self {
            http: HttpClient::new(),
            credentials: clients.shared.credentials_provider()?,
            region: clients.shared.region()?.to_string(),
            endpoint: clients.shared.endpoint_url().map(str::to_owned),
            bus: bus.to_owned(),
            topic: topic.to_owned(),
        })
    }

    fn url(&self, service: &str) -> String {
        let domain = if self.region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        match &self.endpoint {
            Some(endpoint) => format!("{}/", endpoint.trim_end_matches('/')),
            None => format!("https://{service}.{}.{domain}/", self.region),
        }
    }

    async fn post(
        &self,
        service: &str,
        headers: &[(&'static str, &str)],
        body: String,
    ) -> Result<Vec<u8>, PublishError> {
        match tokio::time::timeout(REQUEST_TIMEOUT, self.send(service, headers, body)).await {
            Ok(sent) => sent.map_err(PublishError),
            Err(late) => Err(PublishError(Box::new(late))),
        }
    }

    async fn send(
        &self,
        service: &str,
        headers: &[(&'static str, &str)],
        body: String,
    ) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
        let url = self.url(service);
        let identity = self.credentials.provide_credentials().await?.into();
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(service)
            .time(SystemTime::now())
            .settings(SigningSettings::default())
            .build()?;
        let signable = SignableRequest::new(
            "POST",
            &url,
            headers.iter().copied(),
            SignableBody::Bytes(body.as_bytes()),
        )?;
        let (instructions, _) = sign(signable, &parameters.into())?.into_parts();
        let signed = instructions.headers().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut request = HttpRequest::new(body.into());
        request.set_method("POST")?;
        request.set_uri(url).map_err(|error| HttpClientError::Address(Box::new(error)))?;
        for (name, value) in headers {
            request.headers_mut().try_insert(*name, (*value).to_owned())?;
        }
        for (name, value) in signed {
            request.headers_mut().try_insert(name, value)?;
        }
        let response = self.http.send(request).await?;
        Ok(to_bytes(Body::new(response.into_body()), MAX_ANSWER_BYTES).await?.into())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Put {
    #[serde(default)]
    failed_entry_count: u32,
}

/// The event bus refused some of the events.
#[derive(Debug, thiserror::Error)]
#[error("{0} events were refused")]
struct NotTaken(u32);

#[async_trait]
impl EventBus for AwsEventBus {
    async fn publish(&self, announcements: &[Announcement]) -> Result<(), PublishError> {
        for some in announcements.chunks(ENTRIES) {
            let entries: Vec<_> = some.iter().map(|announcement| entry(&self.bus, announcement)).collect();
            let headers =
                [("content-type", "application/x-amz-json-1.1"), ("x-amz-target", "AWSEvents.PutEvents")];
            let response = self.post("events", &headers, json!({ "Entries": entries }).to_string()).await?;
            let put: Put =
                serde_json::from_slice(&response).map_err(|error| PublishError(Box::new(error)))?;
            if put.failed_entry_count > 0 {
                return Err(PublishError(Box::new(NotTaken(put.failed_entry_count))));
            }
        }
        Ok(())
    }

    async fn notify(&self, owner: &UserId, notifications: &[Notification]) -> Result<(), PublishError> {
        for notification in notifications {
            let headers = [("content-type", "application/x-www-form-urlencoded")];
            self.post("sns", &headers, form(&self.topic, owner, notification)).await?;
        }
        Ok(())
    }
}

/// An event for the event bus. The detail includes the event's id and number, so that consumers can deduplicate it.
fn entry(bus: &str, announcement: &Announcement) -> Value {
    let mut detail = announcement.detail.clone();
    if let Some(fields) = detail.as_object_mut() {
        fields.insert("eventId".to_owned(), announcement.id.clone().into());
        fields.insert("sequence".to_owned(), announcement.sequence.into());
    }
    json!({
        "EventBusName": bus,
        "Source": announcement.source,
        "DetailType": announcement.event,
        "Detail": detail.to_string(),
        "Time": announcement.at.as_secs(),
    })
}

/// A message for the topic. Subscriptions filter by `kind` and `ownerId`.
fn form(topic: &str, owner: &UserId, notification: &Notification) -> String {
    let kind = serde_json::to_value(notification.kind).ok();
    let kind = kind.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
    let message = json!({ "ownerId": owner, "notification": notification }).to_string();
    let mut fields = vec![
        ("Action".to_owned(), "Publish".to_owned()),
        ("Version".to_owned(), "2010-03-31".to_owned()),
        ("TopicArn".to_owned(), topic.to_owned()),
        ("Subject".to_owned(), format!("Pilothouse: {kind}")),
        ("Message".to_owned(), message),
    ];
    for (at, (name, value)) in [("kind", kind.as_str()), ("ownerId", owner.as_str())].into_iter().enumerate()
    {
        let attribute = format!("MessageAttributes.entry.{}", at + 1);
        fields.push((format!("{attribute}.Name"), name.to_owned()));
        fields.push((format!("{attribute}.Value.DataType"), "String".to_owned()));
        fields.push((format!("{attribute}.Value.StringValue"), value.to_owned()));
    }
    let escaped = |text| utf8_percent_encode(text, ESCAPED_IN_FORMS);
    let fields: Vec<_> =
        fields.iter().map(|(name, value)| format!("{}={}", escaped(name), escaped(value))).collect();
    fields.join("&")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use pilothouse_domain::Timestamp;
    use pilothouse_domain::announcement::{NotificationKind, SOURCE};

    use super::*;

    #[test]
    fn bus_event_has_source_type_time_and_detail() {
        let announcement = Announcement {
            sequence: 7,
            id: "e.0".to_owned(),
            event: "SessionPausedEvent".to_owned(),
            source: SOURCE.to_owned(),
            at: Timestamp::from_millis(1_614_265_330_500),
            detail: json!({ "sessionId": "s", "ownerId": "ada" }),
        };
        let entry = entry("pilothouse", &announcement);
        assert_eq!((&entry["Source"], &entry["Time"]), (&json!("pilothouse.agents"), &json!(1_614_265_330)));
        assert_eq!(entry["DetailType"], "SessionPausedEvent");
        let detail: Value = serde_json::from_str(entry["Detail"].as_str().unwrap()).unwrap();
        assert_eq!(detail, json!({ "sessionId": "s", "ownerId": "ada", "eventId": "e.0", "sequence": 7 }));
    }

    #[test]
    fn topic_notification_is_published_as_a_form() {
        let notification = Notification {
            sequence: 7,
            kind: NotificationKind::OutputReady,
            text: "Output & more".to_owned(),
            session_id: None,
            at: Timestamp::from_millis(0),
            read_at: None,
        };
        let form = form("arn:aws:sns:x:1:t", &UserId::parse("ada@example").unwrap(), &notification);
        assert!(
            form.starts_with("Action=Publish&Version=2010-03-31&TopicArn=arn%3Aaws%3Asns%3Ax%3A1%3At&"),
            "{form}"
        );
        assert!(form.contains("Subject=Pilothouse%3A%20output-ready&"), "{form}");
        assert!(form.contains("Output%20%26%20more"), "{form}");
        assert!(form.ends_with("MessageAttributes.entry.2.Value.StringValue=ada%40example"), "{form}");
    }
}
