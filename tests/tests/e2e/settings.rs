//! Settings of the server.

use serde_json::json;

use crate::server::Server;

#[tokio::test]
async fn settings_of_the_operator_are_shown() {
    let server = Server::start_with(1, &[("PILOTHOUSE_RETENTION_DAYS", "30")]).await;
    let settings = server.api().get("/api/settings").await.expect(200).body;
    assert_eq!(
        settings,
        json!({ "defaultAdapter": "script", "retentionDays": 30, "reviewsCoherence": false })
    );
    server.api_with(None).get("/api/settings").await.refused(401, "unauthenticated");
}
