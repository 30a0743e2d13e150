//! Telling Lambda why a function does not start, so that who invoked it is told too.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How long telling may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Posts an error of the initialisation to the Runtime API. Where that cannot be reached, the log has to do.
pub async fn tell(kind: &str, message: &str) {
    let Ok(address) = std::env::var("AWS_LAMBDA_RUNTIME_API") else { return };
    match tokio::time::timeout(PATIENCE, post(&address, kind, message)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "Lambda could not be told"),
        Err(_) => tracing::warn!("Lambda did not listen"),
    }
}

async fn post(address: &str, kind: &str, message: &str) -> std::io::Result<()> {
    let body = json!({ "errorType": kind, "errorMessage": message, "stackTrace": [] }).to_string();
    let request = format!(
        "POST /2018-06-01/runtime/init/error HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/vnd.aws.lambda.error+json\r\nlambda-runtime-function-error-type: {kind}\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len(),
    );
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.map(drop)
}
