//! Runs the tools of one reply in sequence (S1 3.3), with steering between them (S1 3.4).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{End, RunLoop};
use crate::event::SessionEvent;
use crate::governor::ToolVerdict;
use crate::message::{AgentMessage, ToolCall, ToolResultMessage, now, tool_result};
use crate::session::config::SteeringMode;
use crate::tool::{SharedTool, ToolContext, ToolOutput};

/// How long a tool may take to end after an abort.
const GRACE: Duration = Duration::from_secs(5);

const STEERED: &str =
    "Skipped: the user said something new meanwhile, which comes next. Call it again if it is still needed.";
const TURN_ENDED: &str = "Skipped: an earlier call of the same answer ended the turn.";
const ABORTED: &str = "Cut off: the user interrupted before it ran.";

/// The next step after the tools of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterTools {
    /// The model gets the results.
    Continue,
    /// A tool ended the agent's turn.
    EndTurn,
}

impl RunLoop {
    /// On return, each call has a result, even after an error.
    pub(super) async fn tools(&mut self, calls: &[ToolCall]) -> Result<AfterTools, End> {
        let mut left = calls.iter();
        while let Some(call) = left.next() {
            let ran = match self.check_cancelled() {
                Ok(()) => self.tool(call).await,
                Err(end) => {
                    self.skip(call, ABORTED)?;
                    Err(end)
                }
            };
            let why = match ran {
                Ok(AfterTools::EndTurn) => TURN_ENDED.to_owned(),
                Ok(AfterTools::Continue) if self.is_interrupted() => STEERED.to_owned(),
                Ok(AfterTools::Continue) => continue,
                Err(End::Held(ref reason)) => held(reason),
                Err(_) => ABORTED.to_owned(),
            };
            for call in left {
                self.skip(call, &why)?;
            }
            return ran;
        }
        Ok(AfterTools::Continue)
    }

    fn is_interrupted(&self) -> bool {
        self.shared.config.steering_mode == SteeringMode::Skip && self.shared.state().is_steered()
    }

    fn skip(&self, call: &ToolCall, why: &str) -> Result<(), End> {
        self.keep_result(tool_result(call, why, true))
    }

    fn keep_result(&self, result: ToolResultMessage) -> Result<(), End> {
        self.shared.state().append(AgentMessage::ToolResult(result), &self.shared.events)?;
        Ok(())
    }

    async fn tool(&self, call: &ToolCall) -> Result<AfterTools, End> {
        let (call, tool) = match self.prepared(call).await {
            Ok(ready) => ready,
            Err(why) => return self.refuse(call, why),
        };
        let verdict = self.cancel.run_until_cancelled(self.shared.config.governor.before_tool(&call)).await;
        let call = match verdict {
            Some(ToolVerdict::Stop(reason)) => {
                self.skip(&call, &held(&reason))?;
                return Err(End::Held(reason));
            }
            Some(verdict) if !self.cancel.is_cancelled() => match self.call_after(&call, &tool, verdict) {
                Ok(call) => call,
                Err(why) => return self.refuse(&call, why),
            },
            _ => {
                self.skip(&call, ABORTED)?;
                return Err(End::Aborted);
            }
        };
        self.shared.events.emit(SessionEvent::ToolExecutionStart(call.clone()));
        let output = self.execute(&call, &tool).await;
        let output = self.after_tool(&call, output).await;
        let after = if output.ends_turn { AfterTools::EndTurn } else { AfterTools::Continue };
        self.finish(&call, output)?;
        self.check_cancelled()?;
        Ok(after)
    }

    /// The call to make. The error is the reason why it is not made.
    fn call_after(
        &self,
        call: &ToolCall,
        tool: &SharedTool,
        verdict: ToolVerdict,
    ) -> Result<ToolCall, String> {
        match verdict {
            ToolVerdict::Go => Ok(call.clone()),
            ToolVerdict::GoWith(arguments) => {
                let changed = ToolCall { arguments, ..call.clone() };
                self.validate(&changed, tool).map(|()| changed)
            }
            ToolVerdict::Refuse(why) | ToolVerdict::Stop(why) => Err(why),
        }
    }

