//! Compaction beside the conversation (S1 6.1). The summary covers a fixed range. It is inserted between two turns,
//! when no call waits for its result, and later messages stay unchanged.

use std::sync::Arc;

use rust_decimal::Decimal;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::{End, Failed, ReplyError, RunLoop};
use crate::event::{CompactionReason, SessionEvent};
use crate::governor::{CallPurpose, Verdict};
use crate::session::compaction::Plan;
use crate::session::shared::Shared;

/// A summary in progress.
pub(super) struct Background {
    plan: Plan,
    cancel: CancellationToken,
    task: AbortOnDropHandle<Result<String, ReplyError>>,
}

/// The part of the budget that is reserved for a running call.
struct Reserved {
    shared: Arc<Shared>,
    usd: Decimal,
}

impl Reserved {
    fn new(shared: &Arc<Shared>, usd: Decimal) -> Self {
        shared.state().reserved += usd;
        Self { shared: Arc::clone(shared), usd }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.shared.state().reserved -= self.usd;
    }
}

impl RunLoop {
    /// Starts a summary, unless one is in progress. If the governor refuses, the next turn tries again.
    pub(super) async fn begin_background(&mut self) -> Result<(), End> {
        if self.background.is_some() {
            return Ok(());
        }
        let Some(mut plan) = self.plan_compaction(None) else { return Ok(()) };
        let purpose = CallPurpose::BackgroundCompaction;
        let input = self.fit(&mut plan.request, &plan.model, purpose);
        let mut call = self.priced(&plan.request, &plan.model, purpose, input);
        let own = call.worst_case_usd.unwrap_or_default();
        // The summary and the next turn run at the same time.
        let turn = plan.model.price.map(|price| {
            price.worst_case(plan.tokens_before, plan.model.max_output_tokens.min(plan.model.context_window))
        });
        call.worst_case_usd = call.worst_case_usd.map(|own| own + turn.unwrap_or_default());
        match self.permitted(&call).await? {
            Verdict::Go | Verdict::GoWithin(_) => self.check_cancelled()?,
            Verdict::Stop(_) => return Ok(()),
        }
        self.shared.events.emit(SessionEvent::CompactionStart { reason: CompactionReason::Threshold });
        let cancel = self.cancel.child_token();
        let writer = Self::new(Arc::clone(&self.shared), cancel.clone());
        let reserved = Reserved::new(&self.shared, own);
        let (request, model) = (plan.request.clone(), plan.model.clone());
        let task = tokio::spawn(async move {
            // A single attempt: the next turn tries again, and a delay would keep the budget reserved.
            let reply = writer.stream(request, &model, purpose, input).await;
            let summary = reply.map_err(Failed::for_good).and_then(|reply| writer.paid(&reply, &model));
            drop(reserved);
            summary
        });
        self.background = Some(Background { plan, cancel, task: AbortOnDropHandle::new(task) });
        Ok(())
    }

    /// Between two turns: inserts a finished summary, and waits for one if the window is nearly full.
    pub(super) async fn take_background(&mut self) -> Result<(), End> {
        let ready = self.background.as_ref().is_some_and(|background| background.task.is_finished());
        if ready || (self.background.is_some() && self.is_pressing()) {
            self.finish_background().await?;
        }
        Ok(())
    }

    /// Waits for the current summary, if any. Returns whether it was inserted. After a failure, the conversation is
    /// unchanged.
    pub(super) async fn finish_background(&mut self) -> Result<bool, End> {
        let Some(background) = self.background.take() else { return Ok(false) };
        let applied = self.place(background).await;
        self.check_cancelled()?;
        Ok(applied)
    }

    /// Ends the summary together with the run. Inserts it if it is finished.
    pub(super) async fn stop_background(&mut self) {
        let Some(background) = self.background.take() else { return };
        background.cancel.cancel();
        self.place(background).await;
    }

    async fn place(&self, background: Background) -> bool {
        let Background { plan, task, .. } = background;
        let tokens_before = plan.tokens_before;
        let written = task.await.unwrap_or_else(|error| Err(End::Failed(error.to_string()).into()));
        let result = written.and_then(|summary| self.apply_compaction(&plan, summary));
        self.emit_compaction_end(CompactionReason::Threshold, tokens_before, &result);
        result.is_ok()
    }
}
