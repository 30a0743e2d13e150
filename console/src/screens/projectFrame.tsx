import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useEffect } from 'react'
import { api, data } from '../api/client'
import type { AgentView } from '../api/types'
import { agentsQuery } from '../app/lists'
import { useReadAgain } from '../app/queries'
import { useProjectFollower } from '../live/project'
import { useStore } from '../live/store'
import { s } from '../ui'
import c from './screens.module.css'

/** A project and its agents, followed live. Give the component the id as its key. */
export function useProject(id: string) {
  const live = useStore(useProjectFollower(id).state)
  const client = useQueryClient()
  const project = useQuery({
    queryKey: ['project', id],
    queryFn: () => data(api.GET('/api/projects/{id}', { params: { path: { id } } })),
  })
  useEffect(() => {
    if (live.state !== undefined) client.setQueryData(['project', id], live.state.project)
  }, [client, id, live.state])
  const agents = useQuery({ ...agentsQuery(id), ...useReadAgain(['agents', id], live.changes?.agents) })
  return { live, project, agents }
}

const PARTS = [
  { to: '/projects/$id', label: 'Overview' },
  { to: '/projects/$id/map', label: 'Map' },
  { to: '/projects/$id/artifacts', label: 'Artifacts' },
  { to: '/projects/$id/coherence', label: 'Coherence' },
  { to: '/projects/$id/knowledge', label: 'Knowledge' },
] as const

/** The head of each screen of a project, with links to the others. */
export function ProjectHead({
  id,
  title,
  children,
}: {
  id: string
  title: string
  children?: React.ReactNode
}) {
  return (
    <div>
      <div className={c.head}>
        <h1>{title}</h1>
        {children}
      </div>
      <nav className={s.tabs} aria-label="Project">
        {PARTS.map(({ to, label }) => (
          <Link
            key={to}
            to={to}
            params={{ id }}
            className={c.part}
            activeOptions={{ exact: true, includeSearch: false }}
          >
            {label}
          </Link>
        ))}
      </nav>
    </div>
  )
}

/** An agent by its role, with a link to its session. */
export function AgentLink({
  agents,
  id,
  sessionId,
}: {
  agents: readonly AgentView[]
  id: string
  sessionId?: string
}) {
  const agent = agents.find((agent) => agent.id === id)
  const session = sessionId ?? agent?.sessionId
  const name = agent?.brief.role ?? `agent ${id.slice(0, 8)}`
  return session === undefined ? (
    name
  ) : (
    <Link to="/sessions/$id" params={{ id: session }}>
      {name}
    </Link>
  )
}
