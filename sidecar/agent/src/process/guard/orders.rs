//! What a guard is told on its command line.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::time::Duration;

use nix::unistd::close;

use crate::process::AgentUser;

/// What to run, and how.
#[derive(Debug)]
pub(super) struct Orders {
    pub(super) leash: Option<File>,
    pub(super) user: Option<AgentUser>,
    pub(super) grace: Duration,
    pub(super) linger: Duration,
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
}

impl Orders {
    pub(super) fn read(arguments: &[OsString]) -> io::Result<Self> {
        let (mut leash, mut user) = (None, None);
        let (mut grace, mut linger) = (Duration::ZERO, Duration::ZERO);
        let mut rest = arguments;
        loop {
            match rest {
                [end, program, arguments @ ..] if end == "--" => {
                    let (program, arguments) = (program.clone(), arguments.to_vec());
                    return Ok(Self { leash, user, grace, linger, program, arguments });
                }
                [option, value, more @ ..] => {
                    match option.to_str() {
                        Some("--leash") => leash = Some(take(value)?),
                        Some("--user") => user = Some(parsed(value)?),
                        Some("--grace") => grace = Duration::from_millis(parsed(value)?),
                        Some("--linger") => linger = Duration::from_millis(parsed(value)?),
                        _ => return Err(wrong()),
                    }
                    rest = more;
                }
                _ => return Err(wrong()),
            }
        }
    }
}

/// Takes an inherited pipe over: nothing that is started inherits it further.
fn take(descriptor: &OsStr) -> io::Result<File> {
    let number: i32 = parsed(descriptor)?;
    if number <= 2 {
        return Err(wrong());
    }
    let file = File::open(format!("/dev/fd/{number}"))?;
    close(number)?;
    Ok(file)
}

fn parsed<T: std::str::FromStr>(value: &OsStr) -> io::Result<T> {
    value.to_str().and_then(|text| text.parse().ok()).ok_or_else(wrong)
}

fn wrong() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "its options are wrong")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> io::Result<Orders> {
        Orders::read(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn what_follows_the_options_is_the_programs() {
        let orders = read("--user 10002:10003:/home/agent --linger 250 -- sh -- --user x").unwrap();
        assert_eq!(orders.user.unwrap().to_string(), "10002:10003:/home/agent");
        assert_eq!((orders.grace, orders.linger), (Duration::ZERO, Duration::from_millis(250)));
        assert_eq!(orders.program, "sh");
        assert_eq!(orders.arguments, ["--", "--user", "x"]);
    }

    #[test]
    fn a_line_that_is_wrong_runs_nothing() {
        for line in
            ["", "sh", "--", "--user", "--user 0:0:/ -- sh", "--leash 1 -- sh", "--grace x -- sh", "--x y -- sh"]
        {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
