use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use proptest::prelude::*;

use super::*;

/// A folder with a secret and a working directory.
struct Fixture {
    dir: tempfile::TempDir,
    workspace: Workspace,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("work");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir_all(dir.path().join("skills")).unwrap();
        fs::create_dir_all(dir.path().join("work-other")).unwrap();
        fs::write(dir.path().join("secret"), "outside").unwrap();
        fs::write(dir.path().join("work-other/secret"), "outside").unwrap();
        fs::write(dir.path().join("skills/one.md"), "skill").unwrap();
        fs::write(root.join("file"), "inside").unwrap();
        fs::write(root.join("a/b/file"), "inside").unwrap();
        let workspace = Workspace::new(&root, &[dir.path().join("skills"), dir.path().join("none")]).unwrap();
        Self { dir, workspace }
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.workspace.root().join(name)).unwrap();
    }

    fn read(&self, path: &str) -> Result<String, WorkspaceError> {
        let mut text = String::new();
        self.workspace.open(path)?.read_to_string(&mut text).unwrap();
        Ok(text)
    }

    fn write(&self, path: &str) -> Result<bool, WorkspaceError> {
        self.workspace.find_to_write(path)?.replace(b"written")
    }

    fn assert_untouched(&self) {
        let mut names: Vec<_> =
            fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["secret", "skills", "work", "work-other"]);
        assert_eq!(fs::read_to_string(self.dir.path().join("secret")).unwrap(), "outside");
        assert_eq!(fs::read_to_string(self.dir.path().join("work-other/secret")).unwrap(), "outside");
        assert_eq!(fs::read_dir(self.dir.path().join("work-other")).unwrap().count(), 1);
        assert_eq!(fs::read_dir(self.dir.path().join("skills")).unwrap().count(), 1);
    }
}

#[test]
fn paths_inside_the_workspace_are_resolved() {
    let fixture = Fixture::new();
    let root = fixture.workspace.root().to_owned();
    fixture.link("a/b", "inner");
    fixture.link("../file", "a/up");
    fixture.link(root.join("a"), "whole");
    fixture.link("inner", "twice");
    let absolute = root.join("a/../a/b/file").display().to_string();
    for path in [
        "file",
        "./file",
        "a/../file",
        "a/b/file",
        "inner/file",
        "a/up",
        "whole/b/file",
        "twice/file",
        &absolute,
    ] {
        assert_eq!(fixture.read(path).unwrap(), "inside", "{path}");
    }
    // `..` returns to the previous folder of the walk.
    assert_eq!(fixture.read("inner/../../file").unwrap(), "inside");
    assert_eq!(fixture.workspace.find("twice/file").unwrap().relative(), Path::new("a/b/file"));
}

#[test]
fn paths_outside_are_refused_for_reading_and_writing() {
    let fixture = Fixture::new();
    let outside = fixture.dir.path().to_owned();
    fixture.link("../secret", "to-secret");
    fixture.link(outside.join("secret"), "to-secret-absolute");
    fixture.link("..", "up");
    fixture.link("../..", "a/b/up-from-deep");
    fixture.link(&outside, "out");
    fixture.link("/proc/self/cwd", "cwd");
    fixture.link("/proc/self/root", "rootlink");
    fixture.link("to-secret", "chained");
    fixture.link("../new-outside", "dangling");
    fixture.link(outside.join("work-other"), "prefix");
    fixture.link("/", "slash");
    let given = |rest: &str| format!("{}/{rest}", outside.display());
    let paths = [
        "..".to_owned(),
        "../secret".to_owned(),
        "a/../../secret".to_owned(),
        "a/b/../../../secret".to_owned(),
        "./././../secret".to_owned(),
        given("secret"),
        given("work/../secret"),
        given("work-other/secret"),
        given("work/a/../../secret"),
        "/etc/passwd".to_owned(),
        "//etc/passwd".to_owned(),
        format!("/proc/self/cwd/{}", "Cargo.toml"),
        format!("/proc/self/root{}", given("secret")),
        "to-secret".to_owned(),
        "to-secret-absolute".to_owned(),
        "up/secret".to_owned(),
        "a/b/up-from-deep/../secret".to_owned(),
        "out/secret".to_owned(),
        "cwd/Cargo.toml".to_owned(),
        "rootlink/etc/passwd".to_owned(),
        "chained".to_owned(),
        "dangling".to_owned(),
        "prefix/secret".to_owned(),
        "slash/etc/passwd".to_owned(),
    ];
    for path in paths {
        assert!(matches!(fixture.read(&path), Err(WorkspaceError::Outside(_))), "{path} was read");
        let written = fixture.write(&path);
        let refused = matches!(written, Err(WorkspaceError::Outside(_) | WorkspaceError::ReadOnly(_)));
        assert!(refused, "{path} was written: {written:?}");
    }
    fixture.assert_untouched();
}

