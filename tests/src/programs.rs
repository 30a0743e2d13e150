//! Paths of the programs under test.

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

pub fn pilothouse() -> PathBuf {
    built("pilothouse")
}

pub fn sidecar() -> PathBuf {
    built("pilothouse-sidecar")
}

/// Whether the kernel of this machine supports confinement. Otherwise the servers of tests are configured to serve every owner.
pub fn confines_agents() -> bool {
    static CONFINES: LazyLock<bool> = LazyLock::new(|| {
        let said = Command::new(sidecar()).arg("confinement").output().expect("the sidecar program runs");
        String::from_utf8_lossy(&said.stdout).trim() != "nothing"
    });
    *CONFINES
}

/// Cargo puts tests into `deps` and `examples`, and programs one folder above.
fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let program =
        test.ancestors().skip(1).take(3).map(|folder| folder.join(name)).find(|path| path.is_file());
    program.unwrap_or_else(|| {
        panic!(
            "there is no program `{name}` beside {}; run `cargo build -p pilothouse-cli -p pilothouse-sidecar` first",
            test.display()
        )
    })
}
