//! `pilothouse worker`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use pilothouse_domain::project_agent::SandboxCapability;
use pilothouse_embedded::{AgentConfinement, SIDECAR, sidecar_program};
use pilothouse_wire::worker::WorkerId;
use pilothouse_worker::{Containers, RemoteWorker, RemoteWorkerSettings, load_or_create_worker_id};

use super::up::{PassedVariables, logs, stop_requested};
use crate::context::{Context, write, write_json};
use crate::error::CliError;
use crate::exit::Exit;
use crate::globals::Globals;

/// Run your sessions on this machine, for a control plane on another one.
///
/// The worker registers with the control plane (--url) as yours, and runs your sessions where your repositories and
/// tools are. A session selects a worker by its labels: `worker/gpu=a100` requires a worker with the label gpu=a100,
/// `worker/id=NAME` requires this worker. With --docker, agents see only the folders of their session, at the same paths.
///
/// Ctrl-C ends the worker; agents keep working, and the next start adopts them.
#[derive(Debug, Args)]
pub struct Worker {
    /// The name of the worker [default: generated once and kept in the data folder]
    #[arg(long, value_name = "NAME")]
    pub id: Option<WorkerId>,
    /// A label that sessions can require; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// A capability of this machine, for briefs that require it: `browser`, `docker`, `gpu`, `git`, `network_internal_only`; may be
    /// repeated. A shell, the network and an installed git need no option
    #[arg(long = "capability", value_name = "NAME", value_parser = capability)]
    pub capabilities: Vec<SandboxCapability>,
    /// The maximum number of concurrent sessions
    #[arg(long, default_value_t = 4, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=500))]
    pub capacity: u32,
    /// Serve all owners; only for operators of the control plane
    #[arg(long)]
    pub shared: bool,
    /// Run sidecars in containers of this image, whose entry point is a pilothouse-sidecar
    #[arg(long, value_name = "IMAGE")]
    pub docker: Option<String>,
    /// The container engine: a program with Docker's command line
    #[arg(long, default_value = "docker", requires = "docker", value_name = "PROGRAM")]
    pub docker_engine: PathBuf,
    /// An option for the engine's `run`, such as --network=host or --init; may be repeated
    #[arg(long = "docker-option", requires = "docker", allow_hyphen_values = true, value_name = "OPTION")]
    pub docker_options: Vec<String>,
    /// A file with secrets for agents whose briefs name them, as JSON; only its owner may have access to it (mode 600)
    #[arg(long, env = "PILOTHOUSE_SECRETS", value_name = "FILE")]
    pub secrets: Option<PathBuf>,
    #[command(flatten)]
    pub passed: PassedVariables,
    /// Do not confine agents, even for a --shared worker. With --docker, agents can reach the keys of their run
    #[arg(long, env = "PILOTHOUSE_UNCONFINED")]
    pub unconfined: bool,
    /// End agents with the worker, and remove the worker at the end
    #[arg(long)]
    pub ephemeral: bool,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("must be NAME=VALUE".to_owned()),
    }
}

/// What an agent in a container may do with the keys of its run.
const fn container_statement(hides_keys: bool) -> &'static str {
    if hides_keys {
        "Agents run in containers. Where the kernel and the container engine allow Landlock, they cannot reach the keys of their run; \
         the log of a run warns where they can.\n"
    } else {
        "Agents run in containers, and can reach the keys of their run (--unconfined).\n"
    }
}

fn capability(text: &str) -> Result<SandboxCapability, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}

impl Worker {
    pub(super) async fn run(self, globals: &Globals) -> Result<Exit, CliError> {
        let context = Context::new(globals)?;
        let folder = globals.data_folder().ok_or_else(|| {
            CliError::Usage("there is no home folder; name a data folder with --data".into())
        })?;
        // Separate from the folder of a server on this machine, which has a built-in worker.
        let folder = folder.join("workers");
        let id = match self.id {
            Some(id) => id,
            None => load_or_create_worker_id(&folder).map_err(|error| CliError::Failed(error.to_string()))?,
        };
        let data = folder.join(id.as_str());
        let sidecar = sidecar_program().ok_or_else(|| {
            CliError::Failed(format!(
                "the program pilothouse-sidecar is not in the folder of this program; set its path in {SIDECAR}"
            ))
        })?;
        logs();
        let confinement = match self.docker {
            Some(_) => None,
            None => Some(AgentConfinement::detect(&sidecar, !self.unconfined).await),
        };
        if self.shared && confinement == Some(AgentConfinement::Unavailable) {
            return Err(CliError::Failed(
                "this machine cannot confine agents, so a shared worker would let them act for each other's owners; run them in \
                 containers with --docker, or accept that with --unconfined"
                    .into(),
            ));
        }
        let confine_agents = confinement.map_or(!self.unconfined, AgentConfinement::is_enforced);
        let statement = match confinement {
            Some(confinement) => confinement.worker_statement(),
            None => container_statement(confine_agents).to_owned(),
        };
        let url = context.client.base().to_string();
        let labels: BTreeMap<_, _> = self.labels.into_iter().collect();
        let settings = RemoteWorkerSettings {
            id: id.clone(),
            labels,
            capacity: self.capacity,
            shared: self.shared,
            capabilities: self.capabilities,
            data: data.clone(),
            sidecar,
            containers: self.docker.map(|image| Containers {
                engine: self.docker_engine,
                image,
                options: self.docker_options,
            }),
            secrets: self.secrets,
            pass_env: self.passed.names,
            hidden: globals.credentials(),
            confine_agents,
        };
        let worker = RemoteWorker::start(context.client, settings).await?;
        if globals.json {
            write_json(
                &serde_json::json!({ "worker": id, "url": url, "data": data, "agentConfinement": confinement }),
            )?;
        } else {
            let (bold, folder) = (context.style.bold(id.as_str()), data.display());
            write(&format!("{bold} works for {url}, data in {folder}. Ctrl-C ends it.\n{statement}"))?;
        }
        worker.run_until(stop_requested(), self.ephemeral).await;
        if !globals.json {
            let agents = if self.ephemeral { "Its agents have ended." } else { "Agents keep working." };
            write(&format!("The worker has stopped. {agents}\n"))?;
        }
        Ok(Exit::Done)
    }
}
