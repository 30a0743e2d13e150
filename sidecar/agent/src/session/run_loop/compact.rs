//! Runs a compaction: the summary is a paid reply of the model (S1 6.1).

use super::{End, ReplyError, RunLoop};
use crate::event::{CompactionReason, SessionEvent};
use crate::governor::CallPurpose;
use crate::message::AssistantMessage;
use crate::model::info::ModelInfo;
use crate::session::compaction::{self, Plan};
use crate::session::status::{CompactionResult, SessionError};

/// Most retries of a summary that can wait.
const SUMMARY_RETRIES: u32 = 5;

impl RunLoop {
    /// If the compaction fails, the conversation is unchanged.
    pub(super) async fn compact(
        &self,
        reason: CompactionReason,
        instructions: Option<&str>,
    ) -> Result<CompactionResult, ReplyError> {
        let tokens_before = self.shared.state().context_tokens().value();
        self.shared.events.emit(SessionEvent::CompactionStart { reason });
        let result = match self.summarise(reason, instructions).await {
            Err(ReplyError::End(End::Unavailable { message, .. }))
                if reason != CompactionReason::Overflow =>
            {
                Err(End::Failed(message).into())
            }
            result => result,
        };
        self.emit_compaction_end(reason, tokens_before, &result);
        result
    }

    pub(super) fn emit_compaction_end(
        &self,
        reason: CompactionReason,
        tokens_before: u64,
        result: &Result<CompactionResult, ReplyError>,
    ) {
        let reported = match result {
            Ok(result) => Ok(result.summary.clone()),
            Err(
                ReplyError::Overflow(message)
                | ReplyError::RejectedContent(_, message)
                | ReplyError::End(End::Failed(message)),
            ) => Err(message.clone()),
            Err(ReplyError::End(end)) => Err(end.to_string()),
        };
        self.shared.events.emit(SessionEvent::CompactionEnd { reason, tokens_before, result: reported });
    }

    async fn summarise(
        &self,
        reason: CompactionReason,
        instructions: Option<&str>,
    ) -> Result<CompactionResult, ReplyError> {
        let plan = self.plan_compaction(instructions);
        let plan = plan.ok_or_else(|| End::Failed("there is nothing to summarise yet".into()))?;
        let policy = self.shared.config.retry;
        let policy = match reason {
            CompactionReason::Overflow => policy,
            // The conversation still fits, and the end of the turn or the owner waits.
            CompactionReason::Threshold | CompactionReason::Manual => policy.at_most(SUMMARY_RETRIES),
        };
        let reply = self.ask(plan.request.clone(), &plan.model, CallPurpose::Compaction, policy).await?;
        let summary = self.paid(&reply, &plan.model)?;
        self.apply_compaction(&plan, summary)
    }

    pub(super) fn plan_compaction(&self, instructions: Option<&str>) -> Option<Plan> {
        let keep = self.shared.config.context.keep_recent_tokens;
        let selection = compaction::select(&mut self.shared.state(), keep)?;
        Some(compaction::plan(selection, instructions))
    }

    /// Extracts the summary from a reply. The reply is charged even if it has none.
    pub(super) fn paid(&self, reply: &AssistantMessage, model: &ModelInfo) -> Result<String, ReplyError> {
        let mut state = self.shared.state();
        state.append_usage(model, &reply.usage, false, &self.shared.events).map_err(End::from)?;
        let summary = reply.text().trim().to_owned();
        if summary.is_empty() {
            return Err(End::Failed("the model gave no summary".into()).into());
        }
        Ok(summary)
    }

    pub(super) fn apply_compaction(
        &self,
        plan: &Plan,
        summary: String,
    ) -> Result<CompactionResult, ReplyError> {
        let applied = compaction::apply(&mut self.shared.state(), plan, summary);
        Ok(applied.map_err(SessionError::from).map_err(End::from)?)
    }
}
