import { api, ApiProblem, data } from '../api/client'
import type { ActivityItemType, ActivityView, DraftView, SessionView, StreamMessage } from '../api/types'
import { useFollower } from './follow'
import { SessionLog } from './logs'
import { LiveSocket } from './socket'
import { Store } from './store'
import { FLUSH_MS, throttled } from './throttle'

export interface LiveSession {
  session: SessionView | undefined
  error: unknown
  activity: readonly ActivityView[]
  /** The text that the agent is writing. */
  draft: Draft | undefined
  /** Whether the stream has sent everything that happened before it was opened. */
  isCaughtUp: boolean
  /** Whether entries before the first one can be loaded. */
  hasEarlier: boolean
  /** Counts messages after which the queue, or the conversation and the tool calls, are read again. */
  changes: { queue: number; records: number }
}

interface Draft {
  kind: DraftView['kind']
  text: string
  /** The number of its last part. */
  part: number
}

/** Entries with which a text of the agent is complete. */
const ENDS_DRAFT: ReadonlySet<ActivityItemType> = new Set(['Message', 'ToolCallStart', 'StatusChange'])

/** The draft after another part. A part that does not follow the last one is ignored. */
function extended(draft: Draft | undefined, { kind, part, text }: DraftView): Draft | undefined {
  if (part === 0) return { kind, text, part }
  if (draft === undefined || kind !== draft.kind || part !== draft.part + 1) return draft
  return { kind, text: draft.text + text, part }
}

/** How many entries of the journal are loaded at first, and by each request for earlier ones. */
const WINDOW = 1000

/** How many lines a long stream adds to those that were loaded, before the first of them leave memory. Then so many of them stay. */
const MAX_ADDED = 5000
const KEPT_ADDED = 4000

/** When the session is read again if the server could not be reached. */
const RETRY_MS = 2_000

/** Cursors are positions in the journal: `j` and the number of an entry. */
export function entryOf(cursor: string): number | undefined {
  const number = /^j(\d+)$/.exec(cursor)?.[1]
  return number === undefined ? undefined : Number(number)
}

/** The number of the entry that a line belongs to. The id of a line begins with it. */
export function entryOfLine({ id }: ActivityView): number {
  return Number(id.split('.')[0])
}

/** Reads the lines of the entries after `begin`, up to the entry `end`. */
export async function readActivity(id: string, begin: number, end: number): Promise<ActivityView[]> {
  const lines: ActivityView[] = []
  let cursor: string | undefined = begin > 0 ? `j${String(begin)}` : undefined
  let isDone = false
  while (!isDone) {
    const page: { items: ActivityView[]; nextCursor?: string | null } = await data(
      api.GET('/api/agents/sessions/{id}/activity', {
        params: { path: { id }, query: { limit: 200, cursor } as never },
      }),
    )
    const fitting = page.items.filter((line) => entryOfLine(line) <= end)
    lines.push(...fitting)
    isDone = page.nextCursor == null || fitting.length < page.items.length
    cursor = page.nextCursor ?? undefined
  }
  return lines
}

/** Follows one session: its state, and its timeline from the last entries on. */
export class SessionFollower {
  readonly state = new Store<LiveSession>({
    session: undefined,
    error: undefined,
    activity: [],
    draft: undefined,
    isCaughtUp: false,
    hasEarlier: false,
    changes: { queue: 0, records: 0 },
  })
  readonly log: SessionLog
  private socket: LiveSocket<StreamMessage> | undefined
  private cursor: string | undefined
  private start = 0
  /** The number of lines that the reader has loaded by request. */
  private loaded = 0
  private isLoading = false
  private opening: Promise<void> | undefined
  private isClosed = false
  private incoming: ActivityView[] = []
  private changed = { queue: 0, records: 0 }
  private isNowCaughtUp = false
  private draft: Draft | undefined

  /** Whether nobody sees or uses the first lines, so that they may leave memory. */
  isAtEnd = (): boolean => true

  constructor(readonly id: string) {
    this.log = new SessionLog(id)
  }

  /** Connects. A follower that was closed continues after the last message. */
  open(): void {
    this.isClosed = false
    this.opening ??= this.begin()
    this.opening.then(
      () => {
        if (!this.isClosed) this.connect()
      },
      (error: unknown) => {
        this.opening = undefined
        this.state.update((state) => ({ ...state, error }))
        if (!(error instanceof ApiProblem) || error.status !== 0) return
        setTimeout(() => {
          if (!this.isClosed) this.open()
        }, RETRY_MS)
      },
    )
  }

  close(): void {
    this.isClosed = true
    this.socket?.close()
    this.socket = undefined
  }

