//! Where orders come from.

use std::time::Duration;

use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region, timeout::TimeoutConfig};
use pilothouse_broker::sqs::{SqsBroker, SqsConfig};
use pilothouse_broker::{Broker as _, MAX_BATCH, MAX_WAIT, QueueError, QueueName, Receipt};
use pilothouse_wire::worker::{OrdersAccess, QueueCredentials, TakeOrders, TakenOrder, WorkerId};

use crate::client::{ApiError, Client};

/// After how long an order that could not be carried out comes again.
const AGAIN: Duration = Duration::from_secs(1);
/// How long a connection to SQS may take.
const CONNECT: Duration = Duration::from_secs(5);
/// What the one queue that is known is called on this side. Its address is what counts.
const QUEUE: &str = "worker.fifo";

/// Orders that were taken, and are settled with the next ones.
#[derive(Debug, Default)]
pub(super) struct Settled {
    pub(super) done: Vec<String>,
    pub(super) again: Vec<String>,
}

/// Why no orders could be taken; trying again may work.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("the worker's queue failed")]
    Queue(#[from] QueueError),
    #[error("the queue's address cannot be used")]
    Unusable,
}

/// The worker's queue.
pub(super) enum Source {
    Http { client: Box<Client>, id: WorkerId },
    Sqs { broker: SqsBroker, queue: QueueName },
}

impl Source {
    pub(super) fn of(access: &OrdersAccess, client: &Client, id: &WorkerId) -> Result<Self, SourceError> {
        match access {
            OrdersAccess::Http {} => Ok(Self::Http { client: Box::new(client.clone()), id: id.clone() }),
            OrdersAccess::Sqs(credentials) => sqs(credentials),
        }
    }

    /// Settles what was taken, and waits for more.
    pub(super) async fn take(&self, settled: &mut Settled) -> Result<Vec<TakenOrder>, SourceError> {
        match self {
            Self::Http { client, id } => {
                let ask = TakeOrders {
                    done: settled.done.clone(),
                    again: settled.again.clone(),
                    wait_seconds: MAX_WAIT.as_secs_f64(),
                };
                let taken = client.take_orders(id, &ask).await?;
                *settled = Settled::default();
                Ok(taken.orders)
            }
            Self::Sqs { broker, queue } => {
                let receipts = |ids: &[String]| ids.iter().cloned().map(Receipt).collect::<Vec<_>>();
                broker.delete(queue, &receipts(&settled.done)).await?;
                settled.done.clear();
                broker.release(queue, &receipts(&settled.again), AGAIN).await?;
                settled.again.clear();
                let received = broker.receive(queue, MAX_BATCH, MAX_WAIT).await?;
                Ok(received.into_iter().map(|m| TakenOrder { receipt: m.receipt.0, body: m.body }).collect())
            }
        }
    }
}

fn sqs(access: &QueueCredentials) -> Result<Source, SourceError> {
    let credentials = Credentials::new(
        &access.access_key_id,
        &access.secret_access_key,
        Some(access.session_token.clone()),
        None, // Their end is watched by the heartbeats, which bring fresh ones.
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
        .timeout_config(TimeoutConfig::builder().connect_timeout(CONNECT).build());
    config.set_endpoint_url(access.endpoint.clone());
    let queue = QueueName::parse(QUEUE).ok_or(SourceError::Unusable)?;
    let known = SqsConfig::new("x").with_known(queue.clone(), access.queue_url.clone());
    let client = aws_sdk_sqs::Client::from_conf(config.build());
    let broker = SqsBroker::new(client, known).map_err(|_| SourceError::Unusable)?;
    Ok(Source::Sqs { broker, queue })
}
