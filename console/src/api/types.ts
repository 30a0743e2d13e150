// The types of the OpenAPI document, and those of WebSocket messages, which the document does not describe.
import type {
  ActivityView,
  BrakeSummary,
  BudgetView,
  DecisionView,
  LogChunkView,
  MessageId,
  MetricsView,
  Notification,
  ProjectStateView,
  SessionSummary,
} from './schema'

export type * from './schema'

/** A message of the stream of a session. */
export type StreamMessage = { cursor: string } & (
  | { type: 'activity'; data: ActivityView }
  | { type: 'log'; data: LogChunkView }
  | { type: 'status'; data: { status: string; event: string } }
  | { type: 'metrics'; data: { metrics: MetricsView; budget: BudgetView } }
  | { type: 'queue'; data: { event: string; messageId?: MessageId } }
  | { type: 'draft'; data: DraftView }
  | { type: 'caught_up'; data: unknown }
)

/** A part of the text that the agent is writing. */
export interface DraftView {
  kind: 'text' | 'thinking'
  /** The number of the part within the text. Part 0 has everything so far. */
  part: number
  text: string
}

export type InboxMessage =
  | { type: 'caught_up'; data: unknown }
  | { type: 'decision'; data: DecisionView }
  | { type: 'changed'; data: { id: string } }

export type SessionListMessage =
  | { type: 'caught_up'; data: unknown }
  | { type: 'session'; data: SessionSummary }
  | { type: 'brakes'; data: unknown }
  | { type: 'pool'; data: { activeCount: number; maxCount: number } }

export type NotificationMessage = { cursor: string } & (
  | { type: 'caught_up'; data: unknown }
  | { type: 'notification'; data: Notification }
)

export type ProjectState = Omit<ProjectStateView, 'cursor'>

export type AgentEvent = { agentId: string } & (
  | { type: 'status'; message: string }
  | { type: 'decision'; subtype: DecisionView['kind']; decisionId: string }
  | { type: 'tool_call'; toolName?: string; phase: 'requested' | 'completed' | 'failed'; output?: string }
  | { type: 'completion'; summary: string; outcome: string }
  | { type: 'error'; message: string; recoverable: boolean }
  | { type: 'delegation'; action: string; reason: string }
  | { type: 'guardrail'; guardrailName: string; level?: string; action?: string; tripped: boolean; message: string }
  | { type: 'lifecycle'; action: string; reason: string }
  | { type: 'progress'; description: string; progressPct?: number }
  | { type: 'artifact'; artifactId: string; name: string; status: 'draft' | 'in_review' | 'approved' | 'rejected' }
  | { type: 'coherence'; issueId: string; title: string }
  | { type: 'raw_provider'; eventType: string }
)

export interface RoutedEvent {
  workspace?: string | null
  envelope: {
    sourceEventId: string
    sourceOccurredAt?: string
    ingestedAt: string
    agentId: string
    sessionId: string
    event: AgentEvent
  }
}

export type ProjectMessage = { cursor: string } & (
  | ({ type: 'state_sync' } & (ProjectState | { statePath: string }))
  | ({ type: 'event' } & RoutedEvent)
  | { type: 'brake'; action: BrakeSummary; affectedAgentIds: string[] }
  | { type: 'trust_update'; agentId: string; newScore: number }
  | { type: 'decision_resolved'; decisionId: string; agentId: string }
)
