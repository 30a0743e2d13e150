import { allPages } from '../api/pages'
import { api, data } from '../api/client'
import { isCloud } from '../api/profile'
import type { SessionListMessage, SessionSummary } from '../api/types'
import { followList } from './follow'
import { poll } from './poll'
import { Store } from './store'
import { FLUSH_MS, throttled } from './throttle'

export interface Roster {
  isLoaded: boolean
  sessions: ReadonlyMap<string, SessionSummary>
}

export const roster = new Store<Roster>({ isLoaded: false, sessions: new Map() })

/** Counts changes of sessions after they were listed. The portfolio is read again when it increases. */
export const sessionChanges = new Store(0)

/** Counts messages about sessions after they were listed, also those that change nothing in the list. */
export const sessionMessages = new Store(0)

/** Counts changes of brakes after the sessions were listed. */
export const brakeChanges = new Store(0)

function increase(count: Store<number>): void {
  count.update((now) => now + 1)
}

let changed = new Map<string, SessionSummary>()

/** Shows all changes that arrived since the last call at once. */
const flush = throttled(FLUSH_MS, () => {
  const { isLoaded, sessions } = roster.get()
  if (changed.size > 0) setSessions({ isLoaded, sessions: new Map([...sessions, ...changed]) })
})

function setSessions(next: Roster): void {
  const wasLoaded = roster.get().isLoaded
  changed = new Map()
  roster.set(next)
  if (wasLoaded) increase(sessionChanges)
}

async function read(): Promise<ReadonlyMap<string, SessionSummary>> {
  const sessions = await allPages((cursor) =>
    data(api.GET('/api/agents/sessions', { params: { query: { limit: 200, cursor } as never } })),
  )
  return new Map(sessions.map((session) => [session.id, session]))
}

async function list(): Promise<void> {
  const wasLoaded = roster.get().isLoaded
  setSessions({ isLoaded: true, sessions: await read() })
  // The stream does not repeat the changes of brakes that it has missed.
  if (wasLoaded) increase(brakeChanges)
}

/** Whether two states of a session differ only in its age. The server reports each commit of a session. */
function isSame(a: SessionSummary, b: SessionSummary): boolean {
  return JSON.stringify({ ...a, elapsedSeconds: 0 }) === JSON.stringify({ ...b, elapsedSeconds: 0 })
}

/** Reads the list where no stream reports changes. Returns whether it has changed. Only a read of the brakes shows whether they have. */
async function listAgain(): Promise<boolean> {
  const { isLoaded, sessions } = roster.get()
  const now = await read()
  const isKnown = (session: SessionSummary): boolean => {
    const known = sessions.get(session.id)
    return known !== undefined && isSame(known, session)
  }
  const hasChanged = !isLoaded || now.size !== sessions.size || ![...now.values()].every(isKnown)
  if (hasChanged) setSessions({ isLoaded: true, sessions: now })
  if (isLoaded && hasChanged) increase(sessionMessages)
  if (isLoaded) increase(brakeChanges)
  return hasChanged
}

export function followRoster(): () => void {
  if (isCloud) return poll('sessions', listAgain)
  return followList<SessionListMessage>({ path: '/ws/sessions' }, list, (message) => {
    if (message.type === 'brakes') increase(brakeChanges)
    if (message.type !== 'session') return
    increase(sessionMessages)
    const known = changed.get(message.data.id) ?? roster.get().sessions.get(message.data.id)
    if (known !== undefined && isSame(known, message.data)) return
    changed.set(message.data.id, message.data)
    flush()
  })
}