    /// The error `why` is the result of the call.
    fn refuse(&self, call: &ToolCall, why: String) -> Result<AfterTools, End> {
        self.shared.events.emit(SessionEvent::ToolExecutionStart(call.clone()));
        self.finish(call, ToolOutput::error(why))?;
        Ok(AfterTools::Continue)
    }

    fn finish(&self, call: &ToolCall, output: ToolOutput) -> Result<(), End> {
        let result = ToolResultMessage {
            tool_call_id: call.id.clone(),
            tool_name: call.name.clone(),
            content: output.content,
            is_error: output.is_error,
            timestamp: now(),
        };
        self.shared.events.emit(SessionEvent::ToolExecutionEnd(result.clone()));
        self.keep_result(result)
    }

    /// The error describes what is wrong with the call.
    async fn prepared(&self, call: &ToolCall) -> Result<(ToolCall, SharedTool), String> {
        let tool = self.shared.tool(&call.name).ok_or_else(|| {
            let known: Vec<&str> = self.shared.specs.iter().map(|spec| spec.name.as_str()).collect();
            format!("There is no tool `{}`. There are: {}.", call.name, known.join(", "))
        })?;
        self.validate(call, &tool)?;
        let changed = self.before_tool(call.clone()).await?;
        if changed.arguments != call.arguments {
            self.validate(&changed, &tool)?;
        }
        Ok((changed, tool))
    }

    /// Reports all violations.
    fn validate(&self, call: &ToolCall, tool: &SharedTool) -> Result<(), String> {
        if let Value::String(text) = &call.arguments {
            let why = serde_json::from_str::<Value>(text)
                .err()
                .map(|error| format!(": {error}"))
                .unwrap_or_default();
            return Err(format!(
                "The arguments of `{}` are no JSON object{why}. Nothing was run.",
                call.name
            ));
        }
        if tool.checks_arguments() {
            return Ok(());
        }
        let Some(schema) = self.shared.state().schema(tool) else { return Ok(()) };
        let violations: Vec<String> = schema
            .iter_errors(&call.arguments)
            .map(|error| {
                let at = error.instance_path().to_string();
                if at.is_empty() { format!("- {error}") } else { format!("- {at}: {error}") }
            })
            .collect();
        if violations.is_empty() {
            return Ok(());
        }
        Err(format!(
            "The arguments of `{}` are not valid. Nothing was run.\n{}",
            call.name,
            violations.join("\n")
        ))
    }

    /// Drops the tool if it does not end soon after an abort.
    async fn execute(&self, call: &ToolCall, tool: &SharedTool) -> ToolOutput {
        let (progress, mut chunks) = mpsc::unbounded_channel();
        let cancelled = CancellationToken::new();
        let context = ToolContext { tool_call_id: call.id.clone(), cancelled: cancelled.clone(), progress };
        let tool = Arc::clone(tool);
        // A panic of a tool must not end the agent.
        let running = AssertUnwindSafe(tool.run(call.arguments.clone(), context)).catch_unwind();
        tokio::pin!(running);
        let mut deadline = None;
        let emit_chunk = |chunk| {
            self.shared
                .events
                .emit(SessionEvent::ToolExecutionUpdate { tool_call_id: call.id.clone(), chunk });
        };
        let output = loop {
            tokio::select! {
                biased;
                output = &mut running => {
                    break output.unwrap_or_else(|_| ToolOutput::error("The tool failed: it has a defect."));
                }
                Some(chunk) = chunks.recv() => emit_chunk(chunk),
                () = self.cancel.cancelled(), if deadline.is_none() => {
                    cancelled.cancel();
                    deadline = Some(tokio::time::Instant::now() + GRACE);
                }
                () = sleep_until(deadline), if deadline.is_some() => {
                    break ToolOutput::error("Cut off: the user interrupted, and it did not end by itself.");
                }
            }
        };
        while let Ok(chunk) = chunks.try_recv() {
            emit_chunk(chunk);
        }
        output
    }
}

async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn held(reason: &str) -> String {
    format!("Not run: the session was stopped. {reason}")
}
