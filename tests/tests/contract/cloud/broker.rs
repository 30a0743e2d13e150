//! The broker in SQS.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::Client;
use pilothouse_broker::contract::{self, Subject};
use pilothouse_broker::{Broker, OutgoingMessage, QueueName, QueueOptions, SqsBroker, SqsConfig};

use super::{client, then_clean, unique};

struct Queues {
    prefix: String,
    broker: Arc<dyn Broker>,
}

fn sqs() -> Client {
    Client::from_conf(client!(aws_sdk_sqs).build())
}

impl Queues {
    fn start() -> Self {
        let prefix = unique();
        let broker = Arc::new(SqsBroker::new(sqs(), SqsConfig::new(&prefix)).unwrap());
        Self { prefix, broker }
    }
}

async fn remove(prefix: String) {
    let client = sqs();
    let queues = client.list_queues().queue_name_prefix(format!("{prefix}-")).send().await.unwrap();
    for url in queues.queue_urls() {
        client.delete_queue().queue_url(url).send().await.unwrap();
    }
}

#[async_trait]
impl Subject for Queues {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::clone(&self.broker)
    }

    async fn restart(&mut self) {
        self.broker = Arc::new(SqsBroker::new(sqs(), SqsConfig::new(&self.prefix)).unwrap());
    }

    async fn advance(&self, by: Duration) {
        assert!(by < Duration::from_secs(5), "a case for engines with clocks of their own");
        tokio::time::sleep(by).await;
    }
}

macro_rules! run {
    ($setup:path; $($case:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "needs a local cloud at PILOTHOUSE_CLOUD"]
            async fn $case() {
                let mut queues = $setup();
                let prefix = queues.prefix.clone();
                then_clean(async move { contract::$case(&mut queues).await }, remove(prefix)).await;
            }
        )*
    };
}

pilothouse_broker::broker_cases!(run, Queues::start);

fn name(name: &str) -> QueueName {
    QueueName::parse(name).unwrap()
}

/// The broker notices that another process removed a queue, and that one was created again.
#[tokio::test]
#[ignore = "needs a local cloud at PILOTHOUSE_CLOUD"]
async fn address_of_a_deleted_queue_is_forgotten() {
    let queues = Queues::start();
    let prefix = queues.prefix.clone();
    let case = async move {
        let (here, q) = (queues.broker(), name("q.fifo"));
        let there = SqsBroker::new(sqs(), SqsConfig::new(&queues.prefix)).unwrap();
        let options = QueueOptions { visibility: Duration::from_mins(1), max_receives: Some(3) };
        here.create(&q, options.clone()).await.unwrap();
        there.remove(&q).await.unwrap();
        let gone = here.send(&q, vec![OutgoingMessage::new("g", "1", "1")]).await;
        assert!(matches!(gone, Err(pilothouse_broker::QueueError::NoSuchQueue(_))));
        there.create(&q, options).await.unwrap();
        here.send(&q, vec![OutgoingMessage::new("g", "1", "1")]).await.unwrap();
        assert_eq!(there.depth(&q).await.unwrap().visible, 1);
    };
    then_clean(case, remove(prefix)).await;
}

/// Two deployments in one account are separate, even if one name is a prefix of the other.
#[tokio::test]
#[ignore = "needs a local cloud at PILOTHOUSE_CLOUD"]
async fn deployments_do_not_share_queues() {
    let queues = Queues::start();
    let prefix = queues.prefix.clone();
    let case = async move {
        let other = SqsBroker::new(sqs(), SqsConfig::new(format!("{}-b", queues.prefix))).unwrap();
        let options = QueueOptions { visibility: Duration::from_mins(1), max_receives: None };
        queues.broker().create(&name("q.fifo"), options.clone()).await.unwrap();
        other.create(&name("q.fifo"), options).await.unwrap();
        other.send(&name("q.fifo"), vec![OutgoingMessage::new("g", "1", "1")]).await.unwrap();
        assert_eq!(queues.broker().depth(&name("q.fifo")).await.unwrap().visible, 0);
        assert_eq!(other.list("").await.unwrap(), [name("q.fifo")]);
    };
    then_clean(case, remove(prefix)).await;
}

/// Standard queues delay messages and do not deduplicate.
#[tokio::test]
#[ignore = "needs a local cloud at PILOTHOUSE_CLOUD"]
async fn standard_queue_delays_and_dead_letters_messages() {
    let queues = Queues::start();
    let prefix = queues.prefix.clone();
    let case = async move {
        let (broker, q) = (queues.broker(), name("deadlines"));
        let options = QueueOptions { visibility: Duration::from_mins(1), max_receives: Some(3) };
        broker.create(&q, options).await.unwrap();
        let late =
            OutgoingMessage { delay: Duration::from_secs(2), ..OutgoingMessage::new("g", "1", "late") };
        let outcome = broker.send(&q, vec![late, OutgoingMessage::new("g", "1", "now")]).await.unwrap();
        assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
        let now = broker.receive(&q, 10, Duration::ZERO).await.unwrap();
        assert_eq!(now.iter().map(|m| m.body.as_str()).collect::<Vec<_>>(), ["now"]);
        broker.delete(&q, &[now[0].receipt.clone()]).await.unwrap();
        let late = broker.receive(&q, 10, Duration::from_secs(10)).await.unwrap();
        assert_eq!(late[0].body, "late");
        broker.dead_letter(&q, &late[0], "why").await.unwrap();
        let dead = broker.receive_dead_letters(&q, 10).await.unwrap();
        assert_eq!((dead[0].body.as_str(), dead[0].cause.as_str()), ("late", "why"));
        broker.forget(&q, &dead[0].receipt).await.unwrap();
        assert_eq!(broker.dead_letter_depth(&q).await.unwrap(), 0);
    };
    then_clean(case, remove(prefix)).await;
}

/// For callers without permission to look up addresses.
#[tokio::test]
#[ignore = "needs a local cloud at PILOTHOUSE_CLOUD"]
async fn a_known_address_is_not_looked_up() {
    let queues = Queues::start();
    let prefix = queues.prefix.clone();
    let case = async move {
        let q = name("q.fifo");
        let made = SqsBroker::new(sqs(), SqsConfig::new(&queues.prefix)).unwrap();
        let options = QueueOptions { visibility: Duration::from_mins(1), max_receives: None };
        made.create(&q, options).await.unwrap();
        let url = made.url(&q).await.unwrap();
        // No queue exists under this prefix.
        let config = SqsConfig::new("elsewhere").with_known_url(q.clone(), &*url);
        let other = SqsBroker::new(sqs(), config).unwrap();
        other.send(&q, vec![OutgoingMessage::new("g", "1", "1")]).await.unwrap();
        assert_eq!(made.depth(&q).await.unwrap().visible, 1);
    };
    then_clean(case, remove(prefix)).await;
}
