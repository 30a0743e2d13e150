//! Isolation between sidecars and workers, tested with the credentials that they receive: none reads the commands or orders of another, and
//! none publishes under another identity.

use pilothouse_domain::AgentSessionId;
use pilothouse_wire::envelope::Signer;
use pilothouse_wire::launch::RunExit;
use pilothouse_wire::{RawEvent, Signed};
use reqwest::Method;
use serde_json::{Value, json};

use crate::caller::{Caller, Request};
use crate::deployment::Deployment;
use crate::worker_fixture::{WorkerFixture, notice, publication, ready, received, until};

type Forbidden = Vec<(String, Request)>;

/// Tries every request, and fails with those that were allowed.
async fn denied(caller: &Caller, forbidden: Forbidden) {
    let mut through = Vec::new();
    for (what, request) in &forbidden {
        let response = caller.send(request).await;
        if !response.denied() {
            through.push(format!("{what} ({} {})", response.status, response.code));
        }
    }
    assert!(through.is_empty(), "let through:\n{}", through.join("\n"));
}

/// Every action on a queue: receiving, sending and inspecting.
fn with_queue(to: &Deployment, queue: &str) -> Forbidden {
    let entry =
        json!({ "Id": "0", "MessageBody": "{}", "MessageGroupId": "g", "MessageDeduplicationId": "d" });
    [
        ("ReceiveMessage", json!({})),
        ("DeleteMessage", json!({ "ReceiptHandle": "none" })),
        ("DeleteMessageBatch", json!({ "Entries": [{ "Id": "0", "ReceiptHandle": "none" }] })),
        ("ChangeMessageVisibility", json!({ "ReceiptHandle": "none", "VisibilityTimeout": 0 })),
        ("SendMessage", json!({ "MessageBody": "{}", "MessageGroupId": "g", "MessageDeduplicationId": "d" })),
        ("SendMessageBatch", json!({ "Entries": [entry] })),
        ("PurgeQueue", json!({})),
        ("DeleteQueue", json!({})),
        ("SetQueueAttributes", json!({ "Attributes": { "VisibilityTimeout": "0" } })),
        ("GetQueueAttributes", json!({ "AttributeNames": ["All"] })),
    ]
    .into_iter()
    .map(|(action, more)| (format!("{action} on {queue}"), to.sqs(action, queue, more)))
    .collect()
}

/// [`with_queue`] without receiving.
fn but_taking(to: &Deployment, queue: &str) -> Forbidden {
    let mut all = with_queue(to, queue);
    all.retain(|(what, _)| {
        !what.starts_with("Receive") && !what.starts_with("DeleteMessage") && !what.starts_with("Change")
    });
    all
}

/// [`with_queue`] without sending.
fn but_sending(to: &Deployment, queue: &str) -> Forbidden {
    let mut all = with_queue(to, queue);
    all.retain(|(what, _)| !what.starts_with("SendMessage"));
    all
}

/// Actions that neither a sidecar nor a worker needs.
fn beyond_queues(to: &Deployment, session: AgentSessionId) -> Forbidden {
    let key = json!({ "pk": { "S": "TRIAL" }, "sk": { "S": "TRIAL" } });
    let item = json!({ "TableName": to.table, "Key": key, "Item": key });
    let mut all: Forbidden = ["GetItem", "PutItem", "DeleteItem", "Scan"]
        .map(|action| (action.to_owned(), to.dynamodb(action, &item)))
        .into();
    all.push(("ListQueues".to_owned(), to.list_queues()));
    all.push(("GetSecretValue".to_owned(), to.secret("GetSecretValue", &to.secret_arn, json!({}))));
    for role in [&to.sidecar_role, &to.worker_role] {
        all.push((format!("AssumeRole {role}"), to.assume(role)));
    }
    all.push(("ListBucket".to_owned(), to.s3(Method::GET, &to.bucket, "?list-type=2", "")));
    let blob = format!("sessions/{session}/trial");
    for method in [Method::GET, Method::DELETE] {
        all.push((format!("{method} {blob}"), to.s3(method, &to.bucket, &blob, "")));
    }
    for queue in ["events-dead.fifo", "reactions.fifo", "pushes.fifo", "deadlines"] {
        all.extend(with_queue(to, &to.queue(queue)));
    }
    all
}

