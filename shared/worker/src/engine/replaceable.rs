//! Opens files that an agent in a container can replace.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::fcntl::OFlag;

/// Flags for opening such files: links are not followed, and named pipes do not block.
pub(crate) const REPLACEABLE: i32 = OFlag::O_NOFOLLOW.union(OFlag::O_NONBLOCK).bits();

/// Reads at most `most` bytes of such a file.
pub(crate) fn read_replaceable(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(REPLACEABLE).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}
