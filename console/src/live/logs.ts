import { api, data } from '../api/client'
import type { Page } from '../api/pages'
import type { LogChunkView } from '../api/types'
import { Store } from './store'
import { FLUSH_MS, throttled } from './throttle'

export interface LiveLog {
  /** In order, the newest last. */
  chunks: readonly LogChunkView[]
  /** Whether there may be chunks before the first one. */
  hasEarlier: boolean
}

/** The size of a page, which is also the least number of chunks that a request for earlier ones adds if there are so many. */
const PAGE = 200

/** A long log keeps its last chunks in memory, up to one of these limits. The others can be loaded again. */
const MAX_CHUNKS = 2_000
const MAX_CHARACTERS = 2_000_000
/** How many times more stay while a person reads earlier chunks. */
const MORE_WHILE_READING = 4

/** The last chunks that fit into `share` times the limits, or all if they do. A trimmed log has space for more. */
function kept(chunks: readonly LogChunkView[], share: number): readonly LogChunkView[] {
  const fits = (part: number) => {
    let characters = 0
    let at = chunks.length
    while (at > 0 && chunks.length - at < part * MAX_CHUNKS) {
      characters += chunks[at - 1]?.content.length ?? 0
      if (characters > part * MAX_CHARACTERS && at < chunks.length) break
      at -= 1
    }
    return at
  }
  return fits(share) === 0 ? chunks : chunks.slice(fits(share * 0.8))
}

/** The log of a session: the chunks that its stream sent, and earlier ones that a person loaded. */
export class SessionLog {
  readonly state = new Store<LiveLog>({ chunks: [], hasEarlier: false })
  /** The entry of the journal up to which no chunk is in memory. */
  private start = 0
  private incoming: LogChunkView[] = []
  /** The cursors of the pages before the first chunk. The API lists a log from its beginning only, so they are found once. */
  private earlier: (string | undefined)[] | undefined
  private isLoading = false

  private isRead = (): boolean => false

  constructor(private readonly id: string) {}

  /** Keeps more chunks while `isRead` says that a person reads earlier ones. Returns a function that ends it. */
  keepFor(isRead: () => boolean): () => void {
    this.isRead = isRead
    return () => {
      this.isRead = () => false
    }
  }

  /** The stream begins after an entry of the journal. */
  beginAfter(entry: number): void {
    this.start = entry
    this.state.set({ chunks: [], hasEarlier: entry > 0 })
  }

  add(chunk: LogChunkView): void {
    this.incoming.push(chunk)
    this.flush()
  }

  private readonly flush = throttled(FLUSH_MS, () => {
    const { incoming } = this
    this.incoming = []
    this.state.update(({ chunks, hasEarlier }) => {
      const all = [...chunks, ...incoming]
      // The pages that are being loaded end where the first chunk begins.
      const last = this.isLoading ? all : kept(all, this.isRead() ? MORE_WHILE_READING : 1)
      const dropped = all[all.length - last.length - 1]
      if (dropped !== undefined) {
        this.start = dropped.sequenceNumber
        this.earlier = undefined
      }
      return { chunks: last, hasEarlier: hasEarlier || dropped !== undefined }
    })
  })

  private async read(cursor: string | undefined): Promise<Page<LogChunkView>> {
    const params = { path: { id: this.id }, query: { limit: PAGE, cursor } as never }
    return data(api.GET('/api/agents/sessions/{id}/logs', { params }))
  }

  private async findEarlier(): Promise<(string | undefined)[]> {
    const cursors: (string | undefined)[] = []
    let cursor: string | undefined
    do {
      const page = await this.read(cursor)
      const [first] = page.items
      if (first === undefined || first.sequenceNumber > this.start) break
      cursors.push(cursor)
      cursor = page.nextCursor ?? undefined
    } while (cursor !== undefined)
    return cursors
  }

  /** Loads the chunks before the first one. */
  async loadEarlier(): Promise<void> {
    if (this.isLoading) return
    this.isLoading = true
    try {
      this.earlier ??= await this.findEarlier()
      const pages = [...this.earlier]
      let found: LogChunkView[] = []
      while (found.length < PAGE && pages.length > 0) {
        const { items } = await this.read(pages.pop())
        found = [...items.filter(({ sequenceNumber }) => sequenceNumber <= this.start), ...found]
      }
      this.earlier = pages
      this.start = (found[0]?.sequenceNumber ?? 1) - 1
      this.state.update(({ chunks }) => ({ chunks: [...found, ...chunks], hasEarlier: pages.length > 0 }))
    } finally {
      this.isLoading = false
    }
  }
}
