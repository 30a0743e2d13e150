//! The addresses at which the sidecars of a data folder reach their control plane.

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, io};

use pilothouse_domain::RunId;
use pilothouse_wire::launch::{BrokerAccess, SidecarLaunch};

use super::run_dir::RunDir;

/// The gateway URLs in the unfinished runs of a data folder. A sidecar reads its URL once, and what an ended one left is published
/// to the same URL, so the next control plane must be reachable there.
///
/// Skips invalid run directories, which the worker logs when it starts. Fails if the folder of the runs cannot be read.
pub fn gateway_urls(data: &Path) -> io::Result<BTreeSet<String>> {
    let runs = data.join("runs");
    let entries = match fs::read_dir(&runs) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries?,
    };
    let mut urls = BTreeSet::new();
    for entry in entries {
        let name = entry?.file_name();
        let Some(run) = name.to_str().and_then(|name| name.parse::<RunId>().ok()) else { continue };
        let dir = RunDir::of(&runs, run);
        if !dir.is_finished()
            && let Some(BrokerAccess::Gateway { url, .. }) = broker_access(&dir)
        {
            urls.insert(url);
        }
    }
    Ok(urls)
}

fn broker_access(dir: &RunDir) -> Option<BrokerAccess> {
    let launch = fs::read(dir.launch()).ok()?;
    Some(serde_json::from_slice::<SidecarLaunch>(&launch).ok()?.broker)
}

#[cfg(test)]
mod tests {
    use pilothouse_test_support::launch_request;
    use pilothouse_wire::RootSecret;
    use pilothouse_wire::launch::{RunAccessIssuer, RunExit};

    use super::*;

    fn prepared(runs: &Path, issuer: &RunAccessIssuer) -> RunDir {
        let request = launch_request();
        let dir = RunDir::of(runs, request.run_id);
        let access = issuer.issue(&RootSecret::new("test", vec![7; 32]).unwrap(), &request);
        dir.create(&access.launch(request, "/tmp".to_owned())).unwrap();
        dir
    }

    #[test]
    fn urls_of_unfinished_runs_are_found() {
        let data = tempfile::tempdir().unwrap();
        assert!(gateway_urls(data.path()).unwrap().is_empty(), "nothing ran yet");
        let runs = data.path().join("runs");
        fs::create_dir(&runs).unwrap();
        let at = |url: &str| RunAccessIssuer::via_gateway(url);
        prepared(&runs, &at("http://127.0.0.1:1"));
        let ended = prepared(&runs, &at("http://127.0.0.1:2"));
        let finished = prepared(&runs, &at("http://127.0.0.1:3"));
        prepared(&runs, &RunAccessIssuer { sqs: true, ..at("https://deployment.example") });
        let exit = RunExit { code: Some(0), signal: None, drained: true, detail: None };
        ended.record_exit(&exit).unwrap();
        finished.mark_finished(&exit).unwrap();
        fs::write(prepared(&runs, &at("http://127.0.0.1:4")).launch(), "{").unwrap();
        fs::create_dir(runs.join("other")).unwrap();
        let found = gateway_urls(data.path()).unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["http://127.0.0.1:1", "http://127.0.0.1:2"]);
    }
}
