//! The program as scripts see it: exit codes, standard output and standard error.

#![allow(clippy::unwrap_used)] // a helper of a test may fail as the test does

use std::process::{Command, Output};

use pilothouse_local_keys::LocalKeys;
use serde_json::Value;

/// Runs the program in an environment of its own.
fn pilothouse(home: &std::path::Path, line: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pilothouse"))
        .args(line)
        .current_dir(home)
        .env_clear()
        .env("HOME", home)
        .output()
        .unwrap()
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// An address where nothing listens.
fn nowhere() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn minted_token_verifies_with_the_keys_of_the_data_folder() {
    let home = tempfile::tempdir().unwrap();
    let output = pilothouse(home.path(), &["token", "--owner", "ada", "--ttl", "15m"]);
    assert_eq!(code(&output), Some(0), "{}", text(&output.stderr));
    let keys = LocalKeys::open(&home.path().join(".pilothouse")).unwrap().unwrap();
    let claims = keys.verify(text(&output.stdout).trim()).unwrap();
    assert_eq!((claims.sub.as_str(), claims.exp - claims.iat), ("ada", 900));
}

#[test]
fn without_a_server_the_error_says_how_to_start_one() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(
        code(&pilothouse(home.path(), &["token"])),
        Some(0),
        "so that there is something to log in with"
    );
    let output = pilothouse(home.path(), &["--url", &nowhere(), "ps"]);
    assert_eq!(code(&output), Some(4));
    assert!(output.stdout.is_empty());
    let said = text(&output.stderr);
    assert!(said.contains("pilothouse up") && !said.contains('\x1b'), "{said}");
}

#[test]
fn json_output_prints_errors_as_json() {
    let home = tempfile::tempdir().unwrap();
    let output = pilothouse(home.path(), &["--json", "--token", "t", "--url", &nowhere(), "ps"]);
    assert_eq!(code(&output), Some(4));
    let error: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(error["code"], "no-access");
    assert!(error["detail"].as_str().unwrap().contains("pilothouse up"));
}

#[test]
fn missing_keys_and_token_are_reported() {
    let home = tempfile::tempdir().unwrap();
    let output = pilothouse(home.path(), &["--url", &nowhere(), "ps"]);
    assert_eq!(code(&output), Some(4));
    assert!(text(&output.stderr).contains("--token"), "{}", text(&output.stderr));
    assert!(!home.path().join(".pilothouse").exists(), "asking makes no keys");
}

#[test]
fn invalid_arguments_are_usage_errors() {
    let home = tempfile::tempdir().unwrap();
    for line in [
        &["frobnicate"][..],
        &["show"],
        &["show", "--last", "x"],
        &["--url", "ftp://x", "ps"],
        &["steer", "@last"],
    ] {
        let output = pilothouse(home.path(), &[&["--token", "t"], line].concat());
        assert_eq!(code(&output), Some(2), "{line:?}: {}", text(&output.stderr));
    }
}

#[test]
fn completions_are_written_for_each_shell() {
    let home = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let output = pilothouse(home.path(), &["completions", shell]);
        assert_eq!(code(&output), Some(0));
        assert!(text(&output.stdout).contains("pilothouse"), "{shell}");
    }
}

#[test]
fn commands_of_the_embedded_server_refuse_the_aws_profile() {
    let home = tempfile::tempdir().unwrap();
    for command in ["up", "demo"] {
        let output = pilothouse(home.path(), &["--profile", "aws", command]);
        assert_eq!(code(&output), Some(2), "{command}");
        let said = text(&output.stderr);
        assert!(said.contains("embedded profile") && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn console_of_a_deployment_is_opened_with_a_token() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("d.json");
    let describe = |more: &str| {
        let text = format!(
            r#"{{"ApiUrl": "https://api.example", "StreamUrl": "wss://live.example", "Issuer": "https://issuer.example"{more}}}"#
        );
        std::fs::write(&file, text).unwrap();
    };
    let aws = ["--profile", "aws", "--deployment", file.to_str().unwrap()];
    let open = |more: &[&str]| pilothouse(home.path(), &[&aws[..], &["open", "--print"], more].concat());

    describe("");
    let output = open(&[]);
    assert_eq!(code(&output), Some(2));
    assert!(text(&output.stderr).contains("infra/deploy --console yes"), "{}", text(&output.stderr));

    describe(r#", "ConsoleUrl": "https://d1.cloudfront.net""#);
    // Without a token, the link has none.
    let output = open(&[]);
    assert_eq!(text(&output.stdout), "https://d1.cloudfront.net/login\n", "{}", text(&output.stderr));
    assert_eq!(code(&pilothouse(home.path(), &[&aws[..], &["token"]].concat())), Some(0));
    let output = open(&[]);
    let link = text(&output.stdout);
    let token = link.trim().strip_prefix("https://d1.cloudfront.net/login#token=").unwrap();
    assert_eq!(token.split('.').count(), 3, "{token}");
    let output = open(&["--token", "a.b.c"]);
    assert_eq!(text(&output.stdout), "https://d1.cloudfront.net/login#token=a.b.c\n");
}

#[test]
fn deployment_is_found_by_its_file_and_uses_local_keys() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("d.json");
    let deployment = serde_json::json!({
        "ApiUrl": nowhere(), "StreamUrl": "ws://127.0.0.1:1/live",
        "Issuer": "https://issuer.example", "Audience": "pilothouse",
    });
    std::fs::write(&file, deployment.to_string()).unwrap();
    let aws = ["--profile", "aws", "--deployment", file.to_str().unwrap()];
    let output = pilothouse(home.path(), &[&aws[..], &["token", "--owner", "ada"]].concat());
    assert_eq!(code(&output), Some(0), "{}", text(&output.stderr));
    let output = pilothouse(home.path(), &[&aws[..], &["ps"]].concat());
    assert_eq!(code(&output), Some(4), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("there is no server at"), "it had a token, and nobody was there");

    let output = pilothouse(home.path(), &["--profile", "aws", "ps"]);
    assert_eq!(code(&output), Some(2));
    assert!(text(&output.stderr).contains("--deployment"), "{}", text(&output.stderr));
}
