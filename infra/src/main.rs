//! Writes the templates and their manifest to a folder, and the files of the web console to another one: `pilothouse-infra FOLDER [CONSOLE]`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pilothouse_infra::console_files;

fn main() -> ExitCode {
    let mut folders = std::env::args_os().skip(1).map(PathBuf::from);
    let Some(folder) = folders.next() else {
        eprintln!("usage: pilothouse-infra FOLDER [CONSOLE]");
        return ExitCode::from(2);
    };
    if let Err(error) = write_templates(&folder) {
        eprintln!("failed to write the templates to {}: {error}", folder.display());
        return ExitCode::FAILURE;
    }
    let Some(folder) = folders.next() else { return ExitCode::SUCCESS };
    if let Err(error) = write_console(&folder) {
        eprintln!("failed to write the web console to {}: {error}", folder.display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn write_templates(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut files = pilothouse_infra::files().into_iter();
    files.try_for_each(|(name, text)| std::fs::write(folder.join(name), text))
}

fn write_console(folder: &Path) -> io::Result<()> {
    let missing = |reason: &str| {
        io::Error::other(format!(
            "this build does not include it: {reason}; `infra/deploy --console no` omits it"
        ))
    };
    let console = pilothouse_console::console().map_err(missing)?;
    std::fs::create_dir_all(folder)?;
    console_files::write(&console_files::uploads(console), folder)
}
