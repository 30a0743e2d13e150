//! A hostile client against a server with few file descriptors. These tests cover the embedded server: in the cloud, API Gateway
//! holds the connections.

use std::time::Duration;

use pilothouse_tests::{Api, PATIENCE, ServerProcess, Session};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::scripts::{short, works_until_message};

fn work(server: &ServerProcess, script: &Value) -> Value {
    json!({
        "workingDirectory": server.work_folder(), "objective": "Stand firm", "budgetCapUsd": "5",
        "adapter": "script", "adapterOptions": { "script": script },
    })
}

async fn started(server: &ServerProcess, api: &Api, script: &Value) -> Session {
    Session::start(api, work(server, script)).await
}

/// A connection after sending `beginning`.
async fn sent(server: &ServerProcess, beginning: &str) -> std::io::Result<TcpStream> {
    let address = server.url().trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(beginning.as_bytes()).await?;
    Ok(stream)
}

fn open_files(server: &ServerProcess) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", server.pid().unwrap())).unwrap().count()
}

/// The memory of a server in MiB.
fn memory(server: &ServerProcess) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid().unwrap())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

async fn closed(mut stream: TcpStream) {
    let mut rest = Vec::new();
    // A reset also closes the connection.
    let _ = stream.read_to_end(&mut rest).await;
}

#[tokio::test]
async fn half_sent_requests_delay_neither_api_nor_sidecars() {
    const HALF: &str = "GET /api/agents/sessions HTTP/1.1\r\nHost: pilothouse\r\nX-Slow: ";
    let server = ServerProcess::start_limited(1, &[], Some(256)).await;
    let session = started(&server, &server.api(), &works_until_message()).await;
    session.until_said("Working.").await;
    let mut held = Vec::new();
    for round in 0..4 {
        for _ in 0..100 {
            // The server may have closed it to admit the next one.
            held.extend(sent(&server, HALF).await.ok());
        }
        // A new connection, as of a program that has just started.
        let fresh = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        let asked = fresh.get(format!("{}/api/agents/pool", server.url())).bearer_auth(server.token("local"));
        assert_eq!(asked.send().await.unwrap().status(), 200, "round {round}");
        assert!(open_files(&server) < 220, "{} files are open", open_files(&server));
    }
    session.say("go", "Immediate").await;
    session.until_status("Idle").await;
    let another = started(&server, &server.api(), &short()).await;
    another.until_status("Idle").await;
    // The server does not wait forever for the other half.
    let all = held.into_iter().map(closed).collect::<JoinSet<_>>().join_all();
    tokio::time::timeout(PATIENCE, all).await.expect("every half request is abandoned");
    assert!(!server.log().contains("Too many open files"), "{}", server.log());
}

