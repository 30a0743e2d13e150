//! Serves a script: `pilothouse-model-server <script.json> [--port PORT]`. Prints its address and runs until it is
//! stopped.
//!
//! `POST /_script/open/GATE` opens a gate; `GET /_script/requests` lists the requests so far.

use std::{error::Error, io::Write as _};

use pilothouse_model_server::{ModelServer, Script};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (file, port) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [file] => (file, 0),
        [file, "--port", port] | ["--port", port, file] => (file, port.parse()?),
        _ => return Err("usage: pilothouse-model-server <script.json> [--port PORT]".into()),
    };
    let script = Script::parse(&std::fs::read_to_string(file)?)?;
    let server = ModelServer::start_on(script, port).await?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", server.base_url())?;
    out.flush()?;
    server.serve().await;
    Ok(())
}
