//! The argument that names a session.

use clap::Args;
use pilothouse_domain::AgentSessionId;

use crate::context::Context;
use crate::error::CliError;

#[derive(Debug, Clone, Args)]
pub struct Target {
    /// The session: its id, 4 or more characters of it, or @last
    #[arg(value_name = "SESSION", required_unless_present = "last")]
    pub session: Option<String>,
    /// Use the newest session, like @last
    #[arg(long)]
    pub last: bool,
}

impl Target {
    /// Splits the arguments into the session and the words after it. With `--last`, the first argument is a word.
    pub fn split(self, mut words: Vec<String>) -> (String, Vec<String>) {
        match self.session {
            Some(session) if !self.last => (session, words),
            first => {
                words.splice(0..0, first);
                ("@last".into(), words)
            }
        }
    }

    /// The session, for a command without further words.
    pub async fn id(self, ctx: &Context) -> Result<AgentSessionId, CliError> {
        let (session, words) = self.split(Vec::new());
        match &words[..] {
            [] => ctx.session_id(&session).await,
            [word, ..] => Err(CliError::Usage(format!("either --last or `{word}`, not both"))),
        }
    }
}

/// Joins the words of an unquoted text.
pub fn text(words: &[String], what: &str) -> Result<String, CliError> {
    let text = words.join(" ");
    if text.trim().is_empty() { Err(CliError::Usage(format!("missing {what}"))) } else { Ok(text) }
}
