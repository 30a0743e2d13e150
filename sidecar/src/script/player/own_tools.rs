//! Calls of Pilothouse's own tools, which really run.

use pilothouse_agent::message::UserContent;
use pilothouse_agent::tool::{ToolContext, ToolOutput};
use pilothouse_wire::event::Content;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Player, PlayerExit};
use crate::kit::authorizer::ProposedCall;

impl Player {
    /// Runs the tool and publishes its result. Handles commands meanwhile; an interrupt cancels the tool.
    pub(super) async fn own_tool(&mut self, call: &ProposedCall) -> Result<(), PlayerExit> {
        let tool = self.own_tools.iter().find(|tool| tool.spec().name == call.tool).cloned();
        let Some(tool) = tool else {
            let text = Content::Text(format!("There is no own tool `{}` in this session.", call.tool));
            return self.result(call, text, true, None).await;
        };
        let cancelled = CancellationToken::new();
        let _cancels = cancelled.clone().drop_guard();
        let (progress, _) = mpsc::unbounded_channel();
        let context = ToolContext { tool_call_id: call.id.to_string(), cancelled, progress };
        let running = tool.run(call.arguments.clone(), context);
        tokio::pin!(running);
        let output: ToolOutput = loop {
            tokio::select! {
                biased;
                command = self.commands.recv() => self.handle(command.ok_or(PlayerExit::Over)?).await?,
                output = &mut running => break output,
            }
        };
        self.result(call, Content::Text(text_of(&output)), output.is_error, None).await
    }
}

fn text_of(output: &ToolOutput) -> String {
    let text = |part: &UserContent| match part {
        UserContent::Text { text } => Some(text.clone()),
        UserContent::Image { .. } => None,
    };
    output.content.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}
