//! `pilothouse up`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use pilothouse_domain::UserId;
use pilothouse_domain::text::AdapterName;
use pilothouse_domain::value::AllowedModels;
use pilothouse_embedded::{AgentsOnExit, Options, Retention, Server};
use pilothouse_local_keys::DEFAULT_OWNER;
use pilothouse_worker::check_passed_name;

use crate::context::{write, write_json};
use crate::error::CliError;
use crate::exit::Exit;
use crate::globals::{DEFAULT_LISTEN, Globals};
use crate::output::Style;

/// Start the server on this machine.
///
/// All data is in its data folder (--data, default ~/.pilothouse). Ctrl-C ends the server; agents keep working, and the next
/// start adopts them. By default only programs on this machine can reach it (--listen). Clients on other machines need a
/// token (pilothouse token) and a trusted network, because the server speaks plain HTTP.
#[derive(Debug, Args)]
pub struct Up {
    /// The address to listen on; port 0 selects a free port
    #[arg(long, default_value = DEFAULT_LISTEN, value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// Pause working agents before the server ends; otherwise they keep working within their budgets
    #[arg(long, env = "PILOTHOUSE_PAUSE_AGENTS_ON_EXIT")]
    pub pause_agents_on_exit: bool,
    /// Do not confine agents, and still serve every owner
    ///
    /// For agents that need rights which confinement removes, such as sudo. Any agent can then read the data folder and act as
    /// any owner.
    #[arg(long, env = "PILOTHOUSE_UNCONFINED")]
    pub unconfined: bool,
    /// A file with secrets for agents whose briefs name them, as JSON; only its owner may have access to it (mode 600)
    #[arg(long, env = "PILOTHOUSE_SECRETS", value_name = "FILE")]
    pub secrets: Option<PathBuf>,
    #[command(flatten)]
    pub passed: PassedVariables,
    /// A name under which browsers may open the console, besides IP addresses and localhost; repeat it for several
    #[arg(long, env = "PILOTHOUSE_CONSOLE_HOSTS", value_name = "NAME", value_delimiter = ',')]
    pub console_host: Vec<String>,
    /// The adapter of sessions that name none; later starts keep it
    ///
    /// By default the first start chooses `claude` if Claude Code is installed, or else `native` if there is a key for a model
    /// provider.
    #[arg(long, env = "PILOTHOUSE_DEFAULT_ADAPTER", value_name = "NAME", value_parser = adapter())]
    pub default_adapter: Option<AdapterName>,
    /// A model that sessions may use, with `*` at the end of its id for any ending; repeat it for several [default: all models]
    ///
    /// The id `default` allows sessions without a model, for which the adapter chooses one. Running sessions keep their models.
    #[arg(long, env = "PILOTHOUSE_ALLOWED_MODELS", value_name = "MODEL", value_delimiter = ',')]
    pub allow_model: Vec<String>,
    /// How many days raw events, activity and notifications are kept, with what agents said and did: 15 to 3650. Sessions and their results are kept without a limit
    #[arg(long, env = "PILOTHOUSE_RETENTION_DAYS", value_name = "DAYS", default_value_t = Retention::default().days(), value_parser = clap::value_parser!(u16).range(i64::from(Retention::MIN_DAYS)..=i64::from(Retention::MAX_DAYS)))]
    pub retention_days: u16,
}

#[derive(Debug, Args)]
pub struct PassedVariables {
    /// A variable of this process that sidecars get, besides those for model providers; may be repeated
    ///
    /// An adapter's option `env` can then refer to it as "$NAME". Every owner whose sessions run here can use it.
    #[arg(long = "pass-env", env = "PILOTHOUSE_PASS_ENV", value_name = "NAME", value_delimiter = ',', value_parser = passed_name)]
    pub names: Vec<String>,
}

fn passed_name(name: &str) -> Result<String, &'static str> {
    check_passed_name(name).map(|()| name.to_owned())
}

/// Accepts only the adapters of a sidecar, because the server keeps the name for later starts.
fn adapter() -> impl TypedValueParser<Value = AdapterName> {
    PossibleValuesParser::new(["native", "claude", "acp", "shim", "script"]).try_map(AdapterName::parse)
}

