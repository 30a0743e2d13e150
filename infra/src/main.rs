//! Writes the templates and their manifest to a folder: `pilothouse-infra FOLDER`.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: pilothouse-infra FOLDER");
        return ExitCode::from(2);
    };
    let written = std::fs::create_dir_all(&folder).and_then(|()| {
        let mut files = pilothouse_infra::files().into_iter();
        files.try_for_each(|(name, text)| std::fs::write(folder.join(name), text))
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failed to write the templates to {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}
