use std::fs;

use super::*;

/// A home that contains a data folder and other entries.
fn home() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().canonicalize().unwrap().join("home");
    for folder in ["data/sessions/one/agent", "data/sessions/two/agent", "work", "cache"] {
        fs::create_dir_all(home.join(folder)).unwrap();
    }
    fs::write(home.join("notes"), "").unwrap();
    (dir, home)
}

fn below(grants: &[Grant], home: &Path) -> Vec<String> {
    let named = |grant: &Grant| match grant {
        Grant::Read(path) => path.strip_prefix(home).ok().map(|path| format!("read {}", path.display())),
        Grant::Write(path) => path.strip_prefix(home).ok().map(|path| format!("write {}", path.display())),
    };
    let mut found: Vec<_> = grants.iter().filter_map(named).collect();
    found.sort();
    found
}

#[test]
fn siblings_are_granted_and_ancestors_are_not() {
    let (_dir, home) = home();
    let confinement = Confinement::hiding([home.join("data")]).unwrap();
    let grants = confinement.grants().unwrap();
    assert_eq!(below(&grants, &home), ["read cache", "read notes", "read work"]);
    for grant in grants {
        let (Grant::Read(path) | Grant::Write(path)) = grant;
        assert!(!home.join("data").starts_with(&path), "{} covers the data folder", path.display());
    }
}

#[test]
fn only_harmless_devices_are_granted() {
    let grants = Confinement::hiding([]).unwrap().grants().unwrap();
    assert!(
        grants.contains(&Grant::Write("/dev/null".into())) && grants.contains(&Grant::Read("/proc".into()))
    );
    for path in ["/", "/dev", "/dev/mem", "/dev/sda", "/dev/vda"] {
        assert!(
            !grants.contains(&Grant::Read(path.into())) && !grants.contains(&Grant::Write(path.into())),
            "{path}"
        );
    }
}

#[test]
fn link_to_a_hidden_path_grants_nothing() {
    let (_dir, home) = home();
    std::os::unix::fs::symlink(home.join("data"), home.join("link")).unwrap();
    std::os::unix::fs::symlink("/", home.join("root")).unwrap();
    let grants = Confinement::hiding([home.join("link")]).unwrap().grants().unwrap();
    assert_eq!(below(&grants, &home), ["read cache", "read notes", "read work"]);
}

#[test]
fn missing_path_is_hidden_too() {
    let (_dir, home) = home();
    let confinement = Confinement::hiding([home.join("later/token")]).unwrap();
    assert_eq!(
        below(&confinement.grants().unwrap(), &home),
        ["read cache", "read data", "read notes", "read work"]
    );
    fs::create_dir(home.join("later")).unwrap();
    fs::write(home.join("later/token"), "").unwrap();
    fs::write(home.join("later/other"), "").unwrap();
    assert!(below(&confinement.grants().unwrap(), &home).contains(&"read later/other".to_owned()));
    assert!(!below(&confinement.grants().unwrap(), &home).contains(&"read later/token".to_owned()));
}

#[test]
fn everything_but_the_hidden_path_is_writable_on_request() {
    let (_dir, home) = home();
    let mut confinement = Confinement::hiding([home.join("data")]).unwrap();
    confinement.allow_writing_elsewhere();
    let grants = confinement.grants().unwrap();
    assert_eq!(below(&grants, &home), ["write cache", "write notes", "write work"]);
    assert!(grants.contains(&Grant::Write("/dev".into())) && !grants.contains(&Grant::Write("/".into())));
    assert!(!profile::profile(&confinement).contains("(deny file-write*)\n"));
}

#[test]
fn only_the_host_grants_within_hidden_paths() {
    let (_dir, home) = home();
    let mut confinement = Confinement::hiding([home.join("data")]).unwrap();
    confinement.allow_writing(&home.join("work")).unwrap();
    confinement.exempt_to_write(&home.join("data/sessions/one/agent")).unwrap();
    fs::create_dir(home.join("data/sessions/one/agent/tmp")).unwrap();
    confinement.allow_writing(&home.join("data/sessions/one/agent/tmp")).unwrap();
    for path in ["data", "data/sessions", "data/sessions/two/agent"] {
        let refused = confinement.allow_writing(&home.join(path));
        assert!(
            matches!(refused, Err(GrantError::Hidden { .. } | GrantError::ContainsHidden { .. })),
            "{path}"
        );
    }
    for path in [home.as_path(), Path::new("/")] {
        assert!(matches!(confinement.allow_writing(path), Err(GrantError::ContainsHidden { .. })));
    }
    assert!(matches!(confinement.allow_writing(&home.join("none")), Err(GrantError::Unresolved { .. })));
    let grants = confinement.grants().unwrap();
    let written: Vec<_> =
        below(&grants, &home).into_iter().filter(|grant| grant.starts_with("write")).collect();
    assert_eq!(written, ["write data/sessions/one/agent", "write work"]);
}

#[test]
fn folder_replaced_by_a_link_is_not_written_to() {
    let (_dir, home) = home();
    let mut confinement = Confinement::hiding([home.join("data")]).unwrap();
    confinement.allow_writing(&home.join("work")).unwrap();
    fs::remove_dir(home.join("work")).unwrap();
    std::os::unix::fs::symlink(home.join("data"), home.join("work")).unwrap();
    assert_eq!(below(&confinement.grants().unwrap(), &home), ["read cache", "read notes"]);
}

#[test]
fn confinement_round_trips_to_the_guard() {
    let (_dir, home) = home();
    let mut confinement = Confinement::hiding([home.join("data")]).unwrap();
    confinement.allow_writing(&home.join("work")).unwrap();
    let text = serde_json::to_string(&confinement).unwrap();
    assert_eq!(serde_json::from_str::<Confinement>(&text).unwrap(), confinement);
}

#[test]
fn macos_profile_denies_before_it_grants() {
    let confinement = Confinement {
        hidden: vec!["/Users/a/.pilothouse".into()],
        readable: vec!["/Users/a/.pilothouse/sessions/1/outputs".into()],
        writable: vec!["/Users/a/\"work\"".into()],
        writes_elsewhere: false,
    };
    let text = profile::profile(&confinement);
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is not in {text}"));
    let denied = at(r#"(deny file-read* file-write* (subpath "/Users/a/.pilothouse"))"#);
    assert!(at("(deny file-write*)") < at(r#"(allow file-write* (subpath "/dev/null"))"#));
    assert!(denied < at(r#"(allow file-read* (subpath "/Users/a/.pilothouse/sessions/1/outputs"))"#));
    assert!(denied < at(r#"(allow file-read* file-write* (subpath "/Users/a/\"work\""))"#));
}