impl Up {
    pub(super) async fn run(self, globals: &Globals) -> Result<Exit, CliError> {
        let data = globals.data_folder().ok_or_else(|| {
            CliError::Usage("there is no home folder; name a data folder with --data".into())
        })?;
        logs();
        let agents_on_exit =
            if self.pause_agents_on_exit { AgentsOnExit::Pause } else { AgentsOnExit::Continue };
        let confine = (!self.unconfined).then(|| globals.credentials());
        let (console_hosts, default_adapter) = (self.console_host, self.default_adapter);
        let retention =
            Retention::of_days(self.retention_days).map_err(|error| CliError::Usage(error.to_string()))?;
        // An empty variable is an empty list.
        let allow_model = self.allow_model.into_iter().filter(|id| !id.trim().is_empty()).collect();
        let allowed_models = AllowedModels::new(allow_model)
            .map_err(|error| CliError::Usage(format!("--allow-model {error}")))?;
        let options = Options {
            listen: self.listen,
            data: data.clone(),
            agents_on_exit,
            confine,
            secrets: self.secrets,
            pass_env: self.passed.names,
            console_hosts,
            default_adapter,
            allowed_models,
            retention,
        };
        let server = Server::start(options).await?;
        let url = server.url().to_owned();
        let owner = UserId::parse(DEFAULT_OWNER).map_err(|e| CliError::Failed(e.to_string()))?;
        let console = server.console_link(owner);
        if globals.json {
            let console = console.ok();
            write_json(&serde_json::json!({
                "url": url, "data": data, "agentConfinement": server.confinement(),
                "defaultAdapter": server.default_adapter(), "console": console,
            }))?;
        } else {
            let style = Style::for_stream(&std::io::stdout());
            let (folder, shown) = (data.display(), style.bold(&url));
            let hint = if url.trim_end_matches('/') == format!("http://{DEFAULT_LISTEN}") {
                String::new()
            } else {
                format!("  export PILOTHOUSE_URL={url}\n")
            };
            let console = match console {
                Ok(link) => format!(
                    "Open the web console with this link, which works once, within 15 minutes (later: pilothouse open):\n  {link}\n"
                ),
                Err(error) => format!("The web console is not included: {error}\n"),
            };
            let agent = match server.default_adapter() {
                Some(adapter) => format!("Sessions use the adapter `{adapter}` unless they name another (--default-adapter).\n"),
                None => "No agent was found. Install Claude Code, or set ANTHROPIC_API_KEY or OPENAI_API_KEY for the native agent, and \
                         start again; until then name an adapter for each session.\n"
                    .to_owned(),
            };
            write(&format!(
                "Pilothouse listens on {shown}, data in {folder}.\n{console}{agent}In another terminal:\n{hint}  \
                 pilothouse run \"what to do\"\n  pilothouse ps\n{}\n{}\n",
                on_exit(agents_on_exit),
                server.confinement().statement()
            ))?;
        }
        let unpaused = server.run_until(stop_requested()).await;
        if !globals.json {
            write(&format!("Pilothouse has stopped. {}\n", after_exit(agents_on_exit, unpaused)))?;
        }
        Ok(Exit::Done)
    }
}

/// What Ctrl-C does.
const fn on_exit(agents: AgentsOnExit) -> &'static str {
    match agents {
        AgentsOnExit::Continue => {
            "Ctrl-C ends the server; agents keep working, and the next start adopts them."
        }
        AgentsOnExit::Pause => {
            "Ctrl-C pauses the agents on this machine and ends the server; the next start adopts them."
        }
        AgentsOnExit::End => "Ctrl-C ends the server and its agents.",
    }
}

/// What the agents do after the server has ended. `unpaused`: how many of those that should pause have not confirmed it.
fn after_exit(agents: AgentsOnExit, unpaused: usize) -> String {
    match (agents, unpaused) {
        (AgentsOnExit::Continue, _) => "Agents keep working.".to_owned(),
        (AgentsOnExit::End, _) => "Its agents have ended.".to_owned(),
        (AgentsOnExit::Pause, 0) => "The agents on this machine are paused.".to_owned(),
        (AgentsOnExit::Pause, 1) => "1 agent has not confirmed its pause and may still work.".to_owned(),
        (AgentsOnExit::Pause, count) => {
            format!("{count} agents have not confirmed their pause and may still work.")
        }
    }
}

/// Waits for Ctrl-C or SIGTERM.
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

/// Logs to standard error: warnings, or the filter of `PILOTHOUSE_LOG`.
pub(super) fn logs() {
    use std::io::IsTerminal as _;
    let filter = tracing_subscriber::EnvFilter::try_from_env("PILOTHOUSE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    let subscriber = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        // A failure to write a log, for example on a full disk, must not end the server.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(filter);
    // Fails if the process already has a subscriber.
    let _ = subscriber.try_init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_reports_agents_that_are_not_paused() {
        assert!(on_exit(AgentsOnExit::Continue).contains("agents keep working"));
        assert!(on_exit(AgentsOnExit::Pause).contains("pauses the agents"));
        assert_eq!(after_exit(AgentsOnExit::Pause, 0), "The agents on this machine are paused.");
        assert!(after_exit(AgentsOnExit::Pause, 1).starts_with("1 agent has not confirmed its pause"));
        assert!(after_exit(AgentsOnExit::Pause, 2).starts_with("2 agents have not confirmed their pause"));
    }
}
