//! Deferred commands: pauses and interrupts until the agent is idle, compactions until the end of the turn, and all
//! commands during a request to the agent.

use std::collections::VecDeque;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::adapter::{AgentCommand, Refusal, Reply};
use crate::spool::SpoolError;

/// Replies of commands whose effect has not occurred yet.
#[derive(Debug, Default)]
pub(crate) struct PendingReplies(Vec<Reply>);

impl PendingReplies {
    pub(crate) fn push(&mut self, reply: Reply) {
        self.0.push(reply);
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) async fn done(&mut self) -> Result<(), SpoolError> {
        for reply in std::mem::take(&mut self.0) {
            reply.done().await?;
        }
        Ok(())
    }

    pub(crate) async fn refuse(&mut self, why: &str) -> Result<(), SpoolError> {
        for reply in std::mem::take(&mut self.0) {
            reply.refuse(Refusal::invalid(why)).await?;
        }
        Ok(())
    }
}

/// Compactions that wait for the end of the turn, each with the focus of its summary.
#[derive(Debug, Default)]
pub(crate) struct PendingCompactions(VecDeque<(Option<String>, Reply)>);

impl PendingCompactions {
    pub(crate) fn push(&mut self, instructions: Option<String>, reply: Reply) {
        self.0.push_back((instructions, reply));
    }

    pub(crate) fn put_back(&mut self, instructions: Option<String>, reply: Reply) {
        self.0.push_front((instructions, reply));
    }

    pub(crate) fn next(&mut self) -> Option<(Option<String>, Reply)> {
        self.0.pop_front()
    }

    pub(crate) async fn refuse(&mut self, why: &str) -> Result<(), SpoolError> {
        for (_, reply) in std::mem::take(&mut self.0) {
            reply.refuse(Refusal::invalid(why)).await?;
        }
        Ok(())
    }
}

/// The command with which agents compact their conversation.
pub(crate) fn compact_command(instructions: Option<&str>) -> String {
    match instructions.map(str::trim).filter(|words| !words.is_empty()) {
        Some(words) => format!("/compact {words}"),
        None => "/compact".to_owned(),
    }
}

/// Waits for `work` while incoming commands are queued. `None` if the adapter must stop, which drops the work.
pub(crate) async fn while_commands_wait<T>(
    commands: &mut mpsc::UnboundedReceiver<AgentCommand>,
    deferred_commands: &mut VecDeque<AgentCommand>,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return Some(done),
            command = commands.recv() => deferred_commands.push_back(command?),
        }
    }
}

/// `None` waits forever.
pub(crate) async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compaction_command_contains_the_focus() {
        assert_eq!(compact_command(Some(" the tests ")), "/compact the tests");
        assert_eq!([compact_command(None), compact_command(Some(" "))], ["/compact", "/compact"]);
    }
}
