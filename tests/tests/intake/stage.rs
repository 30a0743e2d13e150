//! The functions on embedded engines, without a server: one session, a runtime that knows no process, and a clock
//! that can be made to jump.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_broker::{MAX_BATCH, Outgoing};
use pilothouse_domain::value::Capabilities;
use pilothouse_domain::{AgentSessionId, RunId, UserId};
use pilothouse_functions::{App, Parts, intake, queues};
use pilothouse_stage::{Ground, NoRuntime, TestClock, new_session, sealed, with_run};
use pilothouse_store::{Commit, ParkedEnvelope, Store};
use pilothouse_wire::RawEvent;

use crate::meddling::Meddling;

pub(crate) struct Stage {
    pub(crate) app: App,
    pub(crate) table: Meddling,
    clock: TestClock,
    _ground: Ground,
}

impl Stage {
    pub(crate) async fn open() -> Self {
        let clock = TestClock::system();
        let ground = Ground::open(clock.shown()).await;
        let table = Meddling::new(ground.table.clone());
        let app = App::new(Parts {
            store: Store::new(Arc::new(table.clone())),
            // It knows nothing of its processes any more.
            runtime: Arc::new(NoRuntime::durable("here")),
            ..ground.parts()
        });
        Self { app, table, clock, _ground: ground }
    }

    /// Jumps to where nothing was heard of any run for too long.
    pub(crate) fn silent_for_too_long(&self) {
        self.later(self.app.deadlines.silent + Duration::from_secs(1));
    }

    /// Jumps ahead by so much.
    pub(crate) fn later(&self, by: Duration) {
        self.clock.pass(by);
    }

    /// An event of the agent arrives.
    pub(crate) async fn hears(&self, id: AgentSessionId, run: RunId, sequence: u64, event: RawEvent) {
        let message = self.message(id, run, sequence, event);
        self.app.broker.send(&queues::events(), vec![message]).await.unwrap();
        let batch = self.app.broker.receive(&queues::events(), MAX_BATCH, Duration::ZERO).await.unwrap();
        intake::handle(&self.app, batch).await.unwrap();
    }

    /// A session whose agent has begun the turn `t-1`: two events of its run are applied.
    pub(crate) async fn running_session(&self) -> (AgentSessionId, RunId) {
        let new = new_session(&UserId::parse("owner").unwrap(), "10");
        let (id, run) = with_run(&self.app, new).await;
        let ready = RawEvent::SidecarReady {
            sidecar_version: "1".to_owned(),
            adapter: "none".to_owned(),
            capabilities: Capabilities::default(),
        };
        let turn = serde_json::json!({ "type": "turn_started", "turnId": "t-1" });
        let turn = serde_json::from_value(turn).unwrap();
        let messages = vec![self.message(id, run, 1, ready), self.message(id, run, 2, turn)];
        self.app.broker.send(&queues::events(), messages).await.unwrap();
        let batch = self.app.broker.receive(&queues::events(), MAX_BATCH, Duration::ZERO).await.unwrap();
        intake::handle(&self.app, batch).await.unwrap();
        (id, run)
    }

    /// What stands in the table when an intake was ended after a commit that its transaction's limit made it close
    /// early: the next envelopes of the run are parked, and none is missing before them.
    pub(crate) async fn left_by_an_intake(&self, session: AgentSessionId, events: &[RawEvent]) {
        let mut loaded = self.app.store.conversation(session).await.unwrap().unwrap();
        let run = loaded.conversation.session.run().unwrap();
        let (run, next) = (run.id, run.inbox.next());
        let mut commit = Commit::new();
        for (sequence, event) in (next..).zip(events) {
            loaded.conversation.session.park(sequence);
            let body = serde_json::to_string(event).unwrap();
            commit.park(session, run, sequence, &ParkedEnvelope { body }, self.app.now()).unwrap();
        }
        commit.conversation(&loaded, &self.app.deadlines).unwrap();
        self.app.store.commit(commit).await.unwrap();
    }

    fn message(&self, session: AgentSessionId, run: RunId, sequence: u64, body: RawEvent) -> Outgoing {
        sealed(&self.app, session, run, Some(sequence), body)
    }
}
