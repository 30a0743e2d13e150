//! Finds files that the agent of a project left in its workspace without reporting them as artifacts (decision 96).
//!
//! The `run` of a session notes when the agent began, and which contents it reported, in the session's home. After the end of each run,
//! whatever ended it, `drain` compares the workspace with that and lists the difference in a notice.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::{DirEntry, WalkBuilder};
use nix::fcntl::OFlag;
use pilothouse_domain::Timestamp;
use pilothouse_domain::artifact::{ArtifactPath, ReportState, UnreportedFiles, WorkspaceFile};
use pilothouse_wire::RawEvent;
use pilothouse_wire::keys::sha256_hex;
use pilothouse_wire::launch::SidecarLaunch;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::warn;

use crate::spool::{Outgoing, Spool, SpoolError};

/// Name of the notice.
pub const NOTICE: &str = "unreported_files";

/// Its modification time is when the first run of the session began.
const BEGAN: &str = "workspace-began";
/// A line for each reported content.
const REPORTED: &str = "reported-files.jsonl";
/// The hash of the last list, which is not sent again.
const LISTED: &str = "unreported-files.sha256";
/// Most bytes of that file.
const MAX_LISTED: u64 = 64;
/// Most bytes of the record of what was reported.
const MAX_REPORTED: u64 = 16 * 1024 * 1024;

/// Files and folders that are read. The other ones are not listed.
const MAX_VISITED: usize = 20_000;
/// The scan delays the report that the run ended.
const MAX_TIME: Duration = Duration::from_secs(2);
/// Name of the files that exclude others.
const IGNORE_FILE: &str = ".gitignore";
/// In bytes, for one file and for all. Larger files are not used.
const MAX_IGNORE_FILE: u64 = 1024 * 1024;
const MAX_IGNORE_FILES: u64 = 4 * MAX_IGNORE_FILE;
/// Folders with contents that programs can make again. Hidden files, and those that `.gitignore` names, are excluded as well.
const GENERATED: [&str; 3] = ["node_modules", "__pycache__", "venv"];

/// A content that the agent reported as an artifact.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    path: String,
    size_bytes: u64,
    sha256: String,
}

/// The record of reported contents, in the home of a session.
#[derive(Debug, Clone)]
pub(crate) struct ReportedFiles(PathBuf);

impl ReportedFiles {
    pub(crate) fn of(session_home: &str) -> Self {
        Self(Path::new(session_home).join(REPORTED))
    }

    /// Records a content that the control plane has. After a failure the file is listed although it is an artifact.
    pub(crate) fn record(&self, path: &ArtifactPath, size_bytes: u64, sha256: String) {
        let report = Report { path: path.as_str().to_owned(), size_bytes, sha256 };
        let append = || {
            let mut line = serde_json::to_vec(&report)?;
            line.push(b'\n');
            OpenOptions::new().append(true).create(true).mode(0o600).open(&self.0)?.write_all(&line)
        };
        if let Err(error) = append() {
            warn!(%error, "failed to record that a file was reported");
        }
    }

    /// The latest report of each path.
    fn load(&self) -> io::Result<HashMap<String, Report>> {
        let text = match read_own(&self.0, MAX_REPORTED) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
            text => text?,
        };
        // A kill can leave half a line.
        let reports = text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        Ok(reports.map(|report: Report| (report.path.clone(), report)).collect())
    }
}

/// Notes when the agent of a project began, unless an earlier run of the session did.
pub(crate) fn begin(launch: &SidecarLaunch) {
    if launch.request.agent.is_none() {
        return;
    }
    let began = Path::new(&launch.session_home).join(BEGAN);
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(began) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            warn!(%error, "failed to note when the agent began; its unreported files will not be listed");
        }
        _ => {}
    }
}

/// Adds a notice to the spool that lists the unreported files, if they differ from the last list. An empty list withdraws the last one.
/// Returns whether it did.
pub(crate) async fn report(launch: &SidecarLaunch, spool: &Spool) -> Result<bool, SpoolError> {
    // The first event of a run must be `sidecar_ready`.
    if launch.request.agent.is_none() || spool.last_sequence().await? == 0 {
        return Ok(false);
    }
    let Some(found) = find_in_time(launch.clone()).await else { return Ok(false) };
    let detail = serde_json::to_value(&found)?;
    let (listed, hash) =
        (Path::new(&launch.session_home).join(LISTED), sha256_hex(detail.to_string().as_bytes()));
    let last = read_own(&listed, MAX_LISTED).ok();
    if last.as_ref().is_some_and(|last| last == hash.as_bytes()) {
        return Ok(false);
    }
    let withdrawal = || found.withdrawal().filter(|_| last.is_some()).map(str::to_owned);
    let Some(summary) = found.summary().or_else(withdrawal) else { return Ok(false) };
    let notice = RawEvent::Notice { name: NOTICE.to_owned(), summary, detail: Some(detail) };
    spool.append(Outgoing::event(notice)?).await?;
    // Outside of a container, whose agent may have made a link of it.
    let mut options = OpenOptions::new();
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(flags.bits());
    if let Err(error) = options.open(&listed).and_then(|mut file| file.write_all(hash.as_bytes())) {
        warn!(%error, "failed to note which files were listed; they will be listed again");
    }
    Ok(true)
}

