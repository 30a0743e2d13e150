import type { ActivityView, BudgetView, DecisionView, MessageId, MetricsView, Notification, SessionSummary } from './schema'

export type * from './schema'

/** A message of the stream of a session. OpenAPI does not describe WebSocket messages, so it is declared here. */
export type StreamMessage = { cursor: string } & (
  | { type: 'activity'; data: ActivityView }
  | { type: 'log'; data: unknown }
  | { type: 'status'; data: { status: string; event: string } }
  | { type: 'metrics'; data: { metrics: MetricsView; budget: BudgetView } }
  | { type: 'queue'; data: { event: string; messageId?: MessageId } }
  | { type: 'caught_up'; data: unknown }
)

export type InboxMessage =
  | { type: 'caught_up'; data: unknown }
  | { type: 'decision'; data: DecisionView }
  | { type: 'changed'; data: { id: string } }

export type SessionListMessage = { type: 'caught_up'; data: unknown } | { type: 'session'; data: SessionSummary }

export type NotificationMessage = { cursor: string } & (
  | { type: 'caught_up'; data: unknown }
  | { type: 'notification'; data: Notification }
)
