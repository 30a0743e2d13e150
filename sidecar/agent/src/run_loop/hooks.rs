//! Where extensions come in (S1 8). An abort ends the wait for them; what they would have changed stays as it was.

use super::RunLoop;
use crate::extension::{AgentStart, TurnEnd};
use crate::message::{AgentMessage, AssistantMessage, ToolCall, UserContent};
use crate::session::{Prompt, SessionError, user_message, with_text};
use crate::tool::ToolOutput;

impl RunLoop {
    /// Before a prompt goes into the conversation: it and the system prompt of its turns may be changed.
    pub(super) async fn before_start(&mut self, prompt: Prompt) -> Prompt {
        let extensions = &self.shared.config.extensions;
        if extensions.is_empty() {
            return prompt;
        }
        let given = text(&prompt.message);
        let start = AgentStart { prompt: given.clone(), system: self.system.clone() };
        let Some(start) = self.cancel.run_until_cancelled(extensions.before_agent_start(start)).await else {
            return prompt;
        };
        self.system = start.system;
        if start.prompt == given {
            return prompt;
        }
        Prompt { message: with_text(prompt.message, &start.prompt), ..prompt }
    }

    /// Before a turn: its system prompt.
    pub(super) async fn turn_start(&mut self) {
        let extensions = &self.shared.config.extensions;
        let system = self.system.clone();
        self.turn_system = if extensions.is_empty() {
            system
        } else {
            let asked = extensions.turn_start(self.turns, system.clone());
            self.cancel.run_until_cancelled(asked).await.unwrap_or(system)
        };
    }

    /// After a turn: whether somebody had something to say, which is another turn.
    pub(super) async fn turn_end(&self, answer: &AssistantMessage) -> Result<bool, SessionError> {
        let extensions = &self.shared.config.extensions;
        if extensions.is_empty() {
            return Ok(false);
        }
        let tools = answer.tool_calls().map(|call| call.name.clone()).collect();
        let turn = TurnEnd { turn: self.turns, text: answer.text(), tools };
        let said = self.cancel.run_until_cancelled(extensions.turn_end(&turn)).await.unwrap_or_default();
        for text in &said {
            self.shared.state().append(user_message(text, Vec::new()), &self.shared.events)?;
        }
        Ok(!said.is_empty())
    }

    /// Before a tool: other arguments, or why it must not run.
    pub(super) async fn before_tool(&self, call: ToolCall) -> Result<ToolCall, String> {
        let extensions = &self.shared.config.extensions;
        if extensions.is_empty() {
            return Ok(call);
        }
        // What is aborted does not run anyway.
        let asked = extensions.before_tool(call.clone());
        self.cancel.run_until_cancelled(asked).await.unwrap_or(Ok(call))
    }

    /// After a tool: another result.
    pub(super) async fn after_tool(&self, call: &ToolCall, output: ToolOutput) -> ToolOutput {
        let extensions = &self.shared.config.extensions;
        if extensions.is_empty() {
            return output;
        }
        let asked = extensions.after_tool(call, output.clone());
        self.cancel.run_until_cancelled(asked).await.unwrap_or(output)
    }
}

fn text(message: &AgentMessage) -> String {
    let AgentMessage::User(user) = message else { return String::new() };
    let texts = user.content.iter().filter_map(|block| match block {
        UserContent::Text { text } => Some(text.as_str()),
        UserContent::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