/// The unreported files, if they are found within twice [`MAX_TIME`]. The scan runs in a thread of its own, which is left behind after
/// that, because a file system can block for ever.
async fn find_in_time(launch: SidecarLaunch) -> Option<UnreportedFiles> {
    let (send, found) = oneshot::channel();
    std::thread::spawn(move || send.send(find(&launch, Instant::now() + MAX_TIME)));
    match timeout(2 * MAX_TIME, found).await {
        Ok(Ok(Ok(found))) => found,
        Ok(Ok(Err(error))) => {
            warn!(%error, "failed to look for unreported files");
            None
        }
        Ok(Err(_)) | Err(_) => {
            warn!("looking for unreported files did not end in time");
            None
        }
    }
}

/// The unreported files. `None` if it is unknown when the agent began.
fn find(launch: &SidecarLaunch, deadline: Instant) -> io::Result<Option<UnreportedFiles>> {
    let began = match fs::metadata(Path::new(&launch.session_home).join(BEGAN)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        metadata => timestamp(metadata?.modified()?),
    };
    let reports = ReportedFiles::of(&launch.session_home).load()?;
    let root = Path::new(&launch.request.working_directory);
    let mut walk = WalkBuilder::new(root);
    // Settings outside of the workspace are not the owner's wish for it. The walk would read ignore files of any kind and size.
    walk.standard_filters(false).follow_links(false).same_file_system(true);
    let ignored = IgnoreFiles::below(root);
    walk.filter_entry(move |entry| {
        !GENERATED.iter().any(|name| entry.file_name() == *name) && !ignored.exclude(entry)
    });
    let (mut files, mut complete) = (Vec::new(), true);
    for (visited, entry) in walk.build().enumerate() {
        if visited >= MAX_VISITED || Instant::now() >= deadline {
            complete = false;
            break;
        }
        let Some((path, metadata)) = entry.ok().and_then(|entry| {
            let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((entry.into_path(), metadata))
        }) else {
            continue;
        };
        let changed_at =
            Timestamp::from_millis(metadata.ctime().saturating_mul(1000) + metadata.ctime_nsec() / 1_000_000);
        if changed_at < began {
            continue;
        }
        let name = shown(path.strip_prefix(root).unwrap_or(&path));
        let reported = match reports.get(&name) {
            None => ReportState::Never,
            Some(report) if report.size_bytes == metadata.len() && is_content(&path, report) => {
                ReportState::Current
            }
            Some(_) => ReportState::Earlier,
        };
        files.push(WorkspaceFile { path: name, size_bytes: metadata.len(), changed_at, reported });
    }
    Ok(Some(UnreportedFiles::find(files, began, complete)))
}

