import { keepPreviousData, QueryCache, QueryClient, useInfiniteQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useMemo, useRef } from 'react'
import { ApiProblem } from '../api/client'
import type { Page } from '../api/pages'
import { failedReads, mark } from '../live/outdated'
import { brakeChanges, roster, sessionChanges, sessionMessages } from '../live/roster'
import { useStore } from '../live/store'
import { throttled } from '../live/throttle'

const cache = new QueryCache()

// Older data stays on the screen while a read is repeated, so the page says that it may be out of date.
cache.subscribe(({ type, query: { queryHash, state } }) => {
  mark(failedReads, queryHash, type !== 'removed' && state.data !== undefined && state.fetchFailureCount > 0)
})

/** Whether a read may succeed when it is repeated: the connection was lost, or the server is busy or failed. */
function isTransient(error: unknown): boolean {
  return error instanceof ApiProblem && (error.status === 0 || error.status === 429 || error.status >= 500)
}

/** Streams report changes, so nothing is read again on a timer or on focus. */
export const queries = new QueryClient({
  queryCache: cache,
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      refetchOnWindowFocus: false,
      // A refusal is shown.
      retry: (failures, error) => isTransient(error) && failures < 20,
      retryDelay: (attempt) => Math.min(500 * 2 ** attempt, 5_000),
      networkMode: 'always',
    },
    // Some responses contain a secret, so that none stays in memory after its component.
    mutations: { networkMode: 'always', gcTime: 1_000 },
  },
})

/** The options of a query whose changes a stream reports. It waits for the stream, so that nothing is read twice and no change is missed. */
export interface Followed {
  enabled: boolean
  staleTime: 0
}

/** Repeats a read at most twice a second. One that takes longer is not cancelled by the next, which follows it. */
function readingInTurn(read: () => Promise<void>): () => void {
  let isWanted = false
  let isReading = false
  const readAll = async (): Promise<void> => {
    isReading = true
    while (isWanted) {
      isWanted = false
      await read()
    }
    isReading = false
  }
  return throttled(500, () => {
    isWanted = true
    if (!isReading) void readAll()
  })
}

/**
 * Reads a query again when a count of changes increases, at most twice a second. The count is `undefined` until the stream is connected;
 * the query is read when it appears.
 */
export function useReadAgain(key: readonly unknown[], changes: number | undefined): Followed {
  const client = useQueryClient()
  const name = JSON.stringify(key)
  const read = useMemo(
    () => readingInTurn(() => client.invalidateQueries({ queryKey: JSON.parse(name) as unknown[] })),
    [client, name],
  )
  const seen = useRef(changes)
  useEffect(() => {
    if (seen.current !== undefined && seen.current !== changes) read()
    seen.current = changes
  }, [changes, read])
  return { enabled: changes !== undefined, staleTime: 0 }
}

/** Reads a query again when sessions change, because no stream reports its own changes. */
export function useReadWithSessions(key: readonly unknown[]): Followed {
  const changes = useStore(sessionChanges)
  return useReadAgain(key, useStore(roster).isLoaded ? changes : undefined)
}

/** Reads a query again when brakes change. */
export function useReadWithBrakes(key: readonly unknown[]): Followed {
  const changes = useStore(brakeChanges)
  return useReadAgain(key, useStore(roster).isLoaded ? changes : undefined)
}

/**
 * Reads a brake again when it changes or sessions do. The stage of a session is not in the list of sessions, so until all sessions have
 * stopped, each message about a session counts.
 */
export function useReadBrakeAgain(key: readonly unknown[], hasStopped: boolean): Followed {
  const changes = useStore(hasStopped ? sessionChanges : sessionMessages) + useStore(brakeChanges)
  return useReadAgain(key, useStore(roster).isLoaded ? changes : undefined)
}

/** A list of the API, page by page. While another list of the same kind is read, the former one stays. */
export function usePages<T extends { id: string }>(
  key: readonly unknown[],
  read: (cursor: string | undefined) => Promise<Page<T>>,
  followed?: Followed,
) {
  const { data, error, isPlaceholderData, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam }) => read(pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
    placeholderData: keepPreviousData,
    ...followed,
  })
  const items = useMemo(() => {
    // An entry that changes between two pages is on both.
    const byId = new Map(data?.pages.flatMap(({ items }) => items.map((item) => [item.id, item] as const)))
    return [...byId.values()]
  }, [data])
  const more = hasNextPage && !isFetchingNextPage ? () => void fetchNextPage() : undefined
  return { items, error, isLoaded: data !== undefined && !isPlaceholderData, hasMore: hasNextPage, more }
}
