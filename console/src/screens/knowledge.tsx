import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { api, data } from '../api/client'
import type { AgentView, ArtifactStatus, KnowledgeSnapshot } from '../api/types'
import { Button, Card, Choice, Empty, Problem, s } from '../ui'
import { Badge, type Tone } from '../ui/status'
import { Ago } from '../ui/time'
import { KIND, SEVERITY } from './decision'
import { AgentLink, ProjectHead, useProject } from './projectFrame'
import c from './screens.module.css'

const TOKENS = ['1000', '4000', '16000', '32000'] as const
const DEFAULT_TOKENS = '4000'

const REVIEW: Record<ArtifactStatus, { tone: Tone; label: string }> = {
  in_review: { tone: 'warn', label: 'to review' },
  approved: { tone: 'good', label: 'accepted' },
  rejected: { tone: 'bad', label: 'rejected' },
}

/** The search in a project's knowledge, and the knowledge snapshot of each agent. */
export function KnowledgeScreen() {
  const { id } = useParams({ from: '/shell/projects/$id/knowledge' })
  return <Knowledge key={id} id={id} />
}

function Knowledge({ id }: { id: string }) {
  const { project, agents } = useProject(id)
  if (project.isLoadingError) return <Problem error={project.error} />
  const known = agents.data?.items ?? []
  return (
    <div className={s.stack}>
      <ProjectHead id={id} title={`Knowledge of ${project.data?.name ?? '…'}`} />
      <Search id={id} agents={known} />
      {agents.isError && <Problem error={agents.error} />}
      {agents.data !== undefined && <Snapshot id={id} agents={known} />}
    </div>
  )
}

function Search({ id, agents }: { id: string; agents: readonly AgentView[] }) {
  const { query = '' } = useSearch({ from: '/shell/projects/$id/knowledge' })
  const navigate = useNavigate({ from: '/projects/$id/knowledge' })
  const [text, setText] = useState(query)
  const results = useQuery({
    queryKey: ['search', id, query],
    enabled: query !== '',
    queryFn: () => data(api.GET('/api/projects/{id}/search', { params: { path: { id }, query: { query } as never } })),
  })
  return (
    <Card title="Search">
      <form
        className={s.stack}
        role="search"
        onSubmit={(event) => {
          event.preventDefault()
          const words = text.trim()
          if (words === '' || words !== query) void navigate({ search: (now) => ({ ...now, query: words === '' ? undefined : words }) })
          else void results.refetch()
        }}
      >
        <div className={s.row} style={{ flexWrap: 'nowrap' }}>
          <label style={{ flex: 1 }}>
            <span className={s.visuallyHidden}>Words in artifacts and objectives</span>
            <input
              className={s.input}
              type="search"
              placeholder="Words in artifacts and objectives"
              value={text}
              onChange={({ target }) => {
                setText(target.value)
              }}
            />
          </label>
          <Button type="submit" look="primary">
            Search
          </Button>
        </div>
        {results.isError && <Problem error={results.error} />}
        {results.data?.items.length === 0 && <p className={s.muted}>No artifact or objective has these words.</p>}
        <ul className={s.stack} aria-label="Results">
          {results.data?.items.map(({ artifactId, agentId, title, workstream, matchedTerms }) => (
            <li key={artifactId ?? agentId}>
              {artifactId != null && (
                <Link to="/projects/$id/artifacts" params={{ id }} search={{ artifact: artifactId }}>
                  {title}
                </Link>
              )}
              {artifactId == null && agentId != null && (
                <>
                  <AgentLink agents={agents} id={agentId} />: {title}
                </>
              )}{' '}
              <small className={s.muted}>
                {artifactId == null ? 'objective' : 'artifact'} of {workstream}, {matchedTerms} of{' '}
                {results.data.terms.length} words
              </small>
            </li>
          ))}
        </ul>
      </form>
    </Card>
  )
}

/** The entries that a snapshot omits; `undefined` if it has all of them. */
function omittedText({ omitted }: KnowledgeSnapshot): string | undefined {
  if (omitted === undefined) return undefined
  const { artifacts, pendingDecisions, coherenceIssues, agents, workstreams } = omitted
  const counts = { artifacts, decisions: pendingDecisions, issues: coherenceIssues, agents, workstreams }
  const parts = Object.entries(counts).flatMap(([name, count]) => (count > 0 ? [`${String(count)} ${name}`] : []))
  return parts.length === 0 ? undefined : `It omits ${parts.join(', ')}, to fit the number of tokens.`
}