/// A path without characters that a terminal would interpret.
fn shown(path: &Path) -> String {
    path.to_string_lossy()
        .chars()
        .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

/// The `.gitignore` files of a workspace. The agent may have written them, so their size is limited.
#[derive(Debug)]
struct IgnoreFiles {
    root: PathBuf,
    read: Mutex<ReadIgnoreFiles>,
}

#[derive(Debug, Default)]
struct ReadIgnoreFiles {
    /// By folder. `None` for a folder whose rules are not used.
    rules: HashMap<PathBuf, Option<Gitignore>>,
    bytes: u64,
}

impl IgnoreFiles {
    fn below(root: &Path) -> Self {
        Self { root: root.to_owned(), read: Mutex::default() }
    }

    /// Whether the nearest rule for an entry excludes it. Hidden files are excluded unless a rule includes them.
    fn exclude(&self, entry: &DirEntry) -> bool {
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let folders = entry.path().ancestors().skip(1).take_while(|folder| folder.starts_with(&self.root));
        for folder in folders {
            let Some(rules) = read.of(folder) else { continue };
            let rule = rules.matched(entry.path(), is_folder);
            if !rule.is_none() {
                return rule.is_ignore();
            }
        }
        entry.file_name().as_encoded_bytes().starts_with(b".")
    }
}

impl ReadIgnoreFiles {
    fn of(&mut self, folder: &Path) -> Option<&Gitignore> {
        let Self { rules, bytes } = self;
        rules.entry(folder.to_owned()).or_insert_with(|| load_rules(folder, bytes).ok()).as_ref()
    }
}

/// Reads the rules of a folder, and adds their size to `total`.
fn load_rules(folder: &Path, total: &mut u64) -> io::Result<Gitignore> {
    let file = open_file(&folder.join(IGNORE_FILE))?;
    let metadata = file.metadata()?;
    let bytes = metadata.len();
    if !metadata.is_file() || bytes > MAX_IGNORE_FILE || *total + bytes > MAX_IGNORE_FILES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    *total += bytes;
    let mut text = Vec::new();
    file.take(bytes).read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let mut rules = GitignoreBuilder::new(folder);
    for line in text.trim_start_matches('\u{feff}').lines() {
        // Like git, ignores a line that is no pattern.
        let _ = rules.add_line(None, line);
    }
    rules.build().map_err(io::Error::other)
}

/// Reads at most `most` bytes of a file of the session that the agent of a container can replace.
fn read_own(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open_file(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a file to read. Does not block on a named pipe, and does not follow a link.
fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW;
    OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)
}

/// Whether a file has the reported content, which has at most 100 MB.
fn is_content(path: &Path, report: &Report) -> bool {
    let read = || {
        let file = open_file(path)?;
        let mut bytes = Vec::new();
        file.take(report.size_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok::<_, io::Error>(bytes)
    };
    read().is_ok_and(|bytes| sha256_hex(&bytes) == report.sha256)
}

fn timestamp(time: SystemTime) -> Timestamp {
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use pilothouse_domain::{ProjectAgentId, ProjectId};
    use uuid::Uuid;

    use super::*;
    use crate::spool::tests::{launch, open};

    struct Given {
        home: tempfile::TempDir,
        work: tempfile::TempDir,
        launch: SidecarLaunch,
    }

    /// An agent of a project that began in a workspace with a file of the owner.
    fn given() -> Given {
        let (home, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut launch = launch();
        launch.session_home = home.path().to_str().unwrap().to_owned();
        launch.request.working_directory = work.path().to_str().unwrap().to_owned();
        let agent = serde_json::json!({
            "projectId": ProjectId::new(Uuid::from_u128(3)), "agentId": ProjectAgentId::new(Uuid::from_u128(4)),
            "workstream": "shop",
        });
        launch.request.agent = Some(serde_json::from_value(agent).unwrap());
        fs::write(work.path().join("of-the-owner"), "before").unwrap();
        let owner = fs::metadata(work.path().join("of-the-owner")).unwrap().ctime_nsec() / 1_000_000;
        // Timestamps have milliseconds.
        loop {
            begin(&launch);
            let began = fs::metadata(home.path().join(BEGAN)).unwrap();
            if began.mtime_nsec() / 1_000_000 != owner {
                break;
            }
            fs::remove_file(home.path().join(BEGAN)).unwrap();
        }
        Given { home, work, launch }
    }

    impl Given {
        fn found(&self) -> Vec<String> {
            let found = find(&self.launch, Instant::now() + Duration::from_mins(1)).unwrap().unwrap();
            let mut paths: Vec<_> = found.files.into_iter().map(|file| file.path).collect();
            paths.sort();
            paths
        }

        fn write(&self, path: &str, content: &str) {
            let path = self.work.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }

        fn reported(&self, path: &str, content: &str) {
            let reported = ReportedFiles::of(&self.launch.session_home);
            let path = ArtifactPath::parse(path).unwrap();
            reported.record(&path, content.len() as u64, sha256_hex(content.as_bytes()));
        }
    }

    #[test]
    fn files_without_a_report_of_their_content_are_found() {
        let given = given();
        for path in
            ["src/new.rs", "saved.md", "edited.md", "same-size.md", ".env", "node_modules/x/y.js", "out/z"]
        {
            given.write(path, "one");
        }
        given.write(".gitignore", "/out/\n");
        symlink("/etc/passwd", given.work.path().join("link")).unwrap();
        given.reported("saved.md", "zero");
        given.reported("saved.md", "one");
        given.reported("edited.md", "zero");
        given.reported("same-size.md", "two");
        let torn = given.home.path().join(REPORTED);
        OpenOptions::new().append(true).open(torn).unwrap().write_all(b"{\"path\":\"src/n").unwrap();
        assert_eq!(given.found(), ["edited.md", "same-size.md", "src/new.rs"]);
    }

    #[test]
    fn control_characters_of_a_path_are_replaced() {
        let given = given();
        given.write("a\u{1b}[2Jb", "x");
        assert_eq!(given.found(), ["a\u{fffd}[2Jb"]);
    }

    #[test]
    fn scan_that_takes_too_long_says_so() {
        let given = given();
        let found = find(&given.launch, Instant::now()).unwrap().unwrap();
        assert!(!found.complete && found.files.is_empty());
    }

    #[tokio::test]
    async fn list_is_sent_once_until_it_changes() {
        let given = given();
        let spool = open(given.home.path());
        report(&given.launch, &spool).await.unwrap();
        assert_eq!(spool.last_sequence().await.unwrap(), 0, "nothing precedes `sidecar_ready`");
        let log = RawEvent::LogChunk { stream: "agent".into(), content: "ready".into() };
        spool.append(Outgoing::event(log).unwrap()).await.unwrap();
        for (path, expected) in [(None, 1), (Some("a"), 2), (None, 2), (Some("b"), 3)] {
            if let Some(path) = path {
                given.write(path, "x");
            }
            report(&given.launch, &spool).await.unwrap();
            assert_eq!(spool.last_sequence().await.unwrap(), expected, "{path:?}");
        }
    }

    #[tokio::test]
    async fn list_is_withdrawn_once_when_its_files_are_reported() {
        let given = given();
        let spool = open(given.home.path());
        let log = RawEvent::LogChunk { stream: "agent".into(), content: "ready".into() };
        spool.append(Outgoing::event(log).unwrap()).await.unwrap();
        given.write("a", "x");
        assert!(report(&given.launch, &spool).await.unwrap());
        given.reported("a", "x");
        assert!(report(&given.launch, &spool).await.unwrap(), "it is withdrawn");
        assert!(!report(&given.launch, &spool).await.unwrap());
        given.write("b", "x");
        assert!(report(&given.launch, &spool).await.unwrap(), "another list");
    }

    #[test]
    fn ignore_file_that_is_huge_or_a_link_is_not_used() {
        let given = given();
        given.write("huge/a", "x");
        given.write("huge/.gitignore", "a\n");
        let huge = OpenOptions::new().write(true).open(given.work.path().join("huge/.gitignore")).unwrap();
        huge.set_len(8 << 30).unwrap();
        given.write("link/b", "x");
        given.write("rules", "b\n");
        symlink("../rules", given.work.path().join("link/.gitignore")).unwrap();
        assert_eq!(given.found(), ["huge/a", "link/b", "rules"]);
    }

    #[test]
    fn nearest_ignore_file_decides() {
        let given = given();
        for path in ["a.log", "sub/a.log", "sub/b.log", "sub/deep/a.log", "built/a.txt", ".env", ".kept"] {
            given.write(path, "x");
        }
        given.write(".gitignore", "\u{feff}*.log\r\n# comment\nbuilt/\n!.kept\n");
        given.write("sub/.gitignore", "!a.log\n");
        assert_eq!(given.found(), [".kept", "sub/a.log", "sub/deep/a.log"]);
    }

    #[tokio::test]
    async fn named_pipe_as_ignore_file_does_not_block_the_end_of_a_run() {
        let given = given();
        given.write("a", "x");
        nix::unistd::mkfifo(&given.work.path().join(".gitignore"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let spool = open(given.home.path());
        let log = RawEvent::LogChunk { stream: "agent".into(), content: "ready".into() };
        spool.append(Outgoing::event(log).unwrap()).await.unwrap();
        assert!(timeout(Duration::from_mins(1), report(&given.launch, &spool)).await.unwrap().unwrap());
        assert_eq!(given.found(), ["a"]);
    }

    #[test]
    fn only_gitignore_of_the_workspace_excludes_files() {
        let given = given();
        for path in ["a", "b", "c"] {
            given.write(path, "x");
        }
        given.write(".ignore", "a\n");
        given.write(".git/info/exclude", "b\n");
        given.write(".gitignore", "c\n");
        assert_eq!(given.found(), ["a", "b"]);
    }

    #[tokio::test]
    async fn agent_outside_of_projects_has_no_list() {
        let mut given = given();
        given.launch.request.agent = None;
        given.write("a", "x");
        let spool = open(given.home.path());
        let log = RawEvent::LogChunk { stream: "agent".into(), content: "ready".into() };
        spool.append(Outgoing::event(log).unwrap()).await.unwrap();
        report(&given.launch, &spool).await.unwrap();
        assert_eq!(spool.last_sequence().await.unwrap(), 1);
    }
}