  private async begin(): Promise<void> {
    const session = await this.read()
    this.start = Math.max(0, (entryOf(session.cursor) ?? 0) - WINDOW)
    this.cursor = this.start > 0 ? `j${String(this.start)}` : undefined
    this.log.beginAfter(this.start)
    this.state.update((state) => ({ ...state, session, hasEarlier: this.start > 0 }))
  }

  private connect(): void {
    if (this.socket !== undefined) return
    const path = `/ws/agents/sessions/${this.id}/stream`
    this.socket = new LiveSocket<StreamMessage>(
      `session ${this.id}`,
      () => ({ path: `${path}?drafts=true`, followed: { sessionId: this.id }, after: this.cursor }),
      (message) => {
        this.receive(message)
      },
    )
  }

  private async read(): Promise<SessionView> {
    return data(api.GET('/api/agents/sessions/{id}', { params: { path: { id: this.id } } }))
  }

  /** Reads the session again. Messages report a change, but do not contain the whole session. */
  readonly refresh = throttled(400, () => {
    if (this.isClosed) return
    this.read().then(
      (session) => {
        this.take(session)
      },
      () => undefined,
    )
  })

  /** Takes the session from a response, unless a newer one is known. */
  take(session: SessionView): void {
    this.state.update((state) => {
      const known = entryOf(state.session?.cursor ?? '') ?? -1
      return (entryOf(session.cursor) ?? 0) < known ? state : { ...state, session }
    })
  }

  private receive(message: StreamMessage): void {
    this.cursor = message.cursor
    switch (message.type) {
      case 'activity':
        if (ENDS_DRAFT.has(message.data.type)) this.draft = undefined
        this.incoming.push(message.data)
        this.changed.records += 1
        if (this.isNowCaughtUp) this.refresh()
        break
      case 'metrics':
        this.state.update((state) => {
          if (state.session === undefined || !this.isNowCaughtUp) return state
          return { ...state, session: { ...state.session, ...message.data } }
        })
        break
      case 'queue':
        this.changed.queue += 1
        break
      case 'status':
        if (message.data.status !== 'Running') this.draft = undefined
        if (this.isNowCaughtUp) this.refresh()
        break
      case 'draft':
        this.draft = extended(this.draft, message.data)
        break
      case 'log':
        // A log changes nothing else of the session.
        this.log.add(message.data)
        return
      case 'caught_up':
        this.draft = undefined
        if (this.isNowCaughtUp) {
          // A list whose request failed while the connection was lost is read again.
          this.changed.queue += 1
          this.changed.records += 1
        }
        if (this.isNowCaughtUp || message.cursor !== this.state.get().session?.cursor) this.refresh()
        this.isNowCaughtUp = true
    }
    this.flush()
  }

  /** Shows all messages that arrived since the last call at once. */
  private readonly flush = throttled(FLUSH_MS, () => {
    const { incoming, changed, draft } = this
    this.incoming = []
    this.changed = { queue: 0, records: 0 }
    this.state.update((state) => ({
      ...state,
      isCaughtUp: state.isCaughtUp || this.isNowCaughtUp,
      ...this.lines(state, incoming),
      draft,
      changes: {
        queue: state.changes.queue + changed.queue,
        records: state.changes.records + changed.records,
      },
    }))
  })

  /** The lines with those that arrived, so many of them that hours of a stream fit into memory. The others can be loaded again. */
  private lines(
    { activity, hasEarlier }: LiveSession,
    incoming: readonly ActivityView[],
  ): Pick<LiveSession, 'activity' | 'hasEarlier'> {
    if (incoming.length === 0) return { activity, hasEarlier }
    const all = [...activity, ...incoming]
    // Entries that are being loaded end where the first line begins.
    if (all.length <= this.loaded + MAX_ADDED || this.isLoading || !this.isAtEnd()) return { activity: all, hasEarlier }
    // Earlier entries are loaded whole, so all lines of an entry leave together.
    const last = all[all.length - this.loaded - KEPT_ADDED]
    if (last === undefined) return { activity: all, hasEarlier }
    this.start = entryOfLine(last)
    return { activity: all.filter((line) => entryOfLine(line) > this.start), hasEarlier: true }
  }

  /** Loads the entries before the first one. */
  async loadEarlier(): Promise<void> {
    const begin = Math.max(0, this.start - WINDOW)
    this.isLoading = true
    try {
      const earlier = await readActivity(this.id, begin, this.start)
      this.start = begin
      this.loaded += earlier.length
      this.state.update((state) => ({ ...state, activity: [...earlier, ...state.activity], hasEarlier: begin > 0 }))
    } finally {
      this.isLoading = false
    }
  }
}

/** Give the component the id as its key. */
export function useSessionFollower(id: string): SessionFollower {
  return useFollower(() => new SessionFollower(id))
}
