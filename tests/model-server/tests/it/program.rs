//! The program.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::{asked, says, send, steps};

#[tokio::test]
async fn program_serves_a_script_file() {
    let file = std::env::temp_dir().join(format!("pilothouse-script-{}.json", std::process::id()));
    std::fs::write(&file, steps(json!([{ "text": "Hello.", "wait": "go" }])).to_string()).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_pilothouse-model-server"));
    let mut program = program.arg(&file).stdout(Stdio::piped()).spawn().unwrap();
    let mut address = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let address = address.trim();
    let client = reqwest::Client::new();
    let opened = client.post(format!("{address}/_script/open/go")).send().await.unwrap();
    let request = client.post(format!("{address}/v1/messages")).header("x-api-key", "k");
    let (status, body) =
        send(request.header("anthropic-version", "2023-06-01").json(&asked(says("hi")))).await;
    let came: Value =
        client.get(format!("{address}/_script/requests")).send().await.unwrap().json().await.unwrap();
    program.kill().unwrap();
    program.wait().unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(opened.status(), 204);
    assert_eq!((status, &body["content"][0]["text"]), (200, &json!("Hello.")));
    assert_eq!(came[0]["kind"], "Prompt");
}
