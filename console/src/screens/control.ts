import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { api, data } from '../api/client'
import type { ActivityView } from '../api/types'

export interface ControlStep {
  text: string
  state: 'requested' | 'acknowledged' | 'confirmed' | 'late' | 'escalated'
  at: string
}

/** Requests by the status of their `StatusChange`, with the event that acknowledges each and the summary that confirms it. */
const REQUESTS: Record<string, { text: string; acknowledgedBy: string; confirmedBy: RegExp }> = {
  Pausing: { text: 'Pause', acknowledgedBy: 'pause_ack', confirmedBy: /^Paused/ },
  Resuming: { text: 'Resume', acknowledgedBy: 'resume_ack', confirmedBy: /^Running: resumed/ },
  Interrupting: { text: 'Interrupt', acknowledgedBy: 'interrupt_ack', confirmedBy: /^Interrupted/ },
  Cancelling: { text: 'Cancel', acknowledgedBy: 'stop_ack', confirmedBy: /^Cancelled/ },
}

/** The request that a `StatusChange` reports. Its summary is the status, or the status and an explanation. */
function requestOf(summary: string) {
  return REQUESTS[summary.split(':')[0] ?? '']
}

/**
 * Parts of the notices about a missing acknowledgement. A notice has no code, so the tests in `shared/app/src/texts/activity.rs` and
 * `tests/flows.spec.ts` fail if these sentences change.
 */
const LATE = ['takes longer than expected', 'was not acknowledged']
const ESCALATED = ['process is being stopped', 'process is being ended']

/** The interval in which a missing acknowledgement is read again, in milliseconds, and how often it is read. No stream reports acknowledgements. */
const READ_AGAIN_MS = 1_000
const READS = 30

/**
 * The last request to the agent with its acknowledgement by the sidecar and its confirmation, or with the notices about a missing one, in
 * order of time.
 */
export function useControlHistory(id: string, activity: readonly ActivityView[]): readonly ControlStep[] {
  const { request, steps } = useMemo(() => controlHistory(activity), [activity])
  const isOver = steps.some(({ state }) => state === 'confirmed' || state === 'escalated')
  const acknowledged = useQuery({
    queryKey: ['acknowledgement', id, request?.id, isOver],
    enabled: request !== undefined,
    queryFn: async () => {
      // The number of a line begins with the number of its entry in the journal.
      const [from] = request?.id.split('.') ?? []
      const path = '/api/agents/sessions/{id}/events'
      const { items } = await data(api.GET(path, { params: { path: { id }, query: { from, limit: 100 } as never } }))
      const wanted = requestOf(request?.summary ?? '')?.acknowledgedBy
      const found = items.find(({ eventType, body }) => eventType === wanted && (body as { step?: string }).step === 'received')
      return found?.at ?? null
    },
    refetchInterval: ({ state }) =>
      isOver || state.data != null || state.dataUpdateCount + state.errorUpdateCount > READS ? false : READ_AGAIN_MS,
  })
  if (acknowledged.data == null || steps[0] === undefined) return steps
  const step: ControlStep = { text: steps[0].text, state: 'acknowledged', at: acknowledged.data }
  return [steps[0], step, ...steps.slice(1)].sort((a, b) => a.at.localeCompare(b.at))
}

function controlHistory(activity: readonly ActivityView[]): { request?: ActivityView; steps: readonly ControlStep[] } {
  const at = activity.findLastIndex(({ type, summary }) => type === 'StatusChange' && requestOf(summary) !== undefined)
  const requested = activity[at]
  const request = requested === undefined ? undefined : requestOf(requested.summary)
  if (requested === undefined || request === undefined) return { steps: [] }
  const { text, confirmedBy } = request
  const steps: ControlStep[] = [{ text, state: 'requested', at: requested.timestamp }]
  for (const { type, summary, timestamp } of activity.slice(at + 1)) {
    if (type === 'StatusChange' && confirmedBy.test(summary)) {
      steps.push({ text, state: 'confirmed', at: timestamp })
      break
    }
    if (type !== 'Notice') continue
    if (LATE.some((part) => summary.includes(part))) steps.push({ text, state: 'late', at: timestamp })
    if (ESCALATED.some((part) => summary.includes(part))) steps.push({ text, state: 'escalated', at: timestamp })
  }
  return { request: requested, steps }
}