#[tokio::test]
async fn half_sent_bodies_time_out_and_free_their_memory() {
    let server = ServerProcess::start_limited(1, &[], Some(1024)).await;
    let api = server.api();
    let session = started(&server, &api, &works_until_message()).await;
    session.until_said("Working.").await;
    let before = memory(&server);
    let start = |token: &str, length: usize| {
        format!(
            "POST /api/agents/sessions HTTP/1.1\r\nHost: pilothouse\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    let half = format!("{}{}", start(&server.token("mallory"), 250_000), "x".repeat(200_000));
    let mut held = Vec::new();
    for _ in 0..3 {
        for _ in 0..150 {
            held.extend(sent(&server, &half).await.ok());
        }
        api.get("/api/agents/pool").await.expect(200);
    }
    let peak = memory(&server);
    assert!(peak < before + 100, "{before} MiB before, {peak} MiB at the peak");
    // The server refuses an announced body over the limit before it is sent.
    let mut stream = sent(&server, &start(&server.token("alice"), 10_000_000)).await.unwrap();
    let mut response = vec![0; 64];
    let length = tokio::time::timeout(PATIENCE, stream.read(&mut response)).await.unwrap().unwrap();
    assert!(response[..length].starts_with(b"HTTP/1.1 413"), "{}", String::from_utf8_lossy(&response));
    let all = held.into_iter().map(closed).collect::<JoinSet<_>>().join_all();
    tokio::time::timeout(PATIENCE, all).await.expect("every half body is abandoned");
    let after = memory(&server);
    assert!(after < before + 60, "{before} MiB before, {after} MiB afterwards");
    session.say("go", "Immediate").await;
    session.until_status("Idle").await;
    eprintln!("memory: {before} MiB before, {peak} MiB at the peak, {after} MiB afterwards");
}

#[tokio::test]
async fn starts_are_refused_before_descriptors_run_out() {
    let server = ServerProcess::start_limited(1, &[], Some(128)).await;
    let api = server.api();
    api.patch("/api/agents/pool", json!({ "maxConcurrentSessions": 200 })).await.expect(200);
    let mut sessions = Vec::new();
    let refused = loop {
        assert!(sessions.len() < 128, "no start was refused");
        let reply = api.post("/api/agents/sessions", work(&server, &works_until_message())).await;
        match reply.status {
            201 => {
                let session = api.session(reply.body["session"]["id"].as_str().unwrap());
                session.until_said("Working.").await;
                sessions.push(session);
            }
            _ => break reply,
        }
    };
    let refused = refused.refused(503, "server-at-capacity");
    assert!(refused.header("retry-after").parse::<u64>().unwrap() > 0);
    assert!(sessions.len() >= 5, "{} sessions", sessions.len());
    eprintln!("{} sessions, {} files of 128", sessions.len(), open_files(&server));
    assert!(open_files(&server) < 128);
    // The running sessions continue, and other clients can connect.
    for session in &sessions {
        session.say("go", "Immediate").await;
    }
    for session in &sessions {
        session.until_status("Idle").await;
    }
    for session in sessions.iter().take(3) {
        session.post("/cancel", json!({})).await;
    }
    for session in sessions.iter().take(3) {
        session.until("the end of its run", |view| view["currentRun"].is_null()).await;
    }
    let handle = &sessions[0];
    let again = handle
        .until_within(PATIENCE, "room for another session", async || {
            let reply = api.post("/api/agents/sessions", work(&server, &short())).await;
            (reply.status == 201).then_some(reply)
        })
        .await;
    api.session(again.body["session"]["id"].as_str().unwrap()).until_status("Idle").await;
    assert!(!server.log().contains("Too many open files"), "{}", server.log());
}

/// An address that accepts connections and never responds.
async fn hanging() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hooks", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    url
}

#[tokio::test]
async fn hanging_endpoints_delay_no_other_deliveries() {
    let server = ServerProcess::start(1).await;
    let (mallory, bob) = (server.api_of("mallory"), server.api_of("bob"));
    let skill = |at: usize| json!({ "name": format!("Skill {at}"), "description": "x" });
    let hanging = hanging().await;
    for _ in 0..20 {
        mallory.post("/api/webhooks", json!({ "url": hanging })).await.expect(201);
    }
    for at in 0..25 {
        mallory.post("/api/agents/skills", skill(at)).await.expect(201);
    }
    // Once her first deliveries are in progress, those of other owners must not wait for them.
    let handle = mallory.session("01900000-0000-7000-8000-00000000ffff");
    let (taken, mut deliveries) = tokio::sync::mpsc::unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hooks", listener.local_addr().unwrap());
    let hook = axum::routing::post(move || {
        let taken = taken.clone();
        async move { taken.send(()).unwrap() }
    });
    tokio::spawn(async move { axum::serve(listener, axum::Router::new().route("/hooks", hook)).await });
    bob.post("/api/webhooks", json!({ "url": url })).await.expect(201);
    let begun = std::time::Instant::now();
    for at in 0..25 {
        bob.post("/api/agents/skills", skill(at)).await.expect(201);
    }
    for at in 0..25 {
        let delivered = tokio::time::timeout(Duration::from_secs(30), deliveries.recv()).await;
        assert!(delivered.is_ok(), "delivery {at} of 25 does not arrive");
    }
    eprintln!("25 deliveries took {:?}", begun.elapsed());
    // Her endpoints are paused one by one, and she can see that.
    handle
        .until_within(PATIENCE, "the pause of an endpoint", async || {
            let all = mallory.get("/api/webhooks").await.expect(200).body;
            let paused = |webhook: &Value| webhook["failing"]["pausedUntil"].is_string();
            all["items"].as_array().unwrap().iter().any(paused).then_some(())
        })
        .await;
}
