//! Where the programs under test stand.

use std::path::PathBuf;

/// The program `pilothouse` beside this test.
pub fn pilothouse() -> PathBuf {
    built("pilothouse")
}

/// The program `pilothouse-sidecar` beside this test.
pub fn sidecar() -> PathBuf {
    built("pilothouse-sidecar")
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
