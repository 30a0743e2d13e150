import { QueryClient, useQueryClient } from '@tanstack/react-query'
import { useEffect, useMemo } from 'react'
import { ApiProblem } from '../api/client'
import { sessionChanges } from '../live/roster'
import { useStore } from '../live/store'
import { throttled } from '../live/throttle'

/** Streams report changes, so nothing is read again on a timer or on focus. */
export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      refetchOnWindowFocus: false,
      // A lost connection is retried; a refusal is shown.
      retry: (failures, error) => error instanceof ApiProblem && error.status === 0 && failures < 20,
      retryDelay: (attempt) => Math.min(500 * 2 ** attempt, 5_000),
      networkMode: 'always',
    },
    mutations: { networkMode: 'always' },
  },
})

/** Reads a query again when a count of changes increases, at most twice a second. */
export function useReadAgain(key: readonly unknown[], changes: number): void {
  const client = useQueryClient()
  const name = JSON.stringify(key)
  const read = useMemo(
    () => throttled(500, () => void client.invalidateQueries({ queryKey: JSON.parse(name) as unknown[] })),
    [client, name],
  )
  useEffect(() => {
    if (changes > 0) read()
  }, [changes, read])
}

/** Reads a query again when sessions change, because no stream reports its own changes. */
export function useReadWithSessions(key: readonly unknown[]): void {
  useReadAgain(key, useStore(sessionChanges))
}
