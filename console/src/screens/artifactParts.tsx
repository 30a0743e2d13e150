import { queryOptions, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api, data } from '../api/client'
import type { ArtifactKind, ArtifactState } from '../api/types'
import { Badge, type Tone } from '../ui/status'

export const KINDS: readonly ArtifactKind[] = ['code', 'document', 'design', 'config', 'test', 'other']

export const STATES: Record<ArtifactState, { tone: Tone; label: string }> = {
  pending: { tone: 'warn', label: 'to review' },
  approved: { tone: 'good', label: 'accepted' },
  rejected: { tone: 'bad', label: 'rejected' },
}

export function ArtifactBadge({ state }: { state: ArtifactState }) {
  const { tone, label } = STATES[state]
  return <Badge tone={tone}>{label}</Badge>
}

export function artifactQuery(id: string) {
  return queryOptions({
    queryKey: ['artifact', id],
    queryFn: () => data(api.GET('/api/artifacts/{id}', { params: { path: { id } } })),
  })
}

export function useArtifact(id: string) {
  return useQuery(artifactQuery(id))
}

/** Artifacts by their names, as links. */
export function ArtifactLinks({ projectId, ids }: { projectId: string; ids: readonly string[] }) {
  return (
    <ul>
      {ids.map((id) => (
        <li key={id}>
          <ArtifactLink projectId={projectId} id={id} />
        </li>
      ))}
    </ul>
  )
}

function ArtifactLink({ projectId, id }: { projectId: string; id: string }) {
  const { data } = useArtifact(id)
  return (
    <Link to="/projects/$id/artifacts" params={{ id: projectId }} search={{ artifact: id }}>
      {data === undefined ? `artifact ${id.slice(0, 8)}` : `${data.name} (${data.workstream}, version ${String(data.version)})`}
    </Link>
  )
}