/** The snapshot of the project that an agent receives. */
function Snapshot({ id, agents }: { id: string; agents: readonly AgentView[] }) {
  const search = useSearch({ from: '/shell/projects/$id/knowledge' })
  const navigate = useNavigate({ from: '/projects/$id/knowledge' })
  const agentId = search.agentId ?? agents[0]?.id
  const tokens = search.tokens ?? DEFAULT_TOKENS
  const snapshot = useQuery({
    queryKey: ['snapshot', id, agentId, tokens],
    enabled: agentId !== undefined,
    placeholderData: (former) => former,
    queryFn: () =>
      data(api.GET('/api/projects/{id}/snapshot', { params: { path: { id }, query: { agentId, tokens } as never } })),
  })
  if (agentId === undefined) {
    return (
      <Card title="Knowledge of an agent">
        <p className={s.muted}>The project has no agent yet.</p>
      </Card>
    )
  }
  const role = agents.find(({ id }) => id === agentId)?.brief.role ?? 'this agent'
  return (
    <Card
      title={`Knowledge of ${role}`}
      aside={
        <span className={s.row}>
          <Choice
            label="Agent"
            options={agents.map(({ id, brief }) => [id, brief.role])}
            value={agentId}
            onChange={(agentId) => {
              void navigate({ search: (now) => ({ ...now, agentId }), replace: true })
            }}
          />
          <Choice
            label="Tokens"
            options={TOKENS.map((tokens) => [tokens, `${Number(tokens).toLocaleString()} tokens`])}
            value={tokens}
            onChange={(tokens) => {
              void navigate({ search: (now) => ({ ...now, tokens }), replace: true })
            }}
          />
          <Button
            disabled={snapshot.isFetching}
            onClick={() => {
              void snapshot.refetch()
            }}
          >
            Read again
          </Button>
        </span>
      }
    >
      {snapshot.isError && <Problem error={snapshot.error} />}
      {snapshot.data === undefined && !snapshot.isError && <Empty>Loading …</Empty>}
      {snapshot.data !== undefined && <Entries id={id} snapshot={snapshot.data} agents={agents} />}
    </Card>
  )
}

function Part({ title, count, children }: { title: string; count: number; children: React.ReactNode }) {
  return (
    <section className={s.stack} style={{ gap: '0.3rem' }} aria-label={title}>
      <h3>
        {title} ({count})
      </h3>
      {count === 0 ? <p className={s.muted}>None.</p> : <ul className={c.list}>{children}</ul>}
    </section>
  )
}

function Entries({ id, snapshot, agents }: { id: string; snapshot: KnowledgeSnapshot; agents: readonly AgentView[] }) {
  const { workstreams, artifactIndex, pendingDecisions, recentCoherenceIssues, activeAgents } = snapshot
  const omitted = omittedText(snapshot)
  return (
    <div className={s.stack}>
      <p className={s.muted}>
        Version {snapshot.snapshotVersion}, about {snapshot.estimatedTokens.toLocaleString()} tokens, made{' '}
        <Ago at={snapshot.generatedAt} />.
      </p>
      {omitted !== undefined && (
        <p>
          <Badge tone="warn">not all</Badge> {omitted}
        </p>
      )}
      <Part title="Workstreams that it may read" count={workstreams.length}>
        {workstreams.map(({ id: workstream, name, status, artifactCount, pendingDecisionCount, recentActivity }) => (
          <li key={workstream}>
            <Link to="/projects/$id/artifacts" params={{ id }} search={{ workstream }}>
              {name}
            </Link>{' '}
            <Badge tone={status === 'active' ? 'busy' : status === 'waiting' ? 'warn' : 'plain'}>{status}</Badge>{' '}
            <span className={s.muted}>
              artifacts: {artifactCount}, decisions: {pendingDecisionCount}
              {recentActivity !== undefined && `. ${recentActivity}`}
            </span>
          </li>
        ))}
      </Part>
      <Part title="Artifacts" count={artifactIndex.length}>
        {artifactIndex.map(({ id: artifact, name, kind, status, workstream, version }) => (
          <li key={artifact}>
            <Link to="/projects/$id/artifacts" params={{ id }} search={{ artifact }}>
              {name}
            </Link>{' '}
            <Badge tone={REVIEW[status].tone}>{REVIEW[status].label}</Badge>{' '}
            <span className={s.muted}>
              {kind} of {workstream}, version {version}
            </span>
          </li>
        ))}
      </Part>
      <Part title="Decisions that wait" count={pendingDecisions.length}>
        {pendingDecisions.map(({ id, title, severity, agentId, subtype }) => (
          <li key={id}>
            <Badge tone={SEVERITY[severity]}>{severity}</Badge> {title}{' '}
            <span className={s.muted}>
              {KIND[subtype].toLowerCase()} of <AgentLink agents={agents} id={agentId} />
            </span>
          </li>
        ))}
      </Part>
      <Part title="Coherence issues" count={recentCoherenceIssues.length}>
        {recentCoherenceIssues.map(({ id: issue, title, severity }) => (
          <li key={issue}>
            <Badge tone={SEVERITY[severity]}>{severity}</Badge>{' '}
            <Link to="/projects/$id/coherence" params={{ id }} search={{ issue }}>
              {title}
            </Link>
          </li>
        ))}
      </Part>
      <Part title="Other agents" count={activeAgents.length}>
        {activeAgents.map(({ id, workstream, status }) => (
          <li key={id}>
            <AgentLink agents={agents} id={id} />{' '}
            <span className={s.muted}>
              of {workstream}, {status.replaceAll('_', ' ')}
            </span>
          </li>
        ))}
      </Part>
    </div>
  )
}
