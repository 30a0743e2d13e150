import { api, data } from '../api/client'
import type { AgentSessionStatus, SessionView } from '../api/types'

export type Lifecycle = 'pause' | 'resume' | 'interrupt' | 'cancel' | 'close' | 'retry'

export const LIFECYCLE: Record<Lifecycle, string> = {
  pause: 'Pause',
  resume: 'Resume',
  interrupt: 'Interrupt',
  cancel: 'Cancel',
  close: 'Close',
  retry: 'Retry',
}

/** The requests that the console offers for a session. The server decides whether it accepts one. */
export function possibleRequests({
  status,
  hasPendingReview,
}: {
  status: AgentSessionStatus
  hasPendingReview: boolean
}): readonly Lifecycle[] {
  switch (status) {
    case 'Running':
    case 'WaitingForInput':
    case 'WaitingForApproval':
      return ['pause', 'interrupt', 'cancel']
    case 'Paused':
    case 'Interrupted':
      return ['resume', 'cancel']
    case 'Idle':
      return hasPendingReview ? ['cancel'] : ['close', 'cancel']
    case 'Queued':
    case 'Pausing':
    case 'Resuming':
    case 'Interrupting':
      return ['cancel']
    case 'Failed':
      return ['retry']
    case 'Cancelling':
    case 'Cancelled':
    case 'ContextExhausted':
    case 'Completed':
      return []
  }
}

export async function request(action: Lifecycle, id: string): Promise<SessionView> {
  const params = { path: { id } }
  switch (action) {
    case 'pause':
      return data(api.POST('/api/agents/sessions/{id}/pause', { params }))
    case 'resume':
      return data(api.POST('/api/agents/sessions/{id}/resume', { params }))
    case 'interrupt':
      return data(api.POST('/api/agents/sessions/{id}/interrupt', { params, body: {} as never }))
    case 'cancel':
      return data(api.POST('/api/agents/sessions/{id}/cancel', { params, body: {} as never }))
    case 'close':
      return data(api.POST('/api/agents/sessions/{id}/close', { params }))
    case 'retry':
      return (await data(api.POST('/api/agents/sessions/{id}/retry', { params, body: {} as never }))).session
  }
}
