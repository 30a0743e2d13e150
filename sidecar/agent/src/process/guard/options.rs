//! The command line of a guard.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use nix::unistd::close;

use crate::process::{AgentUser, Confinement};

#[derive(Debug)]
pub(super) struct GuardOptions {
    pub(super) leash: Option<File>,
    pub(super) user: Option<AgentUser>,
    pub(super) lease: Option<PathBuf>,
    pub(super) lock: Option<PathBuf>,
    pub(super) confinement: Option<Confinement>,
    pub(super) grace: Duration,
    pub(super) linger: Duration,
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
}

impl GuardOptions {
    pub(super) fn read(arguments: &[OsString]) -> io::Result<Self> {
        let (mut leash, mut user, mut expiry, mut lock, mut confinement) = (None, None, None, None, None);
        let (mut grace, mut linger) = (Duration::ZERO, Duration::ZERO);
        let mut rest = arguments;
        loop {
            match rest {
                [end, program, arguments @ ..] if end == "--" => {
                    let (program, arguments) = (program.clone(), arguments.to_vec());
                    return Ok(Self {
                        leash,
                        user,
                        lease: expiry,
                        lock,
                        confinement,
                        grace,
                        linger,
                        program,
                        arguments,
                    });
                }
                [option, value, more @ ..] => {
                    match option.to_str() {
                        Some("--leash") => leash = Some(take(value)?),
                        Some("--user") => user = Some(parsed(value)?),
                        Some("--lease") => expiry = Some(value.into()),
                        Some("--lock") => lock = Some(value.into()),
                        Some("--confine") => confinement = Some(confined(value)?),
                        Some("--grace") => grace = Duration::from_millis(parsed(value)?),
                        Some("--linger") => linger = Duration::from_millis(parsed(value)?),
                        _ => return Err(invalid_options()),
                    }
                    rest = more;
                }
                _ => return Err(invalid_options()),
            }
        }
    }
}

/// Takes over an inherited pipe, and prevents further inheritance.
fn take(descriptor: &OsStr) -> io::Result<File> {
    let number: i32 = parsed(descriptor)?;
    if number <= 2 {
        return Err(invalid_options());
    }
    let file = File::open(format!("/dev/fd/{number}"))?;
    close(number)?;
    Ok(file)
}

fn parsed<T: std::str::FromStr>(value: &OsStr) -> io::Result<T> {
    value.to_str().and_then(|text| text.parse().ok()).ok_or_else(invalid_options)
}

fn confined(value: &OsStr) -> io::Result<Confinement> {
    value.to_str().and_then(|text| serde_json::from_str(text).ok()).ok_or_else(invalid_options)
}

fn invalid_options() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "its options are wrong")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> io::Result<GuardOptions> {
        GuardOptions::read(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_after_the_options_belong_to_the_program() {
        let options =
            read("--user 10002:10003:/home/agent --lease /l --linger 250 -- sh -- --user x").unwrap();
        assert_eq!((options.lease.as_deref(), options.lock), (Some("/l".as_ref()), None));
        assert_eq!(options.user.unwrap().to_string(), "10002:10003:/home/agent");
        assert_eq!((options.grace, options.linger), (Duration::ZERO, Duration::from_millis(250)));
        assert_eq!(options.program, "sh");
        assert_eq!(options.arguments, ["--", "--user", "x"]);
    }

    #[test]
    fn invalid_command_line_runs_nothing() {
        for line in [
            "",
            "sh",
            "--",
            "--user",
            "--user 0:0:/ -- sh",
            "--leash 1 -- sh",
            "--grace x -- sh",
            "--confine {} -- sh",
            "--x y -- sh",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
