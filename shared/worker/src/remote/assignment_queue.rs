use std::time::Duration;

use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region, timeout::TimeoutConfig};
use pilothouse_broker::sqs::{SqsBroker, SqsConfig};
use pilothouse_broker::{Broker as _, MAX_BATCH, MAX_WAIT, QueueError, QueueName, Receipt};
use pilothouse_client::{ApiError, Client};
use pilothouse_wire::worker::{OrdersAccess, QueueCredentials, TakeOrders, TakenOrder, WorkerId};

const RETRY_DELAY: Duration = Duration::from_secs(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Local name of the queue; only its URL matters.
const QUEUE: &str = "worker.fifo";

/// Receipts of processed assignments, sent with the next request.
#[derive(Debug, Default)]
pub(super) struct Receipts {
    pub(super) done: Vec<String>,
    pub(super) release: Vec<String>,
}

/// A retry may succeed.
#[derive(Debug, thiserror::Error)]
pub(super) enum QueueAccessError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("the worker's queue failed")]
    Queue(#[from] QueueError),
    #[error("the URL of the queue is invalid")]
    Unusable,
}

pub(super) enum AssignmentQueue {
    Http { client: Box<Client>, id: WorkerId },
    Sqs { broker: SqsBroker, queue: QueueName },
}

impl AssignmentQueue {
    pub(super) fn open(
        access: &OrdersAccess,
        client: &Client,
        id: &WorkerId,
    ) -> Result<Self, QueueAccessError> {
        match access {
            OrdersAccess::Http {} => Ok(Self::Http { client: Box::new(client.clone()), id: id.clone() }),
            OrdersAccess::Sqs(credentials) => sqs(credentials),
        }
    }

    /// Acknowledges or releases processed assignments, and waits for new ones.
    pub(super) async fn receive(&self, receipts: &mut Receipts) -> Result<Vec<TakenOrder>, QueueAccessError> {
        match self {
            Self::Http { client, id } => {
                let request = TakeOrders {
                    done: receipts.done.clone(),
                    again: receipts.release.clone(),
                    wait_seconds: MAX_WAIT.as_secs_f64(),
                };
                let taken = client.take_assignments(id, &request).await?;
                *receipts = Receipts::default();
                Ok(taken.orders)
            }
            Self::Sqs { broker, queue } => {
                let parse = |ids: &[String]| ids.iter().cloned().map(Receipt).collect::<Vec<_>>();
                broker.delete(queue, &parse(&receipts.done)).await?;
                receipts.done.clear();
                broker.release(queue, &parse(&receipts.release), RETRY_DELAY).await?;
                receipts.release.clear();
                let received = broker.receive(queue, MAX_BATCH, MAX_WAIT).await?;
                Ok(received.into_iter().map(|m| TakenOrder { receipt: m.receipt.0, body: m.body }).collect())
            }
        }
    }
}

fn sqs(access: &QueueCredentials) -> Result<AssignmentQueue, QueueAccessError> {
    let credentials = Credentials::new(
        &access.access_key_id,
        &access.secret_access_key,
        Some(access.session_token.clone()),
        None, // heartbeats renew the credentials before they expire
        "worker",
    );
    let http = aws_smithy_http_client::Builder::new()
        .tls_provider(aws_smithy_http_client::tls::Provider::Rustls(
            aws_smithy_http_client::tls::rustls_provider::CryptoMode::AwsLc,
        ))
        .build_https();
    let mut config = aws_sdk_sqs::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new(access.region.clone()))
        .credentials_provider(credentials)
        .http_client(http)
        .timeout_config(TimeoutConfig::builder().connect_timeout(CONNECT_TIMEOUT).build());
    config.set_endpoint_url(access.endpoint.clone());
    let queue = QueueName::parse(QUEUE).ok_or(QueueAccessError::Unusable)?;
    let known = SqsConfig::new("x").with_known_url(queue.clone(), access.queue_url.clone());
    let client = aws_sdk_sqs::Client::from_conf(config.build());
    let broker = SqsBroker::new(client, known).map_err(|_| QueueAccessError::Unusable)?;
    Ok(AssignmentQueue::Sqs { broker, queue })
}
