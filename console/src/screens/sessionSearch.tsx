import { useInfiniteQuery } from '@tanstack/react-query'
import { Fragment, useEffect, useRef, useState } from 'react'
import { api, data } from '../api/client'
import type { ActivityItemType, ActivityView, TextMatch } from '../api/types'
import { entryOf, readActivity } from '../live/session'
import { Button, More, Problem, s } from '../ui'
import { Clock } from '../ui/time'
import c from './screens.module.css'

/** The entries before and after a match that are loaded with it, and by each request for more. */
const AROUND = 100

interface Part {
  lines: readonly ActivityView[]
  /** The entry before the first one. */
  begin: number
  /** The last entry. */
  end: number
}

/** A part of the timeline of a session that is shown instead of its loaded entries. `last` is the last entry of the session. */
export function usePart(id: string, last: number) {
  const [part, setPart] = useState<Part>()
  // Counts the parts that were opened or closed. A response for an earlier one is ignored.
  const changes = useRef(0)
  /** Reads the lines after `begin`, up to `end`. `undefined` if another part was opened meanwhile, or this one was closed. */
  const read = async (begin: number, end: number) => {
    const change = changes.current
    const lines = await readActivity(id, begin, end)
    return change === changes.current ? lines : undefined
  }
  /** Changes the part that is shown now: its other end may have been moved meanwhile. */
  const extend = (extended: (part: Part) => Part) => {
    setPart((now) => (now === undefined ? undefined : extended(now)))
  }
  return {
    lines: part?.lines,
    hasEarlier: part !== undefined && part.begin > 0,
    hasLater: part !== undefined && part.end < last,
    /** Shows the part around an entry, and returns its lines. `undefined` if another part was opened or closed meanwhile. */
    open: async (entry: number): Promise<readonly ActivityView[] | undefined> => {
      changes.current += 1
      // Entries after the last one do not exist yet. They belong to the next part.
      const [begin, end] = [Math.max(0, entry - AROUND), Math.max(entry, Math.min(entry + AROUND, last))]
      const lines = await read(begin, end)
      if (lines !== undefined) setPart({ lines, begin, end })
      return lines
    },
    loadEarlier: async () => {
      if (part === undefined) return
      const begin = Math.max(0, part.begin - AROUND)
      const earlier = await read(begin, part.begin)
      if (earlier !== undefined) extend((now) => ({ ...now, lines: [...earlier, ...now.lines], begin }))
    },
    loadLater: async () => {
      if (part === undefined) return
      const end = Math.min(part.end + AROUND, last)
      const later = await read(part.end, end)
      if (later !== undefined) extend((now) => ({ ...now, lines: [...now.lines, ...later], end }))
    },
    close: () => {
      changes.current += 1
      setPart(undefined)
    },
  }
}

const KIND: Partial<Record<ActivityItemType, string>> = {
  Message: 'message',
  ToolCallStart: 'tool call',
  ToolCallEnd: 'tool result',
  UserQuestion: 'question',
  UserAnswer: 'answer',
  StatusChange: 'status',
  Notice: 'notice',
}

/** The texts of a session that have all words, latest first. With another `number`, the same words are searched again. */
export function SessionSearch({
  id,
  words,
  number,
  onChoose,
  onClose,
}: {
  id: string
  words: string
  number: number
  onChoose: (found: TextMatch) => void
  onClose: () => void
}) {
  const query = useInfiniteQuery({
    queryKey: ['session-search', id, words, number],
    queryFn: ({ pageParam: cursor, signal }) =>
      data(
        api.GET('/api/agents/sessions/{id}/search', {
          params: { path: { id }, query: { query: words, limit: 50, cursor } as never },
          signal,
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
    // A search that is opened again finds what was recorded meanwhile.
    staleTime: Infinity,
    gcTime: 0,
  })
  const { hasNextPage, isFetching, isError, fetchNextPage } = query
  const pages = query.data?.pages ?? []
  const matches = pages.flatMap(({ items }) => items)
  const left = entryOf(pages.at(-1)?.nextCursor ?? '')
  // A request searches a part of the journal. After a part without a match, the next one is searched.
  const isUndecided = hasNextPage && !isFetching && !isError && pages.at(-1)?.items.length === 0
  useEffect(() => {
    if (isUndecided) void fetchNextPage()
  }, [isUndecided, fetchNextPage])
  const isSearching = isFetching || isUndecided
  return (
    <section className={s.stack} aria-label="Search of the whole session">
      <div className={s.row} style={{ justifyContent: 'space-between' }}>
        <span className={`${s.muted ?? ''} ${s.small ?? ''}`} role="status">
          {isSearching
            ? `Searching for “${words}” …${left === undefined ? '' : ` ${String(left)} entries are left.`}`
            : `${String(matches.length)} ${matches.length === 1 ? 'entry has' : 'entries have'} “${words}”${hasNextPage ? ' so far' : ''}.`}
        </span>
        <Button onClick={onClose}>Close the search</Button>
      </div>
      {query.isError && <Problem error={query.error} />}
      {matches.length > 0 && (
        <ul className={c.matches} aria-label="Matches in the whole session">
          {matches.map((found) => (
            <li key={found.journalSequence}>
              <button
                type="button"
                className={c.item}
                onClick={() => {
                  onChoose(found)
                }}
              >
                <small className={s.muted}>
                  <Clock at={found.timestamp} /> {found.subAgentId != null && 'subagent, '}
                  {found.thinking ? 'thinking' : (KIND[found.type] ?? found.type)}
                </small>
                <span>
                  <Marked found={found} />
                </span>
              </button>
            </li>
          ))}
        </ul>
      )}
      <More pages={{ hasMore: hasNextPage, more: isSearching ? undefined : () => void fetchNextPage() }} text="Search further" />
    </section>
  )
}

/** The excerpt of a match with its words. Their positions count characters, and a string counts some of these twice. */
function Marked({ found: { excerpt, words } }: { found: TextMatch }) {
  const characters = Array.from(excerpt)
  const part = (begin: number, end?: number) => characters.slice(begin, end).join('')
  return (
    <>
      {words.map(({ start, end }, at) => (
        <Fragment key={start}>
          {part(words[at - 1]?.end ?? 0, start)}
          <mark>{part(start, end)}</mark>
        </Fragment>
      ))}
      {part(words.at(-1)?.end ?? 0)}
    </>
  )
}
