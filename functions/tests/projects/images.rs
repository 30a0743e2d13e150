//! Images of refused requests (decision 100).

use serde_json::{Value, json};

use crate::fixture::ProjectFixture;

/// `GIF89a`.
pub(crate) fn image() -> Value {
    json!({ "mediaType": "image/gif", "base64": "R0lGODlh" })
}

#[tokio::test]
async fn refused_start_leaves_no_images() {
    let mut fixture = ProjectFixture::working().await;
    let start = json!({
        "objective": "Look", "workingDirectory": "/w", "budgetCapUsd": "5", "images": [image()],
    });
    fixture.set_room(false);
    let (status, refused) = fixture.send("POST", "/api/agents/sessions", start.clone()).await;
    assert!(status >= 400, "{refused}");
    assert_eq!(fixture.stored_blobs(), 0, "{refused}");
    fixture.set_room(true);
    let (status, started) = fixture.send("POST", "/api/agents/sessions", start).await;
    assert!(matches!(status, 201 | 202), "{started}");
    assert_eq!(fixture.stored_blobs(), 1);
}
