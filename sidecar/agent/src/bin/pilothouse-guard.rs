//! The guard as a separate program, for hosts without the subcommand: `pilothouse-guard guard … -- <program> …`.

use std::ffi::OsString;
use std::process::ExitCode;

use pilothouse_agent::process::guard;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match arguments.as_slice() {
        [verb, rest @ ..] if verb == guard::VERB => guard::run(rest),
        _ => {
            eprintln!("usage: pilothouse-guard {} [options] -- <program> [arguments]", guard::VERB);
            ExitCode::from(2)
        }
    }
}
