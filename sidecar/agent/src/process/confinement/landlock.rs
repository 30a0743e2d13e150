//! Landlock: <https://docs.kernel.org/userspace-api/landlock.html>.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, SFlag, fstat};

use super::{Grant, Support};

/// The first version that covers renaming and truncating.
const FILES: ABI = ABI::V3;
/// The first version that covers signals.
const SIGNALS: ABI = ABI::V6;

pub(super) fn support() -> Support {
    let files = ruleset().and_then(Ruleset::create);
    let signals =
        ruleset().and_then(|ruleset| ruleset.scope(Scope::from_all(SIGNALS))).and_then(Ruleset::create);
    match (files, signals) {
        (Err(_), _) => Support::Nothing,
        (Ok(_), Err(_)) => Support::Files,
        (Ok(_), Ok(_)) => Support::FilesAndSignals,
    }
}

/// Denies all file access without a grant. Fails if the kernel cannot enforce this.
fn ruleset() -> Result<Ruleset, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(FILES))
}

pub(super) fn confine_thread(grants: &[Grant]) -> io::Result<()> {
    let refused = |e: RulesetError| io::Error::other(format!("the kernel does not confine it: {e}"));
    let mut ruleset = ruleset()
        .map(|ruleset| ruleset.set_compatibility(CompatLevel::BestEffort))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(SIGNALS)))
        .and_then(Ruleset::create)
        .map_err(refused)?;
    for grant in grants {
        ruleset = match grant {
            Grant::Read(path) => add(ruleset, path, AccessFs::from_read(FILES)),
            // Excludes creating devices, through which root could reach every disk.
            Grant::Write(path) => {
                let devices = AccessFs::MakeChar | AccessFs::MakeBlock;
                add(ruleset, path, AccessFs::from_all(FILES) & !devices)
            }
        }?;
    }
    let status = ruleset.restrict_self().map_err(refused)?;
    if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
        return Err(io::Error::other("the kernel does not confine it"));
    }
    Ok(())
}

/// A path that does not exist any more or is a link needs no rule.
fn add(ruleset: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> io::Result<RulesetCreated> {
    let failed =
        |e: io::Error| io::Error::new(e.kind(), format!("{} cannot be granted: {e}", path.display()));
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let opened: OwnedFd = match open(path, flags, Mode::empty()) {
        Ok(opened) => opened,
        Err(Errno::ENOENT | Errno::EACCES) => return Ok(ruleset),
        Err(errno) => return Err(failed(errno.into())),
    };
    let kind =
        SFlag::from_bits_truncate(fstat(&opened).map_err(|e| failed(e.into()))?.st_mode) & SFlag::S_IFMT;
    let access = match kind {
        SFlag::S_IFLNK => return Ok(ruleset),
        SFlag::S_IFDIR => access,
        _ => access & AccessFs::from_file(FILES),
    };
    ruleset.add_rule(PathBeneath::new(opened, access)).map_err(|e| failed(io::Error::other(e)))
}
