import { allPages } from '../api/pages'
import { api, ApiProblem, data } from '../api/client'
import type { DecisionView, InboxMessage } from '../api/types'
import { followList, readUntilDone } from './follow'
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

/** Shows the current state of a decision. */
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
  // A decision whose state changed between two reads is in both lists or in none.
  const listed = new Map(lists.flat().map((decision) => [decision.id, decision]))
  const failures: unknown[] = []
  const unlisted = inbox.get().open.filter(({ id }) => !listed.has(id))
  await Promise.all(
    unlisted.map(async (known) => {
      const decision = await read(known.id).catch((error: unknown) => {
        failures.push(error)
        return known
      })
      if (decision !== undefined) listed.set(decision.id, decision)
    }),
  )
  const now = [...listed.values()]
  inbox.update(({ ended }) => ({
    isLoaded: true,
    open: now.filter(isOpen).sort(compare),
    ended: [...now.filter((decision) => !isOpen(decision)), ...ended.filter(({ id }) => !listed.has(id))].slice(0, KEPT),
  }))
  // The inbox is shown as far as it is known, and read again.
  if (failures.length > 0) throw failures[0]
}

/** Reads a decision. `undefined` if there is none, for example because it belongs to another owner. */
async function read(id: string): Promise<DecisionView | undefined> {
  try {
    return await data(api.GET('/api/decisions/{id}', { params: { path: { id } } }))
  } catch (error) {
    if (error instanceof ApiProblem && error.status === 404) return undefined
    throw error
  }
}

/** Reads a decision again, and shows it. */
export function refresh(id: string): void {
  const show = async () => {
    const decision = await read(id)
    if (decision !== undefined) take(decision)
  }
  void readUntilDone(`decision ${id}`, show, () => false)
}

export function followInbox(): () => void {
  return followList<InboxMessage>({ path: '/ws/decisions', followed: { topic: 'decisions' } }, list, (message) => {
    if (message.type === 'decision') take(message.data)
    else refresh(message.data.id)
  })
}
