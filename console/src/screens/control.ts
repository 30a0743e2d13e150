import type { ActivityView } from '../api/types'

export interface ControlStep {
  text: string
  state: 'requested' | 'confirmed' | 'late' | 'escalated'
  at: string
}

/** How the server words requests, and what confirms each. */
const REQUESTS: Record<string, { text: string; confirmedBy: RegExp }> = {
  Pausing: { text: 'Pause', confirmedBy: /^Paused/ },
  Resuming: { text: 'Resume', confirmedBy: /^Running: resumed/ },
  Interrupting: { text: 'Interrupt', confirmedBy: /^Interrupted/ },
  Cancelling: { text: 'Cancel', confirmedBy: /^Cancelled/ },
}

/** The last request to the agent with its confirmation, or with what was done because none came. */
export function controlHistory(activity: readonly ActivityView[]): ControlStep[] {
  const at = activity.findLastIndex(({ type, summary }) => type === 'StatusChange' && summary in REQUESTS)
  const requested = activity[at]
  const request = requested === undefined ? undefined : REQUESTS[requested.summary]
  if (requested === undefined || request === undefined) return []
  const { text, confirmedBy } = request
  const steps: ControlStep[] = [{ text, state: 'requested', at: requested.timestamp }]
  for (const { type, summary, timestamp } of activity.slice(at + 1)) {
    if (type === 'StatusChange' && confirmedBy.test(summary)) {
      steps.push({ text, state: 'confirmed', at: timestamp })
      break
    }
    if (/takes longer than expected|was not acknowledged/.test(summary)) steps.push({ text, state: 'late', at: timestamp })
    if (/is being ended|is ended|was ended|killed/i.test(summary)) steps.push({ text, state: 'escalated', at: timestamp })
  }
  return steps
}
