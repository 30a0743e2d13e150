//! `pilothouse worker`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use pilothouse_runtime::Containers;
use pilothouse_wire::worker::WorkerId;

use super::up::{logs, stop_requested};
use crate::args::Globals;
use crate::context::{Context, write, write_json};
use crate::error::CliError;
use crate::exit::Exit;
use crate::server::{SIDECAR, sidecar};
use crate::worker::{RemoteWorker, Settings, name_of};

/// Run your sessions on this machine, for a control plane elsewhere.
///
/// The worker registers with the control plane (--url) as yours, and runs what your sessions ask for where your
/// repositories and tools are. A session chooses by its labels: `worker/gpu=a100` asks for a worker with the label
/// gpu=a100, `worker/id=NAME` for one by name. With --docker, agents see of this machine what they work on, and nothing
/// else: the session's folders stand where they are here.
///
/// Ctrl-C ends the worker; agents that work go on, and the next start takes them over.
#[derive(Debug, Args)]
pub struct Worker {
    /// Its name among your workers [default: made once, and kept in the data folder]
    #[arg(long, value_name = "NAME")]
    pub id: Option<WorkerId>,
    /// What it has, for sessions to ask for; may be given again
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// How many sessions it runs at once
    #[arg(long, default_value_t = 4, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=500))]
    pub capacity: u32,
    /// Serve everybody; only for operators of the control plane
    #[arg(long)]
    pub shared: bool,
    /// Run sidecars in containers of this image, whose entry point is a pilothouse-sidecar
    #[arg(long, value_name = "IMAGE")]
    pub docker: Option<String>,
    /// The engine of containers: a program with Docker's command line
    #[arg(long, default_value = "docker", requires = "docker", value_name = "PROGRAM")]
    pub docker_engine: PathBuf,
    /// An option for the engine's `run`, such as --network=host or --init; may be given again
    #[arg(long = "docker-option", requires = "docker", allow_hyphen_values = true, value_name = "OPTION")]
    pub docker_options: Vec<String>,
    /// Leave nothing behind at the end: agents end with the worker, and it is forgotten
    #[arg(long)]
    pub ephemeral: bool,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("must be NAME=VALUE".to_owned()),
    }
}

impl Worker {
    pub(super) async fn run(self, globals: &Globals) -> Result<Exit, CliError> {
        let context = Context::new(globals)?;
        let folder = globals.data_folder().ok_or_else(|| {
            CliError::Usage("there is no home folder; name a data folder with --data".into())
        })?;
        // Beside the folder of a server on this machine, which has a worker of its own.
        let folder = folder.join("workers");
        let id = match self.id {
            Some(id) => id,
            None => name_of(&folder).map_err(|error| CliError::Failed(error.to_string()))?,
        };
        let data = folder.join(id.as_str());
        let sidecar = sidecar().ok_or_else(|| {
            CliError::Failed(format!(
                "the program pilothouse-sidecar is not beside this one; name it in {SIDECAR}"
            ))
        })?;
        logs();
        let url = context.client.base().to_string();
        let labels: BTreeMap<_, _> = self.labels.into_iter().collect();
        let settings = Settings {
            id: id.clone(),
            labels,
            capacity: self.capacity,
            shared: self.shared,
            data: data.clone(),
            sidecar,
            containers: self.docker.map(|image| Containers {
                engine: self.docker_engine,
                image,
                options: self.docker_options,
            }),
        };
        let worker = RemoteWorker::start(context.client, settings).await?;
        if globals.json {
            write_json(&serde_json::json!({ "worker": id, "url": url, "data": data }))?;
        } else {
            let (bold, folder) = (context.style.bold(id.as_str()), data.display());
            write(&format!("{bold} works for {url}, data in {folder}. Ctrl-C ends it.\n"))?;
        }
        worker.run_until(stop_requested(), self.ephemeral).await;
        if !globals.json {
            let agents = if self.ephemeral { "Its agents have ended." } else { "Agents that work go on." };
            write(&format!("The worker has stopped. {agents}\n"))?;
        }
        Ok(Exit::Done)
    }
}
