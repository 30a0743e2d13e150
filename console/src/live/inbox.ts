import { allPages } from '../api/pages'
import { api, data } from '../api/client'
import type { DecisionView, InboxMessage } from '../api/types'
import { LiveSocket } from './socket'
import { Store } from './store'

export interface Inbox {
  isLoaded: boolean
  /** Pending, orphaned and suspended decisions, in the order of the server. */
  open: readonly DecisionView[]
  /** Decisions that ended while the page was open, latest first. */
  ended: readonly DecisionView[]
}

export const inbox = new Store<Inbox>({ isLoaded: false, open: [], ended: [] })

const KEPT = 50
const SEVERITY = ['critical', 'high', 'medium', 'low', 'warning']
const RADIUS = ['unknown', 'large', 'medium', 'small', 'trivial']

function rank(order: readonly string[], value: string | null | undefined, without: number): number {
  return value == null ? without : order.indexOf(value)
}

/** The order of the server: the most severe first, then those that reach furthest, then the oldest. */
function compare(a: DecisionView, b: DecisionView): number {
  return (
    rank(SEVERITY, a.severity, 1) - rank(SEVERITY, b.severity, 1) ||
    rank(RADIUS, a.blastRadius, 1) - rank(RADIUS, b.blastRadius, 1) ||
    a.createdAt.localeCompare(b.createdAt) ||
    a.id.localeCompare(b.id)
  )
}

function isOpen({ state }: DecisionView): boolean {
  return state === 'pending' || state === 'orphaned' || state === 'suspended'
}

/** Takes a decision as it is now. */
export function take(decision: DecisionView): void {
  inbox.update(({ isLoaded, open, ended }) => {
    const wasKnown = open.some(({ id }) => id === decision.id) || ended.some(({ id }) => id === decision.id)
    const others = open.filter(({ id }) => id !== decision.id)
    if (isOpen(decision)) {
      return { isLoaded, open: [...others, decision].sort(compare), ended: ended.filter(({ id }) => id !== decision.id) }
    }
    if (!wasKnown) return { isLoaded, open, ended }
    return { isLoaded, open: others, ended: [decision, ...ended.filter(({ id }) => id !== decision.id)].slice(0, KEPT) }
  })
}

async function list(): Promise<void> {
  const states = ['pending', 'orphaned', 'suspended'] as const
  const lists = await Promise.all(
    states.map((state) =>
      allPages((cursor) => data(api.GET('/api/decisions', { params: { query: { state, limit: 200, cursor } as never } }))),
    ),
  )
  const open = lists.flat().sort(compare)
  const before = inbox.get()
  // What was open before and is no longer listed ended while the connection was lost.
  const gone = before.open.filter(({ id }) => !open.some((decision) => decision.id === id))
  inbox.set({ ...before, isLoaded: true, open })
  const ended = await Promise.all(
    gone.map(({ id }) => data(api.GET('/api/decisions/{id}', { params: { path: { id } } }))),
  )
  inbox.update((now) => ({ ...now, ended: [...ended, ...now.ended].slice(0, KEPT) }))
}

export function followInbox(): () => void {
  const socket = new LiveSocket<InboxMessage>('inbox', () => '/ws/decisions', (message) => {
    switch (message.type) {
      case 'caught_up':
        list().catch(() => undefined)
        break
      case 'decision':
        take(message.data)
        break
      case 'changed':
        data(api.GET('/api/decisions/{id}', { params: { path: { id: message.data.id } } })).then(take, () => undefined)
    }
  })
  return () => {
    socket.close()
  }
}
