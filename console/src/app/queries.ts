import { QueryClient } from '@tanstack/react-query'
import { ApiProblem } from '../api/client'

/** Streams tell when something changed, so nothing is read again on a timer or on focus. */
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
