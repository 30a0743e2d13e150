//! Where extensions come in (S1 8).

use super::RunLoop;
use crate::message::ToolCall;
use crate::session::Prompt;
use crate::tool::ToolOutput;

impl RunLoop {
    /// The system prompt, as extensions want it.
    pub(super) fn system(&self) -> String {
        self.shared.config.system_prompt.clone()
    }

    /// Before a prompt goes into the conversation.
    #[allow(clippy::unused_async, clippy::unused_self)]
    pub(super) async fn before_start(&mut self, prompt: Prompt) -> Prompt {
        prompt
    }

    /// Before a tool: other arguments, or why it must not run.
    #[allow(clippy::unused_async, clippy::unused_self)]
    pub(super) async fn before_tool(&self, call: ToolCall) -> Result<ToolCall, String> {
        Ok(call)
    }

    /// After a tool: another result.
    #[allow(clippy::unused_async, clippy::unused_self)]
    pub(super) async fn after_tool(&self, _call: &ToolCall, output: ToolOutput) -> ToolOutput {
        output
    }
}
