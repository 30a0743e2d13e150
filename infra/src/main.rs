//! Writes the templates: `pilothouse-infra [folder]`. The default folder is `infra/templates`.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let here = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("templates");
    let folder = std::env::args_os().nth(1).map_or_else(here, PathBuf::from);
    let written = std::fs::create_dir_all(&folder).and_then(|()| {
        let mut files = pilothouse_infra::files().into_iter();
        files.try_for_each(|(name, text)| std::fs::write(folder.join(name), text))
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot write the templates to {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}
