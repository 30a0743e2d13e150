import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { api, data } from '../api/client'
import type { AgentView, ArtifactAuthor, ArtifactReview, ArtifactSummary, ArtifactVersion, ArtifactView } from '../api/types'
import { useActions } from '../app/keyboard'
import { usePages, useReadAgain } from '../app/queries'
import { Button, Card, Choice, Empty, More, Problem, s, TextForm } from '../ui'
import { Ago } from '../ui/time'
import { toast } from '../ui/toasts'
import { Content, Difference } from './artifactContent'
import { ArtifactBadge, ArtifactLinks, KINDS, STATES, useArtifact } from './artifactParts'
import { FilteredList } from './filteredList'
import { AgentLink, ProjectHead, useProject } from './projectFrame'
import c from './screens.module.css'
import { Entry } from './split'

/** The results that the agents of a project have reported, by workstream. */
export function ArtifactsScreen() {
  const { id } = useParams({ from: '/shell/projects/$id/artifacts' })
  return <Artifacts key={id} id={id} />
}

function Artifacts({ id }: { id: string }) {
  const { live, project, agents } = useProject(id)
  const { artifact: chosen, ...filters } = useSearch({ from: '/shell/projects/$id/artifacts' })
  const navigate = useNavigate({ from: '/projects/$id/artifacts' })
  const key = ['artifacts', id, filters] as const
  const followed = useReadAgain(['artifacts', id], live.changes?.artifacts)
  useReadAgain(['artifact'], live.changes?.artifacts)
  const pages = usePages(
    key,
    (cursor) =>
      data(api.GET('/api/artifacts', { params: { query: { projectId: id, limit: 100, cursor, ...filters } as never } })),
    followed,
  )
  const groups = new Map<string, ArtifactSummary[]>()
  for (const item of pages.items) groups.set(item.workstream, [...(groups.get(item.workstream) ?? []), item])
  const ids = [...groups.values()].flat().map(({ id }) => id)
  const open = (artifact: string | undefined) => {
    void navigate({ search: (now) => ({ ...now, artifact }) })
  }
  if (project.isLoadingError) return <Problem error={project.error} />
  const workstreams = project.data?.workstreams ?? []
  const known = agents.data?.items ?? []
  return (
    <div className={s.stack}>
      <ProjectHead id={id} title={`Artifacts of ${project.data?.name ?? '…'}`} />
      <FilteredList
        filters={[
          { name: 'workstream', label: 'Workstream', any: 'All workstreams', options: workstreams.map(({ id, name }) => [id, name]) },
          { name: 'kind', label: 'Kind', any: 'All kinds', options: KINDS.map((kind) => [kind, kind]) },
          {
            name: 'state',
            label: 'Review',
            any: 'All reviews',
            options: Object.entries(STATES).map(([state, { label }]) => [state, label]),
          },
          { name: 'agentId', label: 'Agent', any: 'All authors', options: known.map(({ id, brief }) => [id, brief.role]) },
        ]}
        values={filters}
        onFilter={(name, value) => {
          void navigate({ search: (now) => ({ ...now, [name]: value, artifact: undefined }), replace: true })
        }}
        pages={pages}
        ids={ids}
        chosen={chosen}
        onChoose={open}
        back="All artifacts"
        empty={{ all: 'No agent has reported an artifact yet.', filtered: 'No artifact matches the filters.' }}
        list={(selected) =>
          [...groups].map(([workstream, members]) => (
            <section key={workstream} className={s.stack} aria-label={`Workstream ${workstream}`}>
              <h2>{workstreams.find(({ id }) => id === workstream)?.name ?? workstream}</h2>
              <ul className={c.list}>
                {members.map((artifact) => (
                  <li key={artifact.id}>
                    <Entry
                      isSelected={artifact.id === selected}
                      onOpen={() => {
                        open(artifact.id)
                      }}
                    >
                      <span className={s.cardHead} style={{ marginBottom: 0 }}>
                        <strong>{artifact.name}</strong>
                        <ArtifactBadge state={artifact.state} />
                      </span>
                      {artifact.path !== artifact.name && <span className={c.clip}>{artifact.path}</span>}
                      <small className={s.muted}>
                        {artifact.kind}, version {artifact.version}, <Ago at={artifact.updatedAt} />
                      </small>
                    </Entry>
                  </li>
                ))}
              </ul>
            </section>
          ))
        }
        details={(selected) => <Detail key={selected} id={selected} agents={known} />}
      />
    </div>
  )
}

