//! The program `pilothouse`; see `pilothouse --help`.

use std::process::ExitCode;

use clap::Parser as _;
use pilothouse_cli::args::Cli;
use pilothouse_cli::commands;
use pilothouse_cli::exit::Exit;
use pilothouse_cli::output::style::{Paint, Style};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let json = cli.globals.json;
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            eprintln!("pilothouse: the program cannot be started: {e}");
            return Exit::Failed.into();
        }
    };
    match runtime.block_on(commands::run(cli)) {
        Ok(exit) => exit.into(),
        Err(e) if e.exit() == Exit::Done => Exit::Done.into(),
        Err(e) if json => {
            eprintln!("{}", e.json());
            e.exit().into()
        }
        Err(e) => {
            let mark = Style::for_stream(&std::io::stderr()).paint(Paint::Red, "pilothouse:");
            eprintln!("{mark} {e}");
            e.exit().into()
        }
    }
}
