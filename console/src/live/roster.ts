import { allPages } from '../api/pages'
import { api, data } from '../api/client'
import type { SessionListMessage, SessionSummary } from '../api/types'
import { LiveSocket } from './socket'
import { Store } from './store'

export interface Roster {
  isLoaded: boolean
  sessions: ReadonlyMap<string, SessionSummary>
}

export const roster = new Store<Roster>({ isLoaded: false, sessions: new Map() })

/** Counts the changes of sessions, for what is derived from them on the server. */
export const sessionChanges = new Store(0)

let pending: SessionSummary[] = []
let frame: number | undefined

function flush(): void {
  frame = undefined
  const changed = pending
  pending = []
  roster.update(({ isLoaded, sessions }) => {
    const next = new Map(sessions)
    for (const session of changed) next.set(session.id, session)
    return { isLoaded, sessions: next }
  })
  sessionChanges.update((count) => count + 1)
}

async function list(): Promise<void> {
  const sessions = await allPages((cursor) =>
    data(api.GET('/api/agents/sessions', { params: { query: { limit: 200, cursor } as never } })),
  )
  // Changes that arrived while the list was read are newer.
  roster.set({ isLoaded: true, sessions: new Map(sessions.map((session) => [session.id, session])) })
  sessionChanges.update((count) => count + 1)
}

export function followRoster(): () => void {
  let isListing: Promise<void> = Promise.resolve()
  const socket = new LiveSocket<SessionListMessage>('sessions', () => '/ws/sessions', (message) => {
    if (message.type === 'caught_up') {
      isListing = list().catch(() => undefined)
      return
    }
    const { data } = message
    void isListing.then(() => {
      pending.push(data)
      frame ??= requestAnimationFrame(flush)
    })
  })
  return () => {
    socket.close()
  }
}
