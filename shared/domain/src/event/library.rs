//! Templates, skills, and what an agent records through its API.

/// Adds the declarations of this file to `done`, and passes them on to the macro `next`.
macro_rules! library_events {
    ({ $($done:tt)* } $next:ident $($rest:ident)*) => {
        $next! { {
            $($done)*
            /// A template was created.
            TemplateCreated = "AgentTemplateCreatedEvent" {
                name: String,
            };
            /// A template was changed.
            TemplateUpdated = "AgentTemplateUpdatedEvent" {
                /// The section that changed.
                part: TemplateSection,
            };
            /// A template was deactivated: no sessions start from it.
            TemplateDeactivated = "AgentTemplateDeactivatedEvent" {};
            /// A template was activated again.
            TemplateActivated = "AgentTemplateActivatedEvent" {};
            /// A template's schedule started a session.
            TemplateScheduleRan = "AgentTemplateScheduleRanEvent" {
                /// The time of the schedule.
                scheduled_for: Timestamp,
                session_id: AgentSessionId,
                /// The next time of the schedule.
                next_run_at: Option<Timestamp>,
            };
            /// A template's schedule was due but started no session.
            TemplateScheduleSkipped = "AgentTemplateScheduleSkippedEvent" {
                /// The time of the schedule.
                scheduled_for: Timestamp,
                reason: ScheduleSkip,
                /// The next time of the schedule.
                next_run_at: Option<Timestamp>,
            };
            /// A session was started for an external event.
            EventClassified = "AgentSessionEventClassifiedEvent" {
                /// The template's rule that matched.
                rule_id: ClassificationRuleId,
                /// Class of the event.
                classified_as: String,
            };
            /// The agent created a task through the agent API (AG-012).
            ApiTaskCreated = "AgentApiTaskCreatedEvent" {
                created_task_id: AgentTaskId,
                #[serde(flatten)]
                task: NewAgentTask,
                source: AgentTaskSource,
            };
            /// The agent recorded a learning about people or communication (AG-014).
            LearningRecorded = "AgentLearningRecordedEvent" {
                learning_id: AgentLearningId,
                #[serde(flatten)]
                learning: NewAgentLearning,
            };
            /// The agent logged a decision (S0 8.7).
            DecisionLogged = "AgentDecisionLoggedEvent" {
                content: String,
            };
            /// A skill was enabled for the session.
            SessionSkillEnabled = "SessionSkillEnabledEvent" {
                skill_id: AgentSkillId,
            };
            /// A skill was disabled for the session.
            SessionSkillDisabled = "SessionSkillDisabledEvent" {
                skill_id: AgentSkillId,
            };
            /// The configuration has to be reloaded.
            ReloadRequested = "SessionReloadRequestedEvent" {
                /// The command to send; `null` if no running sidecar can reload. The next one starts with the new configuration.
                command: Option<CommandRef>,
            };
            /// The new configuration is active.
            Reloaded = "SessionReloadedEvent" {};
            /// A skill was created.
            SkillCreated = "AgentSkillCreatedEvent" {
                name: SkillName,
            };
            /// A skill's name, description, tools or subagents changed.
            SkillUpdated = "AgentSkillUpdatedEvent" {};
            /// A skill's instructions were changed.
            SkillInstructionsUpdated = "AgentSkillInstructionsUpdatedEvent" {
                new_version: u32,
            };
            /// A skill was deactivated: sessions can no longer use it.
            SkillDeactivated = "AgentSkillDeactivatedEvent" {};
            /// A skill was activated again.
            SkillActivated = "AgentSkillActivatedEvent" {};
            /// An agent recorded a memory pill. The event is in the journals of the skill and of the session.
            MemoryPillRecorded = "MemoryPillRecordedEvent" {
                /// The skill that keeps the pill.
                skill_id: AgentSkillId,
                pill_id: MemoryPillId,
                /// The session that recorded the pill.
                session_id: AgentSessionId,
                category: MemoryPillCategory,
            };
            /// A memory pill was dismissed.
            MemoryPillDismissed = "MemoryPillDismissedEvent" {
                pill_id: MemoryPillId,
            };
            /// A session started to consolidate the memory pills of a skill.
            SkillConsolidationStarted = "SkillConsolidationStartedEvent" {
                session_id: AgentSessionId,
                /// Number of pills that the session received.
                pill_count: usize,
            };
            /// The agent of a consolidation proposed new instructions.
            SkillConsolidationProposed = "SkillConsolidationProposedEvent" {
                session_id: AgentSessionId,
                /// Number of pills that the new instructions contain.
                pill_count: usize,
            };
            /// A consolidation ended without a change.
            SkillConsolidationAbandoned = "SkillConsolidationAbandonedEvent" {
                session_id: AgentSessionId,
                reason: String,
            };
            /// Memory pills were merged into a skill's instructions.
            SkillConsolidated = "SkillConsolidatedEvent" {
                new_version: u32,
                /// Number of merged pills.
                consolidated_pill_count: usize,
            };
        } $($rest)* }
    };
}