function Author({ author, agents }: { author: ArtifactAuthor; agents: readonly AgentView[] }) {
  return author.type === 'person' ? author.id : <AgentLink agents={agents} id={author.agentId} sessionId={author.sessionId} />
}

function Detail({ id, agents }: { id: string; agents: readonly AgentView[] }) {
  const artifact = useArtifact(id)
  const versions = usePages(['artifact', id, 'versions'], async (cursor) => {
    const path = '/api/artifacts/{id}/versions'
    const page = await data(api.GET(path, { params: { path: { id }, query: { limit: 100, cursor } as never } }))
    return { ...page, items: page.items.map((version) => ({ ...version, id: String(version.version) })) }
  })
  // A newer version does not take the place of the one that the person reads.
  const [shown, setShown] = useState<number>()
  const [base, setBase] = useState<number>()
  if (artifact.isLoadingError) return <Problem error={artifact.error} />
  if (artifact.data === undefined) return <Empty>Loading …</Empty>
  const { name, path, kind, tags, latest, workstream, state } = artifact.data
  if (shown === undefined) setShown(latest.version)
  const all = versions.items.length > 0 ? versions.items : [latest]
  const find = (number: number | undefined) => [...all, latest].find(({ version }) => version === number)
  const version = find(shown) ?? latest
  const before = find(base)
  const show = (number: number) => {
    setShown(number)
    setBase((base) => (base === number ? undefined : base))
  }
  return (
    <Card title={name} aside={<ArtifactBadge state={state} />}>
      <div className={s.stack}>
        <p className={s.muted}>
          {path}, {kind} of {workstream}
          {tags.map((tag) => (
            <span key={tag}>, {tag}</span>
          ))}
        </p>
        <Review artifact={artifact.data} shown={version.version} onShow={show} />
        <div className={s.row}>
          <Choice
            label="Version"
            options={all.map(({ version }) => [String(version), `Version ${String(version)}`])}
            value={String(version.version)}
            onChange={(value) => {
              show(Number(value))
            }}
          />
          <Choice
            label="Compare with"
            any="Do not compare"
            options={all
              .filter((other) => other.version !== version.version)
              .map(({ version }) => [String(version), `Compare with version ${String(version)}`])}
            value={before === undefined ? '' : String(before.version)}
            onChange={(value) => {
              setBase(value === '' ? undefined : Number(value))
            }}
          />
          <More pages={versions} text="Earlier versions" />
        </div>
        {before === undefined ? (
          <Content key={version.version} id={id} path={path} version={version} />
        ) : (
          <Difference id={id} before={before} after={version} />
        )}
        <Origin projectId={artifact.data.projectId} version={version} agents={agents} />
      </div>
    </Card>
  )
}

function reviewText(review: ArtifactReview): React.ReactNode {
  switch (review.state) {
    case 'pending':
      return null
    case 'approved':
      return (
        <p>
          {review.by} accepted it <Ago at={review.at} />.
        </p>
      )
    case 'rejected':
      return (
        <p>
          {review.by} rejected it <Ago at={review.at} />: <q>{review.reason}</q>
        </p>
      )
  }
}

