import { api, data } from '../api/client'
import { allPages, type Page } from '../api/pages'
import type { Schema } from '../ui/schemaForm'

/** All items of a list of the API, in the form of a page. */
async function whole<T>(read: (page: { limit: number; cursor?: string }) => Promise<Page<T>>): Promise<{ items: T[] }> {
  const limit = 200
  return { items: await allPages((cursor) => read(cursor === undefined ? { limit } : { limit, cursor })) }
}

/** The OpenAPI document, whose schemas describe the fields of forms. */
export const openApiQuery = {
  queryKey: ['openapi'],
  queryFn: async () => (await data<unknown>(api.GET('/openapi.json'))) as { components: { schemas: Record<string, Schema> } },
  staleTime: Infinity,
}

export const projectsQuery = {
  queryKey: ['projects'],
  queryFn: () => whole((query) => data(api.GET('/api/projects', { params: { query } }))),
}

export const portfolioQuery = {
  queryKey: ['portfolio'],
  queryFn: () => whole((query) => data(api.GET('/api/portfolio', { params: { query } }))),
}

export const templatesQuery = {
  queryKey: ['templates'],
  queryFn: () => whole((query) => data(api.GET('/api/agents/templates', { params: { query } }))),
}

export const skillsQuery = {
  queryKey: ['skills'],
  queryFn: () => whole((query) => data(api.GET('/api/agents/skills', { params: { query } }))),
}

export function agentsQuery(projectId: string) {
  return {
    queryKey: ['agents', projectId],
    queryFn: () => whole((page) => data(api.GET('/api/agents', { params: { query: { ...page, projectId } } }))),
  }
}
