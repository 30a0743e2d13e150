import { useQueries, useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { api, data } from '../api/client'
import type { AgentView, ArtifactSummary } from '../api/types'
import { useReadAgain } from '../app/queries'
import { Empty, Problem, s } from '../ui'
import { StatusBadge } from '../ui/status'
import { artifactQuery, ArtifactBadge } from './artifactParts'
import { AgentLink, ProjectHead, useProject } from './projectFrame'
import c from './screens.module.css'

/** The most artifacts on the map. Each one takes a request for its sources. */
const SHOWN = 100

/** The geometry of the map, in pixels. */
const COLUMN = 264
const GAP = 56
const TITLE = 30
const OWNER = 28
const ROW = 62
const BOX = 50

/** The workstreams of a project with their agents and artifacts. A line leads from each artifact to those that were made from it. */
export function MapScreen() {
  const { id } = useParams({ from: '/shell/projects/$id/map' })
  return <ProjectMap key={id} id={id} />
}

interface Place {
  artifact: ArtifactSummary
  column: number
  row: number
}

function ProjectMap({ id }: { id: string }) {
  const { live, project, agents } = useProject(id)
  const followed = useReadAgain(['artifacts', id], live.changes?.artifacts)
  useReadAgain(['artifact'], live.changes?.artifacts)
  const artifacts = useQuery({
    queryKey: ['artifacts', id, 'map'],
    queryFn: () => data(api.GET('/api/artifacts', { params: { query: { projectId: id, limit: SHOWN } as never } })),
    ...followed,
  })
  const items = artifacts.data?.items ?? []
  const details = useQueries({ queries: items.map(({ id }) => artifactQuery(id)) })
  const failed = [project, agents, artifacts, ...details].find(({ isLoadingError }) => isLoadingError)
  if (failed !== undefined) return <Problem error={failed.error} />
  if (project.data === undefined || artifacts.data === undefined) return <Empty>Loading …</Empty>
  const { name } = project.data
  const columns = project.data.workstreams.map(({ id, name }) => ({
    id,
    name,
    owners: agents.data?.items.filter(({ brief }) => brief.workstream === id) ?? [],
    artifacts: items.filter(({ workstream }) => workstream === id),
  }))
  const places = new Map<string, Place>(
    columns.flatMap(({ artifacts }, column) => artifacts.map((artifact, row) => [artifact.id, { artifact, column, row }])),
  )
  const sources = new Map(details.map(({ data }) => [data?.id ?? '', data?.latest.sourceArtifactIds ?? []]))
  const lines = [...places.values()].flatMap((to) =>
    (sources.get(to.artifact.id) ?? []).flatMap((source) => {
      const from = places.get(source)
      return from === undefined ? [] : [{ from, to }]
    }),
  )
  const head = TITLE + Math.max(1, ...columns.map(({ owners }) => owners.length)) * OWNER + 6
  const rows = Math.max(1, ...columns.map(({ artifacts }) => artifacts.length))
  const size = { width: columns.length * (COLUMN + GAP) - GAP, height: head + rows * ROW }
  return (
    <div className={s.stack}>
      <ProjectHead id={id} title={`Map of ${name}`} />
      {columns.length === 0 && <Empty>The project has no workstreams.</Empty>}
      {artifacts.data.nextCursor != null && (
        <p className={s.muted}>The map has the {SHOWN} latest artifacts. The others are in the list of artifacts.</p>
      )}
      {/* A region with overflow must be reachable for the keyboard. */}
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <div className={c.map} role="region" aria-label="Map" tabIndex={0}>
        <div style={{ position: 'relative', ...size }}>
          <svg width={size.width} height={size.height} aria-hidden="true">
            {lines.map(({ from, to }) => (
              <path
                key={`${from.artifact.id} ${to.artifact.id}`}
                d={curve(from, to, head)}
                data-line={`${from.artifact.name} → ${to.artifact.name}`}
              />
            ))}
          </svg>
          {columns.map(({ id: workstream, name, owners, artifacts }, column) => (
            <section
              key={workstream}
              className={c.mapColumn}
              aria-label={`Workstream ${name}`}
              style={{ left: column * (COLUMN + GAP), width: COLUMN }}
            >
              <div style={{ height: head }}>
                <h2 className={c.clip} style={{ height: TITLE }}>{name}</h2>
                <Owners agents={owners} />
              </div>
              <ul>
                {artifacts.map((artifact) => (
                  <li key={artifact.id} style={{ height: ROW }}>
                    <Box projectId={id} artifact={artifact} sources={sources.get(artifact.id) ?? []} places={places} />
                  </li>
                ))}
              </ul>
            </section>
          ))}
        </div>
      </div>
    </div>
  )
}

/**
 * The line from an artifact to one that was made from it, below a head of this height. It begins and ends at the sides of the boxes that
 * are nearest to each other.
 */
function curve(from: Place, to: Place, head: number): string {
  const y = ({ row }: Place) => head + row * ROW + BOX / 2
  const left = (place: Place) => place.column * (COLUMN + GAP)
  const right = (place: Place) => left(place) + COLUMN
  const isBackward = to.column < from.column
  const isForward = to.column > from.column
  const [x1, x2] = [isBackward ? left(from) : right(from), isForward ? left(to) : right(to)]
  const bend = (isBackward ? -1 : 1) * (GAP / 2)
  const end = isBackward || isForward ? x2 - bend : x2 + bend
  const point = (x: number, place: Place) => `${String(x)} ${String(y(place))}`
  return `M ${point(x1, from)} C ${point(x1 + bend, from)}, ${point(end, to)}, ${point(x2, to)}`
}

function Owners({ agents }: { agents: readonly AgentView[] }) {
  if (agents.length === 0) return <p className={s.muted}>No agent</p>
  return agents.map(({ id, sessionStatus }) => (
    <p key={id} className={s.row} style={{ height: OWNER, flexWrap: 'nowrap' }}>
      <AgentLink agents={agents} id={id} /> <StatusBadge status={sessionStatus} />
    </p>
  ))
}

function Box({
  projectId,
  artifact: { id, name, state, version },
  sources,
  places,
}: {
  projectId: string
  artifact: ArtifactSummary
  sources: readonly string[]
  places: ReadonlyMap<string, Place>
}) {
  const names = sources.map((source) => places.get(source)?.artifact.name ?? `artifact ${source.slice(0, 8)}`)
  return (
    <Link
      to="/projects/$id/artifacts"
      params={{ id: projectId }}
      search={{ artifact: id }}
      className={`${s.box ?? ''} ${c.mapBox ?? ''}`}
      style={{ height: BOX }}
    >
      <span className={c.clip}>{name}</span>
      <span className={s.row} style={{ flexWrap: 'nowrap' }}>
        <small className={s.muted}>version {version}</small>
        <ArtifactBadge state={state} />
      </span>
      {names.length > 0 && <span className={s.visuallyHidden}>made from {names.join(', ')}</span>}
    </Link>
  )
}