#[test]
fn special_files_are_refused_without_blocking() {
    let fixture = Fixture::new();
    fixture.link("circle", "circle");
    fixture.link("round-b", "round-a");
    fixture.link("round-a", "round-b");
    nix::unistd::mkfifo(&fixture.workspace.root().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(fixture.workspace.root().join("socket")).unwrap();
    for (path, expected) in [("pipe", "Kind"), ("socket", "Kind"), ("a", "Kind"), (".", "Kind"), ("", "Kind")]
    {
        assert!(format!("{:?}", fixture.read(path)).contains(expected), "{path}");
        assert!(fixture.write(path).is_err(), "{path}");
    }
    for path in ["circle", "circle/x", "round-a", "round-b/x"] {
        assert!(matches!(fixture.read(path), Err(WorkspaceError::Links(_))), "{path}");
        assert!(matches!(fixture.write(path), Err(WorkspaceError::Links(_))), "{path}");
    }
    assert!(fixture.read("file/../file").is_err(), "a file has no `..`");
    assert!(fixture.read("none").unwrap_err().is_not_found());
    assert!(fixture.read("nul\0byte").is_err());
    assert!(fixture.read(&"x".repeat(5000)).is_err());
    assert!(fixture.workspace.find("file").unwrap().read_dir().is_err());
}

#[test]
fn file_is_written_atomically_and_keeps_its_permissions() {
    let fixture = Fixture::new();
    let root = fixture.workspace.root().to_owned();
    assert!(!fixture.write("new/deep/file").unwrap());
    assert_eq!(fs::read_to_string(root.join("new/deep/file")).unwrap(), "written");
    fs::set_permissions(root.join("file"), fs::Permissions::from_mode(0o750)).unwrap();
    fixture.link("file", "linked");
    assert!(fixture.write("linked").unwrap());
    assert_eq!(fs::read_to_string(root.join("file")).unwrap(), "written");
    assert_eq!(fs::metadata(root.join("file")).unwrap().permissions().mode() & 0o777, 0o750);
    assert!(fs::symlink_metadata(root.join("linked")).unwrap().is_symlink());
    fs::set_permissions(root.join("file"), fs::Permissions::from_mode(0o444)).unwrap();
    assert!(fixture.write("file").is_err(), "it is read-only");
    // A link to a missing file inside.
    fixture.link("later/file", "forward");
    assert!(!fixture.write("forward").unwrap());
    assert_eq!(fs::read_to_string(root.join("later/file")).unwrap(), "written");
    let names = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.contains("unfinished")).count(), 0);
}

#[test]
fn failed_write_keeps_the_old_content() {
    let fixture = Fixture::new();
    let root = fixture.workspace.root();
    let failed = fixture.workspace.find_to_write("a/b/file").unwrap().replace_by(|file| {
        file.write_all(b"half")?;
        Err(std::io::ErrorKind::StorageFull.into())
    });
    assert!(matches!(failed, Err(WorkspaceError::Io { .. })), "{failed:?}");
    assert_eq!(fs::read_to_string(root.join("a/b/file")).unwrap(), "inside");
    assert_eq!(fs::read_dir(root.join("a/b")).unwrap().count(), 1, "the unfinished file is left");
}

#[test]
fn replaced_file_keeps_its_owner() {
    let fixture = Fixture::new();
    let file = fixture.workspace.root().join("file");
    if !nix::unistd::geteuid().is_root() {
        println!("not tested: only root can give a file to another user");
        return;
    }
    chown(&file, Some(10_002), Some(10_003)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4750)).unwrap();
    assert!(fixture.write("file").unwrap());
    let metadata = fs::metadata(&file).unwrap();
    assert_eq!((metadata.uid(), metadata.gid()), (10_002, 10_003));
    assert_eq!(metadata.mode() & 0o7777, 0o4750);
}

#[test]
fn entry_whose_folder_was_exchanged_is_written_in_that_folder() {
    let fixture = Fixture::new();
    let root = fixture.workspace.root();
    let entry = fixture.workspace.find_to_write("a/b/secret").unwrap();
    fs::rename(root.join("a/b"), root.join("moved")).unwrap();
    symlink(fixture.dir.path(), root.join("a/b")).unwrap();
    assert!(!entry.replace(b"written").unwrap());
    assert_eq!(fs::read_to_string(root.join("moved/secret")).unwrap(), "written");
    fixture.assert_untouched();
}

#[test]
fn additional_folders_are_readable_but_not_writable() {
    let fixture = Fixture::new();
    let skill = fixture.dir.path().join("skills/one.md").display().to_string();
    let above = fixture.dir.path().join("skills/../secret").display().to_string();
    assert_eq!(fixture.read(&skill).unwrap(), "skill");
    assert!(matches!(fixture.read(&above), Err(WorkspaceError::Outside(_))));
    assert!(matches!(fixture.write(&skill), Err(WorkspaceError::ReadOnly(_))));
    fixture.assert_untouched();
}