/// A sidecar can read the commands of its own run and send events. It has no access to another run.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a deployment on a local cloud that evaluates policies"]
async fn sidecar_can_access_only_its_own_run() {
    let to = &Deployment::open().await;
    let (ours, theirs) = tokio::join!(WorkerFixture::start(to), WorkerFixture::start(to));
    let sidecar = ours.sidecar().await;

    // The commands of the run: `begin` arrives once the sidecar is ready.
    sidecar.send(&publication(to, ours.session, &ours.event(1, ready()))).await.done();
    let commands = ours.commands_queue();
    until("a command", async || received(to, &sidecar, &commands).await.pop()).await;
    let (receipt, mine) = (json!({ "ReceiptHandle": "none", "VisibilityTimeout": 0 }), &commands);
    for action in ["DeleteMessage", "ChangeMessageVisibility"] {
        let response = sidecar.send(&to.sqs(action, mine, receipt.clone())).await;
        assert!(!response.denied(), "{action}: {}", response.text);
    }
    // The other sidecar also gets `begin`, which this one does not see.
    let other = theirs.sidecar().await;
    other.send(&publication(to, theirs.session, &theirs.event(1, ready()))).await.done();
    denied(&sidecar, with_queue(to, &theirs.commands_queue())).await;
    until("the other's command", async || received(to, &other, &theirs.commands_queue()).await.pop()).await;

    let put = |session| to.s3(Method::PUT, &to.bucket, &format!("sessions/{session}/trial"), "trial");
    sidecar.send(&put(ours.session)).await.done();
    let mut forbidden = vec![
        ("PutObject of another session".to_owned(), put(theirs.session)),
        ("PutObject elsewhere".to_owned(), to.s3(Method::PUT, &to.bucket, "trial", "trial")),
    ];
    forbidden.extend(but_taking(to, &commands));
    forbidden.extend(but_sending(to, &to.queue("events.fifo")));
    forbidden.extend(with_queue(to, ours.orders_queue()));
    forbidden.extend(beyond_queues(to, ours.session));
    forbidden.extend(beyond_queues(to, theirs.session));
    denied(&sidecar, forbidden).await;
    to.root().send(&to.s3(Method::DELETE, &to.bucket, &format!("sessions/{}/trial", ours.session), "")).await;
    tokio::join!(ours.leave(), theirs.leave());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a deployment on a local cloud that evaluates policies"]
async fn worker_can_access_only_its_own_orders() {
    let to = &Deployment::open().await;
    let (ours, theirs) = tokio::join!(WorkerFixture::start(to), WorkerFixture::start(to));
    let worker = ours.worker();
    // `WorkerFixture::start` received an order with these credentials, so the worker can access its own queue.
    let mut forbidden = with_queue(to, theirs.orders_queue());
    forbidden.extend(but_taking(to, ours.orders_queue()));
    for queue in [ours.commands_queue(), theirs.commands_queue(), to.queue("events.fifo")] {
        forbidden.extend(with_queue(to, &queue));
    }
    let blob = format!("sessions/{}/trial", ours.session);
    forbidden.push(("PutObject".to_owned(), to.s3(Method::PUT, &to.bucket, &blob, "trial")));
    forbidden.extend(beyond_queues(to, ours.session));
    denied(&worker, forbidden).await;

    // The API does not let the worker claim the other run, either.
    let (status, response) = ours.as_worker("/claims", &json!({ "runId": theirs.run })).await;
    assert_eq!((status, response["code"].as_str()), (404, Some("not-found")), "{response}");
    let exit =
        json!({ "sessionId": theirs.session, "runId": theirs.run, "exit": { "code": 0, "drained": true } });
    let (status, response) = ours.as_worker("/exits", &exit).await;
    assert!((400..500).contains(&status), "{status} {response}");
    assert_eq!(
        theirs.gateway("credentials", theirs.gateway_token().as_str()).await.0,
        200,
        "the run continues"
    );
    tokio::join!(ours.leave(), theirs.leave());
}

/// Forged events that a sidecar can send for `theirs` with all its credentials. Each is paired with its message group.
fn forgeries(ours: &WorkerFixture<'_>, theirs: &WorkerFixture<'_>) -> Vec<(AgentSessionId, String)> {
    let (session, run) = (theirs.session, theirs.run);
    let forged = || notice("forged");
    let own_key = ours.signed(session, run, Some(2), forged(), Signer::Sidecar);
    let changed = |field: &str, value: &str| {
        let mut signed = serde_json::to_value(Signed::parse(&own_key).unwrap()).unwrap();
        signed[field] = json!(value);
        signed.to_string()
    };
    let exit = || {
        RawEvent::RunExited(RunExit {
            code: Some(1),
            signal: None,
            drained: true,
            detail: Some("forged".to_owned()),
        })
    };
    let in_their_group = [
        own_key.clone(),
        changed("signature", &"00".repeat(32)),
        changed("signature", ""),
        changed("kid", "another"),
        // From its own run, with its own key, in the other session.
        ours.signed(session, ours.run, Some(2), forged(), Signer::Sidecar),
        ours.signed(session, ours.run, Some(1), forged(), Signer::Sidecar),
        // An event that only the runtime may send.
        ours.signed(session, run, None, exit(), Signer::Runtime),
        ours.signed(session, run, None, exit(), Signer::Sidecar),
        ours.signed(session, ours.run, None, exit(), Signer::Sidecar),
        ours.signed(session, ours.run, None, exit(), Signer::Runtime),
        "forged".to_owned(),
    ];
    // In its own group for the other run: with its own session id, and with the other's.
    let in_our_group = [ours.signed(ours.session, run, Some(2), forged(), Signer::Sidecar), own_key.clone()];
    let theirs = in_their_group.into_iter().map(|body| (session, body));
    theirs.chain(in_our_group.into_iter().map(|body| (ours.session, body))).collect()
}

/// Every sidecar may send to the events queue. Forged events of another run change nothing: the sequence of that run continues, and no
/// forged content is visible.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a deployment on a local cloud that evaluates policies"]
async fn publishing_under_another_name_is_denied() {
    let to = &Deployment::open().await;
    let (ours, theirs) = tokio::join!(WorkerFixture::start(to), WorkerFixture::start(to));
    let (sidecar, other) = (ours.sidecar().await, theirs.sidecar().await);
    for (sender, worker_fixture) in [(&sidecar, &ours), (&other, &theirs)] {
        sender.send(&publication(to, worker_fixture.session, &worker_fixture.event(1, ready()))).await.done();
    }
    until("both runs are ready", async || {
        let ready =
            async |worker_fixture: &WorkerFixture<'_>| worker_fixture.view().await["status"] == "Running";
        (ready(&ours).await && ready(&theirs).await).then_some(())
    })
    .await;

    let before = theirs.view().await;
    for (group, body) in forgeries(&ours, &theirs) {
        sidecar.send(&publication(to, group, &body)).await.done();
    }
    // These events follow the forged ones in the same groups, so that the forged ones are processed first. They use the sequence that the
    // forged events claim.
    sidecar.send(&publication(to, ours.session, &ours.event(2, notice("genuine of ours")))).await.done();
    other.send(&publication(to, theirs.session, &theirs.event(2, notice("genuine of theirs")))).await.done();
    other.send(&publication(to, theirs.session, &theirs.event(3, notice("and it goes on")))).await.done();

    ours.until_recorded("genuine of ours").await;
    theirs.until_recorded("genuine of theirs").await;
    let activity = theirs.until_recorded("and it goes on").await;
    for activity in [activity, ours.activity().await] {
        assert!(!activity.contains("forged"), "{activity}");
        assert!(
            !activity.contains("genuine of ours") || !activity.contains("genuine of theirs"),
            "{activity}"
        );
    }
    let after = theirs.view().await;
    assert_eq!(unmoved(&after), unmoved(&before), "the session is unchanged");
    assert_eq!(
        theirs.gateway("credentials", theirs.gateway_token().as_str()).await.0,
        200,
        "the run continues"
    );
    tokio::join!(ours.leave(), theirs.leave());
}

/// Notices do not change these parts of a session.
fn unmoved(view: &Value) -> Value {
    json!([
        view["status"],
        view["currentRun"]["id"],
        view["retryCount"],
        view["budget"],
        view["pendingRequests"]
    ])
}

/// A token belongs to one run: it cannot name another, and cannot be forged.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a deployment on a local cloud that evaluates policies"]
async fn gateway_token_grants_one_run() {
    let to = &Deployment::open().await;
    let (ours, theirs) = tokio::join!(WorkerFixture::start(to), WorkerFixture::start(to));
    let token = ours.gateway_token().as_str();
    let tag = token.rsplit('.').next().unwrap();
    let credentials = ours.credentials().await;
    assert!(credentials.commands_queue_url.ends_with(&ours.commands_queue()));
    assert_eq!(credentials.blob_prefix, format!("sessions/{}/", ours.session));
    let (status, launch) = ours.gateway("launch", token).await;
    assert_eq!((status, &launch["runId"]), (200, &json!(ours.run)), "{launch}");

    let owners = to.token("trial");
    for wrong in [
        format!("{}.{}.{tag}", theirs.session, theirs.run),
        format!("{}.{}.{tag}", ours.session, theirs.run),
        format!("{}.{}.{tag}", theirs.session, ours.run),
        format!("{}.{}.{}", theirs.session, theirs.run, "00".repeat(32)),
        format!("{}.{}.", theirs.session, theirs.run),
        ours.access.agent_api.api_key.clone(),
        owners,
        String::new(),
    ] {
        for what in ["credentials", "launch"] {
            let (status, response) = ours.gateway(what, &wrong).await;
            assert_eq!(status, 401, "{what} with {wrong}: {response}");
        }
    }
    tokio::join!(ours.leave(), theirs.leave());
}

/// The token of an ended run only allows to drain the leftovers of its sidecar.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a deployment on a local cloud that evaluates policies"]
async fn ended_run_gets_no_credentials() {
    let to = &Deployment::open().await;
    let ours = WorkerFixture::start(to).await;
    let token = ours.gateway_token().as_str();
    assert_eq!(ours.gateway("credentials", token).await.0, 200);
    ours.report_exit().await;
    until("the run has ended", async || (ours.gateway("credentials", token).await.0 == 410).then_some(()))
        .await;
    assert_eq!(ours.gateway("launch", token).await.0, 410);

    let (status, leftovers) = ours.gateway("credentials?leftovers=true", token).await;
    assert_eq!(status, 200, "{leftovers}");
    let caller = to.with_credentials(&serde_json::from_value(leftovers).unwrap());
    let late = ours.event(1, notice("late"));
    caller.send(&publication(to, ours.session, &late)).await.done();
    let blob = format!("sessions/{}/trial", ours.session);
    caller.send(&to.s3(Method::PUT, &to.bucket, &blob, "trial")).await.done();
    let mut forbidden = with_queue(to, &ours.commands_queue());
    forbidden.extend(but_sending(to, &to.queue("events.fifo")));
    forbidden.extend(beyond_queues(to, ours.session));
    denied(&caller, forbidden).await;
    to.root().send(&to.s3(Method::DELETE, &to.bucket, &blob, "")).await;
}
