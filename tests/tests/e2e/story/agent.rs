//! The agents of the story.

use std::path::PathBuf;

use pilothouse_tests::{PATIENCE, ServerProcess, Session};
use serde_json::{Value, json};

use crate::authorization::resolve;

/// An agent of the project, with a separate working directory.
pub(super) struct Agent {
    pub(super) id: String,
    pub(super) session: Session,
    folder: PathBuf,
}

impl Agent {
    pub(super) async fn spawn(
        server: &ServerProcess,
        project: &Value,
        adapter: &str,
        options: Value,
    ) -> Self {
        let folder = server.work_folder().join(adapter);
        std::fs::create_dir_all(&folder).unwrap();
        let body = json!({
            "projectId": project["id"],
            "brief": { "role": adapter, "workstream": "shop", "adapter": adapter, "providerConfig": options },
            "objective": format!("Tidy the shop. [[script:{adapter}]]"),
            "workingDirectory": folder,
            "budgetCapUsd": "5",
        });
        let spawned = server.api().post("/api/agents/spawn", body).await.expect(201).body;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (id, session) = (text(&spawned["agent"]["id"]), text(&spawned["session"]["id"]));
        Self { id, session: Session::new(server.api(), session, spawned), folder }
    }

    /// Waits for a pending decision with this text, such as the command of the call.
    pub(super) async fn asked(&self, text: &str) -> Value {
        let look = async || {
            let waiting = self.session.api.all(&format!("/api/decisions?session={}", self.session.id)).await;
            waiting.into_iter().find(|decision| decision.to_string().contains(text))
        };
        self.session.until_within(PATIENCE, text, look).await
    }

    pub(super) async fn decide(&self, text: &str, body: Value) {
        resolve(&self.session.api, &self.asked(text).await, body).await;
    }

    pub(super) async fn until_trust(&self, score: f64) {
        let look = async || {
            let trust = self.session.api.get(&format!("/api/trust/{}", self.id)).await.expect(200).body;
            (trust["exactScore"].as_f64() == Some(score)).then_some(())
        };
        self.session.until_within(PATIENCE, &format!("trust {score}"), look).await;
    }

    pub(super) fn has(&self, file: &str) -> bool {
        self.folder.join(file).exists()
    }
}
