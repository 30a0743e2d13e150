import type { ActivityView } from '../api/types'

export interface ControlStep {
  text: string
  state: 'requested' | 'confirmed' | 'late' | 'escalated'
  at: string
}

/** Requests by the summary of their `StatusChange`, and the summary that confirms each. */
const REQUESTS: Record<string, { text: string; confirmedBy: RegExp }> = {
  Pausing: { text: 'Pause', confirmedBy: /^Paused/ },
  Resuming: { text: 'Resume', confirmedBy: /^Running: resumed/ },
  Interrupting: { text: 'Interrupt', confirmedBy: /^Interrupted/ },
  Cancelling: { text: 'Cancel', confirmedBy: /^Cancelled/ },
}

/** The last request to the agent, with its confirmation, or with the notices about a missing one. */
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
    if (type !== 'Notice') continue
    if (/takes longer than expected|was not acknowledged/.test(summary)) steps.push({ text, state: 'late', at: timestamp })
    if (/process is being (stopped|ended)/.test(summary)) steps.push({ text, state: 'escalated', at: timestamp })
  }
  return steps
}
