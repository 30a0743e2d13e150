//! Effects of shell commands.
//!
//! | module | contents |
//! |---|---|
//! | `limits`, `parse` | limits, and the parser |
//! | `read`, `read_redirect`, `read_word` | the parser's tree becomes the [syntax](crate::syntax) of a script |
//! | `walk`, `redirect` | visits statements |
//! | `expand`, `parameters`, `environment` | words, variables and their values |
//! | `command`, `options`, `url` | looks up a program in the [tables](crate::tables), and what its words are |
//! | `builtin`, `handlers` | commands of the shell, and programs whose words have a grammar of their own |
//!
//! What cannot be parsed or resolved is unclassified.

mod builtin;
mod command;
mod environment;
mod expand;
mod handlers;
mod limits;
mod options;
mod parameters;
mod parse;
mod read;
mod read_redirect;
mod read_word;
mod redirect;
#[cfg(test)]
mod tests;
mod url;
mod walk;

pub(crate) use url::effect as url_effect;

use crate::findings::Collector;
use crate::path::BaseFolders;

/// Adds the effects of a shell command to `findings`.
pub(crate) fn inspect(command: &str, places: &BaseFolders<'_>, findings: &mut Collector) {
    walk::Walker::new(places, findings).command(command);
}
