//! Naming the session that a command is about.

use clap::Args;
use pilothouse_domain::AgentSessionId;

use crate::context::Context;
use crate::error::CliError;

/// The session.
#[derive(Debug, Clone, Args)]
pub struct Target {
    /// The session: its id, 4 or more characters of it, or @last
    #[arg(value_name = "SESSION", required_unless_present = "last")]
    pub session: Option<String>,
    /// The session that was started last, as @last
    #[arg(long)]
    pub last: bool,
}

impl Target {
    /// The name of the session, and the words after it. With `--last`, what stands in the session's place is a word.
    pub fn split(self, mut words: Vec<String>) -> (String, Vec<String>) {
        match self.session {
            Some(session) if !self.last => (session, words),
            first => {
                words.splice(0..0, first);
                ("@last".into(), words)
            }
        }
    }

    /// The session, for a command that takes no words.
    pub async fn id(self, cx: &Context) -> Result<AgentSessionId, CliError> {
        let (session, words) = self.split(Vec::new());
        match &words[..] {
            [] => cx.session_id(&session).await,
            [word, ..] => Err(CliError::Usage(format!("either --last or `{word}`, not both"))),
        }
    }
}

/// The words as one text; they need not be quoted.
pub fn text(words: &[String], what: &str) -> Result<String, CliError> {
    let text = words.join(" ");
    if text.trim().is_empty() { Err(CliError::Usage(format!("say {what}"))) } else { Ok(text) }
}
