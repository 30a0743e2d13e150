//! Sidecars and workers among each other, with the credentials that they were really given: none reads another's commands
//! or orders, none publishes in another's name.

use pilothouse_domain::AgentSessionId;
use pilothouse_wire::envelope::Signer;
use pilothouse_wire::launch::RunExit;
use pilothouse_wire::{RawEvent, Signed};
use reqwest::Method;
use serde_json::{Value, json};

use crate::caller::{Caller, Request};
use crate::deployment::Deployment;
use crate::party::{Party, notice, publication, ready, received, until};

/// What may not be done, for a person, and how it is tried.
type Forbidden = Vec<(String, Request)>;

/// Tries everything, and fails with all that was let through.
async fn denied(caller: &Caller, forbidden: Forbidden) {
    let mut through = Vec::new();
    for (what, request) in &forbidden {
        let answer = caller.send(request).await;
        if !answer.denied() {
            through.push(format!("{what} ({} {})", answer.status, answer.code));
        }
    }
    assert!(through.is_empty(), "let through:\n{}", through.join("\n"));
}

/// Every way to take from a queue, to fill it and to look at it.
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

/// Those of [`with_queue`] that do not only take messages.
fn but_taking(to: &Deployment, queue: &str) -> Forbidden {
    let mut all = with_queue(to, queue);
    all.retain(|(what, _)| {
        !what.starts_with("Receive") && !what.starts_with("DeleteMessage") && !what.starts_with("Change")
    });
    all
}

/// Those that do not only send.
fn but_sending(to: &Deployment, queue: &str) -> Forbidden {
    let mut all = with_queue(to, queue);
    all.retain(|(what, _)| !what.starts_with("SendMessage"));
    all
}

/// What neither a sidecar nor a worker has to do with.
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