#[test]
fn link_swapped_during_access_leads_nowhere() {
    let fixture = Fixture::new();
    let root = fixture.workspace.root().to_owned();
    // `a/swap` alternates between a folder and a link to the outside, and `a/leaf` between a file and a link to the
    // secret.
    fs::create_dir(root.join("a/swap")).unwrap();
    fs::write(root.join("a/swap/secret"), "inside").unwrap();
    fs::write(root.join("a/leaf"), "inside").unwrap();
    symlink(fixture.dir.path(), root.join("a/other-swap")).unwrap();
    symlink(fixture.dir.path().join("secret"), root.join("a/other-leaf")).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let exchange = |one: &str, other: &str| {
                let flags = RenameFlags::RENAME_EXCHANGE;
                renameat2(AT_FDCWD, &root.join(one), AT_FDCWD, &root.join(other), flags).unwrap();
            };
            while !over.load(Ordering::Relaxed) {
                exchange("a/swap", "a/other-swap");
                exchange("a/leaf", "a/other-leaf");
            }
        });
        let (mut read, mut refused) = (0, 0);
        for _ in 0..3000 {
            for path in ["a/swap/secret", "a/leaf"] {
                match fixture.read(path) {
                    Ok(text) => {
                        assert!(text == "inside" || text == "written", "{path} led out: {text}");
                        read += 1;
                    }
                    Err(_) => refused += 1,
                }
                _ = fixture.write("a/swap/secret");
            }
        }
        over.store(true, Ordering::Relaxed);
        assert!(read > 0 && refused > 0, "nothing was exchanged: {read} read, {refused} refused");
    });
    fixture.assert_untouched();
}

#[test]
fn working_directory_given_through_a_link_is_resolved() {
    let fixture = Fixture::new();
    let alias = fixture.dir.path().join("skills/alias");
    symlink(fixture.workspace.root(), &alias).unwrap();
    let workspace = Workspace::new(&alias, &[]).unwrap();
    assert!(workspace.open(&alias.join("file").display().to_string()).is_ok());
    assert!(workspace.open(&fixture.workspace.root().join("file").display().to_string()).is_ok());
}

#[test]
fn programs_get_a_chosen_environment_without_keys() {
    let all = [
        ("PATH", "/bin"),
        ("LC_ALL", "C"),
        ("SECRET_TOKEN", "s"),
        ("ANTHROPIC_API_KEY", "s"),
        ("openai_api_key", "s"),
        ("PILOTHOUSE_ENVELOPE_KEY", "s"),
        ("CARGO_HOME", "/cargo"),
        ("AWS_SECRET_ACCESS_KEY", "s"),
    ];
    let all = all.map(|(name, value)| (name.into(), value.into()));
    let configured =
        ["CARGO_HOME", "ANTHROPIC_API_KEY", "openai_api_key", "PILOTHOUSE_ENVELOPE_KEY"].map(str::to_owned);
    let environment = Environment::chosen(all, &configured)
        .with("GIVEN", "value")
        .with("OTHER_API_KEY", "s")
        .with("pilothouse_key", "s");
    let names: Vec<_> = environment.vars().map(|(name, _)| name.to_str().unwrap()).collect();
    assert_eq!(names, ["CARGO_HOME", "GIVEN", "LC_ALL", "PATH"]);
    let of_its_own = Environment::default().with_own("ITS_API_KEY", "its").with_own("PILOTHOUSE_KEY", "s");
    assert_eq!(of_its_own.vars().collect::<Vec<_>>(), [("ITS_API_KEY".as_ref(), "its".as_ref())]);
    assert!(!format!("{of_its_own:?}").contains("its\""), "values are not printed");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// No combination of links, `..` and names reads or writes outside.
    #[test]
    fn no_path_leads_out(
        links in proptest::collection::vec((0..6_usize, path_strategy()), 0..6),
        path in path_strategy(),
    ) {
        let fixture = Fixture::new();
        let root = fixture.workspace.root().to_owned();
        let names = ["l0", "l1", "a/l0", "a/l1", "a/b/l0", "a/b/l1"];
        for (name, target) in links {
            let target = target.replace("ROOT", &root.display().to_string());
            _ = symlink(target, root.join(names[name]));
        }
        let path = path.replace("ROOT", &root.display().to_string());
        if let Ok(text) = fixture.read(&path) {
            prop_assert_eq!(text, "inside");
        }
        _ = fixture.write(&path);
        fixture.assert_untouched();
    }
}

fn path_strategy() -> impl Strategy<Value = String> {
    let step = prop_oneof![
        3 => Just(".."),
        1 => Just("."),
        2 => Just("a"),
        2 => Just("b"),
        2 => Just("l0"),
        2 => Just("l1"),
        2 => Just("file"),
        2 => Just("secret"),
        1 => Just("work"),
        1 => Just("work-other"),
        1 => Just("new"),
    ];
    let start = prop_oneof![4 => Just(""), 1 => Just("ROOT/"), 1 => Just("ROOT/../"), 1 => Just("/")];
    (start, proptest::collection::vec(step, 1..6)).prop_map(|(start, steps)| {
        // The test must not write to the machine's root folder.
        let start = if start == "/" { "/proc/self/cwd/" } else { start };
        format!("{start}{}", steps.join("/"))
    })
}
