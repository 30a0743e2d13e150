//! Images of messages and prompts (decision 100). The control plane sends references to them. An adapter loads the bytes just before
//! it gives the message to its agent.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use pilothouse_domain::value::{ImageType, MessageImage};
use pilothouse_wire::RawEvent;
use pilothouse_wire::keys::sha256_hex;
use pilothouse_wire::launch::SidecarLaunch;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::time::{Instant, timeout_at};
use tracing::warn;

use super::notices::detailed_notice;
use crate::adapter::EventSink;
use crate::broker::BrokerError;
use crate::broker::control_plane::{ControlPlane, TIMEOUT};
use crate::retry::Backoff;
use crate::spool::SpoolError;

/// How long the images of a message may take. Commands wait meanwhile, and an interrupt must take effect within a minute (decision 12).
const LIMIT: Duration = Duration::from_secs(20);
/// Attempts to load an image. The message waits for them.
const MAX_TRIES: u32 = 3;
/// Bounds of the pause before the next attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// An image with its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoadedImage {
    pub media_type: ImageType,
    pub size_bytes: u64,
    /// The bytes in base64, as agents and model providers expect them.
    pub base64: String,
}

/// The images of a session. The client is created for each message that has images, which are few.
#[derive(Clone)]
pub(crate) struct Images {
    launch: Arc<SidecarLaunch>,
}

impl Images {
    pub(crate) const fn of(launch: Arc<SidecarLaunch>) -> Self {
        Self { launch }
    }

    /// Loads images. Leaves out those that cannot be loaded, with a notice, because the text of the message must not be lost.
    pub(crate) async fn load(
        &self,
        images: &[MessageImage],
        events: &EventSink,
    ) -> Result<Vec<LoadedImage>, SpoolError> {
        let until = Instant::now() + LIMIT;
        let mut loaded = Vec::with_capacity(images.len());
        let mut failed = None;
        for image in images {
            let late = |_| Err(format!("it takes longer than {} seconds", LIMIT.as_secs()));
            match timeout_at(until, self.load_one(image)).await.unwrap_or_else(late) {
                Ok(image) => loaded.push(image),
                Err(error) => {
                    warn!(sha256 = image.sha256.as_str(), error, "failed to load an image");
                    failed = Some(error);
                }
            }
        }
        if let Some(error) = failed {
            let missing = images.len() - loaded.len();
            events.emit(left_out(missing, &format!("loading failed: {error}"))).await?;
        }
        Ok(loaded)
    }

    /// The error is a sentence for people, without its full stop.
    async fn load_one(&self, image: &MessageImage) -> Result<LoadedImage, String> {
        let broker = &self.launch.broker;
        let server = ControlPlane::new(broker.url(), broker.token()).map_err(|error| error.to_string())?;
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut tried = 1;
        let bytes = loop {
            match fetch(&server, image).await {
                Ok(bytes) => break bytes,
                Err(error) if tried == MAX_TRIES || !may_succeed_later(&error) => {
                    return Err(error.to_string());
                }
                Err(_) => tokio::time::sleep(backoff.failed()).await,
            }
            tried += 1;
        };
        if sha256_hex(&bytes) != image.sha256.as_str() {
            return Err("the bytes do not have the hash of the image".to_owned());
        }
        let (media_type, size_bytes) = (image.media_type, image.size_bytes);
        Ok(LoadedImage { media_type, size_bytes, base64: STANDARD.encode(&bytes) })
    }
}

async fn fetch(server: &ControlPlane, image: &MessageImage) -> Result<Bytes, BrokerError> {
    let request = server.request(Method::GET, &format!("images/{}", image.sha256.as_str()));
    Ok(server.send(request, TIMEOUT).await?.bytes().await?)
}

fn may_succeed_later(error: &BrokerError) -> bool {
    match error {
        BrokerError::Status(status) => status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS,
        other => !other.is_final(),
    }
}

/// The notice about images of a message that the agent does not get.
pub(crate) fn left_out(count: usize, why: &str) -> RawEvent {
    let what = if count == 1 { "an image".to_owned() } else { format!("{count} images") };
    let summary = format!("the agent gets a message without {what}: {why}");
    detailed_notice("images_left_out", summary, json!({ "count": count }))
}

/// The text of a message for an agent that cannot receive its images.
pub(crate) fn text_without_images(text: &str, count: usize) -> String {
    match count {
        0 => text.to_owned(),
        1 => format!("{text}\n\n(An image is attached to this message. You cannot receive it.)"),
        n => format!("{text}\n\n({n} images are attached to this message. You cannot receive them.)"),
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_domain::AgentSessionId;
    use pilothouse_domain::value::ContentHash;
    use pilothouse_wire::launch::BrokerAccess;
    use uuid::Uuid;

    use super::*;
    use crate::spool::tests::{bodies, launch, open};

    /// The clock is paused: time passes only when no task can continue.
    #[tokio::test(start_paused = true)]
    async fn server_that_does_not_answer_delays_a_message_by_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let spool = open(dir.path());
        // Accepts connections, and answers nothing.
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut launch = launch();
        let BrokerAccess::Gateway { url, .. } = &mut launch.broker else { panic!() };
        *url = format!("http://{}", server.local_addr().unwrap());
        let image = |digit: &str| MessageImage {
            media_type: ImageType::Png,
            sha256: ContentHash::parse(digit.repeat(64)).unwrap(),
            size_bytes: 1,
            session_id: AgentSessionId::new(Uuid::from_u128(1)),
        };
        let images = ["a", "b", "c"].map(image);
        let (since, events) = (Instant::now(), EventSink::new(spool.clone()));
        let loaded = Images::of(Arc::new(launch)).load(&images, &events).await.unwrap();
        assert!(
            loaded.is_empty() && since.elapsed() < LIMIT + Duration::from_secs(1),
            "{:?}",
            since.elapsed()
        );
        let notices = bodies(&spool).await;
        assert_eq!((notices.len(), &notices[0]["detail"]["count"]), (1, &json!(3)));
    }

    #[test]
    fn text_says_how_many_images_are_missing() {
        assert_eq!(text_without_images("look", 0), "look");
        assert!(
            text_without_images("look", 1)
                .ends_with("(An image is attached to this message. You cannot receive it.)")
        );
        assert!(text_without_images("look", 3).contains("(3 images are attached"));
    }

    #[test]
    fn only_temporary_errors_are_retried() {
        assert!(may_succeed_later(&BrokerError::Late));
        assert!(may_succeed_later(&BrokerError::Status(StatusCode::BAD_GATEWAY)));
        assert!(may_succeed_later(&BrokerError::Status(StatusCode::TOO_MANY_REQUESTS)));
        assert!(!may_succeed_later(&BrokerError::Status(StatusCode::NOT_FOUND)));
        assert!(!may_succeed_later(&BrokerError::RunOver));
    }
}
