//! Budget, quota, disk, adjustments and deliverables of a session.

/// Adds the declarations of this file to `done`, and passes them on to the macro `next`.
macro_rules! spending_events {
    ({ $($done:tt)* } $next:ident $($rest:ident)*) => {
        $next! { {
            $($done)*
            /// Spending reached the warning threshold of the budget.
            BudgetWarning = "SessionBudgetWarningEvent" {
                spent_usd: Usd,
                cap_usd: Usd,
                /// Spent share of the cap, in percent.
                percent_used: String,
            };
            /// Spending reached the cap, or the next model call could exceed it (decision 32).
            BudgetExhausted = "SessionBudgetExhaustedEvent" {
                spent_usd: Usd,
                cap_usd: Usd,
                /// Highest possible cost of the model call that the agent has not made.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                needed_usd: Option<Usd>,
            };
            /// The budget was changed.
            BudgetChanged = "SessionBudgetChangedEvent" {
                /// The new cap.
                cap_usd: Usd,
                /// Whether unreported spend is allowed from now on; absent if unchanged.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                allow_unmetered: Option<bool>,
            };
            /// The agent does not report its cost, so the cap cannot be enforced (decision 32).
            SpendUnmetered = "SessionSpendUnmeteredEvent" {
                /// Whether the owner allows that. If not, the session is held.
                allowed: bool,
            };
            /// The run has a new allowance (decision 32).
            AllowanceChanged = "SessionAllowanceChangedEvent" {
                /// Total over the life of the run.
                allowance_usd: Usd,
                command: CommandRef,
            };
            /// The agent's subscription quota is used up (decision 39).
            QuotaExceeded = "SessionQuotaExceededEvent" {
                /// Message of the runtime.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                message: Option<String>,
                /// When the quota resets, if the runtime reported it.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                reset_at: Option<Timestamp>,
            };
            /// The reset time of the quota has passed.
            QuotaReset = "SessionQuotaResetEvent" {};
            /// A disk is full. The session is paused or its agent waits.
            DiskFull = "SessionDiskFullEvent" {
                disk: Disk,
            };
            /// The disk has space again.
            DiskFreed = "SessionDiskFreedEvent" {
                disk: Disk,
            };
            /// The owner requested another model, thinking level or state of the conversation (S1 5).
            AdjustmentRequested = "SessionAdjustmentRequestedEvent" {
                adjustment: Adjustment,
                /// The command to send; `null` if no sidecar is running, then the next one starts with the change or receives it.
                command: Option<CommandRef>,
            };
            /// An adjustment took effect.
            Adjusted = "SessionAdjustedEvent" {
                adjustment: Adjustment,
            };
            /// An adjustment was given up.
            AdjustmentAbandoned = "SessionAdjustmentAbandonedEvent" {
                adjustment: Adjustment,
                reason: String,
            };
            /// The agent reported another model or thinking level.
            AgentSettingsChanged = "SessionAgentSettingsChangedEvent" {
                model_id: String,
                /// Thinking level, if the adapter knows it.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                thinking_level: Option<ThinkingLevel>,
            };
            /// The counts of the agent's deliverables changed (S4).
            DeliverablesChanged = "SessionDeliverablesChangedEvent" {
                /// Not started, or reset.
                pending: u32,
                /// All acceptance criteria are verified.
                passed: u32,
                /// Blocked by an external cause.
                blocked: u32,
            };
        } $($rest)* }
    };
}