/// A sidecar has the queue of its own run's commands, and may send events; of the other run's things it has nothing.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a deployment on a local cloud that evaluates policies"]
async fn a_sidecar_reaches_the_things_of_its_own_run_alone() {
    let to = &Deployment::open().await;
    let (ours, theirs) = tokio::join!(Party::start(to), Party::start(to));
    let sidecar = ours.sidecar().await;

    // Its commands: `begin` is the first, once the sidecar is ready.
    sidecar.send(&publication(to, ours.session, &ours.event(1, ready()))).await.done();
    let commands = ours.commands_queue();
    until("a command", async || received(to, &sidecar, &commands).await.pop()).await;
    let (receipt, mine) = (json!({ "ReceiptHandle": "none", "VisibilityTimeout": 0 }), &commands);
    for action in ["DeleteMessage", "ChangeMessageVisibility"] {
        let answer = sidecar.send(&to.sqs(action, mine, receipt.clone())).await;
        assert!(!answer.denied(), "{action}: {}", answer.text);
    }
    // The other sidecar is told to begin too, and this one does not see it.
    let other = theirs.sidecar().await;
    other.send(&publication(to, theirs.session, &theirs.event(1, ready()))).await.done();
    denied(&sidecar, with_queue(to, &theirs.commands_queue())).await;
    until("the other's command", async || received(to, &other, &theirs.commands_queue()).await.pop()).await;

    let put = |session| to.s3(Method::PUT, &to.bucket, &format!("sessions/{session}/trial"), "trial");
    sidecar.send(&put(ours.session)).await.done();
    let mut forbidden = vec![
        ("PutObject of the other session".to_owned(), put(theirs.session)),
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

/// A worker has its own queue of orders, and nothing else.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a deployment on a local cloud that evaluates policies"]
async fn a_worker_reaches_its_own_orders_alone() {
    let to = &Deployment::open().await;
    let (ours, theirs) = tokio::join!(Party::start(to), Party::start(to));
    let worker = ours.worker();
    // `Party::start` took an order with these credentials: they open the own queue.
    let mut forbidden = with_queue(to, theirs.orders_queue());
    forbidden.extend(but_taking(to, ours.orders_queue()));
    for queue in [ours.commands_queue(), theirs.commands_queue(), to.queue("events.fifo")] {
        forbidden.extend(with_queue(to, &queue));
    }
    let blob = format!("sessions/{}/trial", ours.session);
    forbidden.push(("PutObject".to_owned(), to.s3(Method::PUT, &to.bucket, &blob, "trial")));
    forbidden.extend(beyond_queues(to, ours.session));
    denied(&worker, forbidden).await;

    // Nor does the other's run come into its hands over the API.
    let (status, answer) = ours.as_worker("/claims", &json!({ "runId": theirs.run })).await;
    assert_eq!((status, answer["code"].as_str()), (404, Some("not-found")), "{answer}");
    let exit =
        json!({ "sessionId": theirs.session, "runId": theirs.run, "exit": { "code": 0, "drained": true } });
    let (status, answer) = ours.as_worker("/exits", &exit).await;
    assert!((400..500).contains(&status), "{status} {answer}");
    assert_eq!(
        theirs.gateway("credentials", theirs.gateway_token().as_str()).await.0,
        200,
        "the run goes on"
    );
    tokio::join!(ours.leave(), theirs.leave());
}

/// What a sidecar could send in the name of `theirs`, with all that it has. Each with the group that it is sent in.
fn forgeries(ours: &Party<'_>, theirs: &Party<'_>) -> Vec<(AgentSessionId, String)> {
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
        // Of its own run, whose key it has, in the other session.
        ours.signed(session, ours.run, Some(2), forged(), Signer::Sidecar),
        ours.signed(session, ours.run, Some(1), forged(), Signer::Sidecar),
        // What only the runtime may say.
        ours.signed(session, run, None, exit(), Signer::Runtime),
        ours.signed(session, run, None, exit(), Signer::Sidecar),
        ours.signed(session, ours.run, None, exit(), Signer::Sidecar),
        ours.signed(session, ours.run, None, exit(), Signer::Runtime),
        "forged".to_owned(),
    ];
    // In its own group, of the other run: with its own session's id, and with the other's.
    let in_our_group = [ours.signed(ours.session, run, Some(2), forged(), Signer::Sidecar), own_key.clone()];
    let theirs = in_their_group.into_iter().map(|body| (session, body));
    theirs.chain(in_our_group.into_iter().map(|body| (ours.session, body))).collect()
}

/// The events queue is everybody's. What is sent in another's name changes nothing there: its sequence goes on where it
/// was, and nothing of it is seen.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a deployment on a local cloud that evaluates policies"]
async fn nobody_publishes_in_anothers_name() {
    let to = &Deployment::open().await;
    let (ours, theirs) = tokio::join!(Party::start(to), Party::start(to));
    let (sidecar, other) = (ours.sidecar().await, theirs.sidecar().await);
    for (sender, party) in [(&sidecar, &ours), (&other, &theirs)] {
        sender.send(&publication(to, party.session, &party.event(1, ready()))).await.done();
    }
    until("both runs are ready", async || {
        let ready = async |party: &Party<'_>| party.view().await["status"] == "Running";
        (ready(&ours).await && ready(&theirs).await).then_some(())
    })
    .await;

    let before = theirs.view().await;
    for (group, body) in forgeries(&ours, &theirs) {
        sidecar.send(&publication(to, group, &body)).await.done();
    }
    // Behind them in the same groups, so that what was forged is over when these are recorded: the same sequence that
    // the forged ones claim, unused.
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
    assert_eq!(unmoved(&after), unmoved(&before), "the session is what it was");
    assert_eq!(
        theirs.gateway("credentials", theirs.gateway_token().as_str()).await.0,
        200,
        "the run goes on"
    );
    tokio::join!(ours.leave(), theirs.leave());
}

/// What no notice changes of a session.
fn unmoved(view: &Value) -> Value {
    json!([
        view["status"],
        view["currentRun"]["id"],
        view["retryCount"],
        view["budget"],
        view["pendingRequests"]
    ])
}

/// A token is that of one run: it names no other, and nobody makes one up.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a deployment on a local cloud that evaluates policies"]
async fn a_gateway_token_opens_one_run() {
    let to = &Deployment::open().await;
    let (ours, theirs) = tokio::join!(Party::start(to), Party::start(to));
    let token = ours.gateway_token().as_str();
    let tag = token.rsplit('.').next().unwrap();
    let told = ours.credentials().await;
    assert!(told.commands_queue_url.ends_with(&ours.commands_queue()));
    assert_eq!(told.blob_prefix, format!("sessions/{}/", ours.session));
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
            let (status, answer) = ours.gateway(what, &wrong).await;
            assert_eq!(status, 401, "{what} with {wrong}: {answer}");
        }
    }
    tokio::join!(ours.leave(), theirs.leave());
}

/// When a run is over, its token opens no more than the way out for what its sidecar has left behind.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a deployment on a local cloud that evaluates policies"]
async fn a_run_that_is_over_gets_no_credentials() {
    let to = &Deployment::open().await;
    let ours = Party::start(to).await;
    let token = ours.gateway_token().as_str();
    assert_eq!(ours.gateway("credentials", token).await.0, 200);
    ours.report_exit().await;
    until("the run is over", async || (ours.gateway("credentials", token).await.0 == 410).then_some(()))
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