/** The review of the latest version. The server refuses it if there is a newer version than the one on the screen. */
function Review({
  artifact,
  shown,
  onShow,
}: {
  artifact: ArtifactView
  shown: number
  onShow: (version: number) => void
}) {
  const client = useQueryClient()
  const [isRejecting, setRejecting] = useState(false)
  const review = useMutation({
    mutationFn: (reason: string | undefined) => {
      const params = { path: { id: artifact.id } }
      const version = shown
      return reason === undefined
        ? data(api.POST('/api/artifacts/{id}/approve', { params, body: { version } }))
        : data(api.POST('/api/artifacts/{id}/reject', { params, body: { version, reason } }))
    },
    onSuccess: (reviewed) => {
      client.setQueryData(['artifact', artifact.id], reviewed)
      setRejecting(false)
      toast(reviewed.state === 'approved' ? `${reviewed.name} is accepted.` : `${reviewed.name} is rejected.`)
    },
    onSettled: async () => {
      await client.invalidateQueries({ queryKey: ['artifact', artifact.id] })
      await client.invalidateQueries({ queryKey: ['artifacts', artifact.projectId] })
    },
  })
  const isLatest = artifact.version === shown
  const canReview = artifact.review.state === 'pending' && isLatest && !review.isPending
  const approve = () => {
    if (canReview) review.mutate(undefined)
  }
  const reject = () => {
    if (canReview) setRejecting(true)
  }
  useActions(
    canReview
      ? [
          { label: `Accept version ${String(shown)}`, key: 'a', run: approve },
          { label: `Reject version ${String(shown)}`, key: 'r', run: reject },
        ]
      : [],
  )
  return (
    <div className={s.stack}>
      {review.isError && <Problem error={review.error} />}
      {!isLatest && (
        <p className={s.row} role="status">
          Version {artifact.version} is the latest.
          <Button
            onClick={() => {
              review.reset()
              onShow(artifact.version)
            }}
          >
            Show version {artifact.version}
          </Button>
        </p>
      )}
      {isLatest && reviewText(artifact.review)}
      {artifact.review.state === 'pending' && isLatest && !isRejecting && (
        <div className={s.row}>
          <Button look="primary" disabled={!canReview} onClick={approve}>
            Accept version {shown} <kbd className={c.onlyWide}>a</kbd>
          </Button>
          <Button look="danger" disabled={!canReview} onClick={reject}>
            Reject … <kbd className={c.onlyWide}>r</kbd>
          </Button>
        </div>
      )}
      {isRejecting && isLatest && (
        <TextForm
          label="Why? (required)"
          submit={`Reject version ${String(shown)}`}
          isRequired
          onSubmit={(reason) => {
            review.mutate(reason)
          }}
          onCancel={() => {
            setRejecting(false)
          }}
        />
      )}
    </div>
  )
}

/** The author, the file and the sources of a version. */
function Origin({
  projectId,
  version,
  agents,
}: {
  projectId: string
  version: ArtifactVersion
  agents: readonly AgentView[]
}) {
  const { author, sourcePath, sourceArtifactIds, storedAt, tick, mimeType, sizeBytes, contentHash } = version
  return (
    <section aria-label={`Origin of version ${String(version.version)}`}>
      <h3>Origin of version {version.version}</h3>
      <dl className={s.facts}>
        <dt>Author</dt>
        <dd>
          <Author author={author} agents={agents} />
          {author.type === 'person' && ' (a person)'}
        </dd>
        {author.type === 'agent' && author.toolCallId != null && (
          <>
            <dt>Tool call</dt>
            <dd>
              <code>{author.toolCallId}</code>
            </dd>
          </>
        )}
        <dt>Stored</dt>
        <dd>
          <Ago at={storedAt} />, in tick {tick}
        </dd>
        {sourcePath != null && (
          <>
            <dt>File</dt>
            <dd>
              <code>{sourcePath}</code>
            </dd>
          </>
        )}
        {(sourceArtifactIds?.length ?? 0) > 0 && (
          <>
            <dt>Sources</dt>
            <dd>
              <ArtifactLinks projectId={projectId} ids={sourceArtifactIds ?? []} />
            </dd>
          </>
        )}
        <dt>Content</dt>
        <dd>
          {mimeType}, {sizeBytes.toLocaleString()} bytes, SHA-256 <code>{contentHash.slice(0, 12)}…</code>
        </dd>
      </dl>
    </section>
  )
}
