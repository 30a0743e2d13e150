//! `pilothouse up`.

use std::net::SocketAddr;

use clap::Args;

use crate::args::{DEFAULT_LISTEN, Globals};
use crate::context::{write, write_json};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Style;
use crate::server::{Options, Server};

/// Start the server on this machine.
///
/// It keeps everything in its data folder (--data, default ~/.pilothouse). Ctrl-C ends it; agents that work go on, and
/// the next start takes them over. Only programs on this machine reach it unless --listen says otherwise; whoever comes
/// from elsewhere needs a token (pilothouse token) and a network that can be trusted, for it speaks plain HTTP.
#[derive(Debug, Args)]
pub struct Up {
    /// Where to listen; port 0 takes any that is free
    #[arg(long, default_value = DEFAULT_LISTEN, value_name = "ADDRESS")]
    pub listen: SocketAddr,
}

impl Up {
    pub(super) async fn run(self, globals: &Globals) -> Result<Exit, CliError> {
        let data = globals.data_folder().ok_or_else(|| {
            CliError::Usage("there is no home folder; name a data folder with --data".into())
        })?;
        logs();
        let server =
            Server::start(Options { listen: self.listen, data: data.clone(), ephemeral: false }).await?;
        let url = server.url().to_owned();
        if globals.json {
            write_json(&serde_json::json!({ "url": url, "data": data }))?;
        } else {
            let style = Style::for_stream(&std::io::stdout());
            let (folder, shown) = (data.display(), style.bold(&url));
            let hint = if url.trim_end_matches('/') == format!("http://{DEFAULT_LISTEN}") {
                String::new()
            } else {
                format!("  export PILOTHOUSE_URL={url}\n")
            };
            write(&format!(
                "Pilothouse listens on {shown}, data in {folder}. In another terminal:\n{hint}  \
                 pilothouse run \"what to do\"\n  pilothouse ps\nCtrl-C ends it; agents that work go on and are taken \
                 over at the next start.\n"
            ))?;
        }
        server.run_until(stop_requested()).await;
        if !globals.json {
            write("Pilothouse has stopped. Agents that work go on.\n")?;
        }
        Ok(Exit::Done)
    }
}

/// Ctrl-C, or the polite signal of a service manager.
pub(super) async fn stop_requested() {
    use tokio::signal::unix::{SignalKind, signal};
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}

/// Logs to standard error: warnings, or what `PILOTHOUSE_LOG` says.
pub(super) fn logs() {
    use std::io::IsTerminal as _;
    let filter = tracing_subscriber::EnvFilter::try_from_env("PILOTHOUSE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    let subscriber = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(filter);
    // A second one in the same process changes nothing.
    let _ = subscriber.try_init();
}
