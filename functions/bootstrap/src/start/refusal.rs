//! Reports to Lambda why a function failed to start, so that the caller sees the reason.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Posts an initialisation error to the Runtime API. If that is unreachable, only the log has the error.
pub async fn report_init_error(kind: &str, message: &str) {
    let Ok(address) = std::env::var("AWS_LAMBDA_RUNTIME_API") else { return };
    match tokio::time::timeout(REQUEST_TIMEOUT, post(&address, kind, message)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "failed to report the error to Lambda"),
        Err(_) => tracing::warn!("timed out while reporting the error to Lambda"),
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
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await.map(drop)
}
