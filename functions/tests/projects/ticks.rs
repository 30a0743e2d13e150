//! The clock of a project follows the sessions of its agents.

use std::time::Duration;

use pilothouse_domain::tick::TickClock;
use pilothouse_store::Loaded;

use super::*;

impl ProjectFixture {
    async fn stored_clock(&self) -> Option<Loaded<TickClock>> {
        self.app.store.tick_clock(self.project).await.unwrap()
    }

    pub(crate) async fn tick(&self) -> u64 {
        let time = self.app.project_time(self.project).await.unwrap().unwrap();
        time.tick(self.app.now()).unwrap().get()
    }
}

#[tokio::test]
async fn clock_runs_while_the_agent_works_or_waits_for_a_person() {
    let fixture = ProjectFixture::spawned().await;
    fixture.advance(Duration::from_mins(1));
    assert_eq!(fixture.stored_clock().await, None);
    fixture.react().await;
    fixture.advance(Duration::from_secs(5));
    assert_eq!(fixture.tick().await, 5);

    let fixture = ProjectFixture::working().await;
    fixture.observe(permission("q1")).await;
    fixture.react().await;
    fixture.advance(Duration::from_secs(7));
    assert_eq!(fixture.tick().await, 7, "it waits for a person");
    fixture.resolve("q1", json!({ "resolutionType": "approve" })).await;
    fixture.complete_turn(false).await;
    fixture.react().await;
    fixture.advance(Duration::from_mins(1));
    assert_eq!(fixture.tick().await, 7, "it has nothing to do");
}

#[tokio::test]
async fn clock_is_written_only_when_an_agent_becomes_active_or_inactive() {
    let fixture = ProjectFixture::working().await;
    let version = async || fixture.stored_clock().await.unwrap().version;
    assert_eq!(version().await, 1);
    fixture.observe(permission("q1")).await;
    fixture.resolve("q1", json!({ "resolutionType": "approve" })).await;
    fixture.react().await;
    assert_eq!(version().await, 1);
    fixture.complete_turn(true).await;
    fixture.react().await;
    assert_eq!(version().await, 1, "its output waits for a person");
    let output = fixture.app.store.session(fixture.session).await.unwrap().unwrap();
    let output = output.output().unwrap().output_id;
    let body = json!({ "outputId": output });
    let (status, body) = fixture.send("POST", &fixture.session_path("/approve"), body).await;
    assert_eq!(status, 200, "{body}");
    fixture.react().await;
    assert_eq!(version().await, 2);
    fixture.react_backwards().await;
    assert_eq!(version().await, 2, "reactions decide on the current state");
    assert!(!fixture.stored_clock().await.unwrap().value.is_running());
}
