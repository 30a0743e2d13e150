import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { api, data } from '../api/client'
import { useRequestKey } from '../api/requestKey'
import type {
  AgentView,
  CoherenceAudit,
  CoherenceCategory,
  CoherenceIssueView,
  CoherenceReport,
  CoherenceStatus,
  IssueReview,
  IssueSource,
  ProjectView,
  ReviewFailure,
  Severity,
  StructuralCheck,
} from '../api/types'
import { useActions } from '../app/keyboard'
import { usePages, useReadAgain, type Followed } from '../app/queries'
import { Button, Card, Checkboxes, Choice, Dialog, Empty, Field, Meter, Problem, RequestForm, s, TextForm } from '../ui'
import { Badge, type Tone } from '../ui/status'
import { Ago } from '../ui/time'
import { ArtifactLinks } from './artifactParts'
import { SEVERITY } from './decision'
import { FilteredList } from './filteredList'
import { AgentLink, ProjectHead, useProject } from './projectFrame'
import c from './screens.module.css'
import { Entry } from './split'

const CATEGORIES: Record<CoherenceCategory, string> = {
  contradiction: 'contradiction',
  duplication: 'duplication',
  gap: 'gap',
  dependency_violation: 'dependency',
}

const STATES: Record<CoherenceStatus['state'], { tone: Tone; label: string }> = {
  open: { tone: 'warn', label: 'open' },
  confirmed: { tone: 'bad', label: 'confirmed' },
  dismissed: { tone: 'plain', label: 'dismissed' },
  resolved: { tone: 'good', label: 'resolved' },
}

const SEVERITIES: readonly Severity[] = ['critical', 'high', 'medium', 'low', 'warning']

const RULES: Record<StructuralCheck, string> = {
  file_conflict: 'two agents reported the same file',
  concurrent_versions: 'two agents wrote versions of one artifact at the same time',
  duplicate_artifact: 'artifacts of different workstreams have the same content',
  dependency_violation: 'an artifact is derived from one that its agent may not read',
  decision_conflict: 'two agents recommend different options for one artifact',
}

const TRENDS: Record<CoherenceReport['trend'], { tone: Tone; label: string }> = {
  improving: { tone: 'good', label: '↑ improving' },
  stable: { tone: 'plain', label: '→ stable' },
  declining: { tone: 'bad', label: '↓ declining' },
}

/** The coherence score and issues of a project. An issue names work of its agents that does not fit together. */
export function CoherenceScreen() {
  const { id } = useParams({ from: '/shell/projects/$id/coherence' })
  return <Coherence key={id} id={id} />
}

function Coherence({ id }: { id: string }) {
  const { live, project, agents } = useProject(id)
  const { issue: chosen, ...filters } = useSearch({ from: '/shell/projects/$id/coherence' })
  const navigate = useNavigate({ from: '/projects/$id/coherence' })
  const followed = useReadAgain(['coherence', id], live.changes?.issues)
  const pages = usePages(
    ['coherence', id, 'list', filters],
    (cursor) =>
      data(api.GET('/api/coherence', { params: { query: { projectId: id, limit: 100, cursor, ...filters } as never } })),
    followed,
  )
  const open = (issue: string | undefined) => {
    void navigate({ search: (now) => ({ ...now, issue }) })
  }
  if (project.isLoadingError) return <Problem error={project.error} />
  const workstreams = project.data?.workstreams ?? []
  const known = agents.data?.items ?? []
  return (
    <div className={s.stack}>
      <ProjectHead id={id} title={`Coherence of ${project.data?.name ?? '…'}`} />
      <FilteredList
        head={<Score id={id} project={project.data} followed={followed} onReported={open} />}
        filters={[
          {
            name: 'state',
            label: 'State',
            any: 'All states',
            options: Object.entries(STATES).map(([state, { label }]) => [state, label]),
          },
          {
            name: 'severity',
            label: 'Severity',
            any: 'All severities',
            options: SEVERITIES.map((severity) => [severity, severity]),
          },
          { name: 'category', label: 'Category', any: 'All categories', options: Object.entries(CATEGORIES) },
          { name: 'workstream', label: 'Workstream', any: 'All workstreams', options: workstreams.map(({ id, name }) => [id, name]) },
        ]}
        values={filters}
        onFilter={(name, value) => {
          void navigate({ search: (now) => ({ ...now, [name]: value, issue: undefined }), replace: true })
        }}
        pages={pages}
        ids={pages.items.map(({ id }) => id)}
        chosen={chosen}
        onChoose={open}
        back="All issues"
        empty={{ all: 'No coherence issue has been found yet.', filtered: 'No issue matches the filters.' }}
        list={(selected) => (
          <ul className={c.list} aria-label="Issues">
            {pages.items.map(({ id, title, severity, category, status, detectedAt }) => (
              <li key={id}>
                <Entry
                  severity={severity}
                  isSelected={id === selected}
                  onOpen={() => {
                    open(id)
                  }}
                >
                  <span className={s.row}>
                    <Badge tone={STATES[status.state].tone}>{STATES[status.state].label}</Badge>
                    <Badge tone={SEVERITY[severity]}>{severity}</Badge>
                  </span>
                  <span className={c.clip}>{title}</span>
                  <small className={s.muted}>
                    {CATEGORIES[category]}, <Ago at={detectedAt} />
                  </small>
                </Entry>
              </li>
            ))}
          </ul>
        )}
        details={(selected) => <Detail key={selected} id={selected} projectId={id} agents={known} />}
      />
    </div>
  )
}

function auditText(audit: CoherenceAudit): string {
  const { comparedArtifacts, skippedArtifacts, isTooLarge, similarPairs, raisedIssues } = audit
  if (isTooLarge) return 'The project has more than 500 artifacts, so nothing was compared.'
  const words = audit.fallback == null ? '' : ' by their words, because the embedding model gave no answer'
  const engine = audit.engine === 'embeddings' ? ' by embeddings' : words
  const compared = `${String(comparedArtifacts)} artifacts compared${engine}, ${String(skippedArtifacts)} without text.`
  const found = `Similar pairs: ${String(similarPairs)}, new issues: ${String(raisedIssues)}.`
  return `${compared} ${found} Comparing texts does not find contradictions and gaps.`
}

function Score({
  id,
  project,
  followed,
  onReported,
}: {
  id: string
  project: ProjectView | undefined
  followed: Followed
  onReported: (issue: string) => void
}) {
  const client = useQueryClient()
  const [isReporting, setReporting] = useState(false)
  const report = useQuery({
    queryKey: ['coherence', id, 'score'],
    queryFn: () => data(api.GET('/api/projects/{id}/coherence', { params: { path: { id } } })),
    ...followed,
  })
  const audit = useMutation({
    mutationFn: () => data(api.POST('/api/coherence/audit', { body: { projectId: id } })),
    onSettled: () => client.invalidateQueries({ queryKey: ['coherence', id] }),
  })
  const compare = () => {
    audit.mutate()
  }
  const write = () => {
    setReporting(true)
  }
  useActions([
    { label: 'Compare all texts', run: compare },
    { label: 'Report an issue', run: write },
  ])
  const { score = 100, scoreBefore = 100, trend = 'stable', openIssues } = report.data ?? {}
  const counts = SEVERITIES.flatMap((severity) => {
    const count = openIssues?.[severity] ?? 0
    return count > 0 ? [`${String(count)} ${severity}`] : []
  })
  return (
    <Card
      title="Score"
      aside={
        <span className={s.row}>
          <Button
            disabled={audit.isPending}
            onClick={compare}
          >
            {audit.isPending ? 'Comparing …' : 'Compare all texts'}
          </Button>
          <Button
            disabled={project === undefined}
            onClick={write}
          >
            Report an issue
          </Button>
        </span>
      }
    >
      <div className={s.stack}>
        {report.isError && <Problem error={report.error} />}
        <p className={s.row} style={{ visibility: report.data === undefined ? 'hidden' : undefined }}>
          <strong className={c.score}>{score}</strong> <span className={s.muted}>of 100</span>
          <Badge tone={TRENDS[trend].tone}>{TRENDS[trend].label}</Badge>
          <span className={s.muted}>
            ten ticks ago: {scoreBefore}. {counts.length === 0 ? 'No open issues.' : `Open: ${counts.join(', ')}.`}
          </span>
        </p>
        <Meter percent={score} warnAt={101} label="Coherence score" />
        {audit.isError && <Problem error={audit.error} />}
        <p role="status" className={s.muted}>
          {audit.data !== undefined && auditText(audit.data)}
        </p>
      </div>
      {isReporting && project !== undefined && (
        <Report
          project={project}
          onReported={onReported}
          onClose={() => {
            setReporting(false)
          }}
        />
      )}
    </Card>
  )
}

function Report({
  project,
  onReported,
  onClose,
}: {
  project: ProjectView
  onReported: (issue: string) => void
  onClose: () => void
}) {
  const client = useQueryClient()
  const [title, setTitle] = useState('')
  const [description, setDescription] = useState('')
  const [category, setCategory] = useState<string>('contradiction')
  const [severity, setSeverity] = useState<string>('medium')
  const [affectedWorkstreams, setWorkstreams] = useState<string[]>([])
  const [affectedArtifactIds, setArtifacts] = useState<string[]>([])
  const artifacts = useQuery({
    queryKey: ['artifacts', project.id, 'latest'],
    queryFn: () => data(api.GET('/api/artifacts', { params: { query: { projectId: project.id, limit: 100 } as never } })),
  })
  const key = useRequestKey()
  const report = useMutation({
    mutationFn: () => {
      const body = { projectId: project.id, title, description, category, severity, affectedWorkstreams, affectedArtifactIds }
      return data(api.POST('/api/coherence', { params: { header: key.header(body) }, body: body as never }))
    },
    onSuccess: async ({ id }) => {
      key.renew()
      await client.invalidateQueries({ queryKey: ['coherence', project.id] })
      onClose()
      onReported(id)
    },
  })
  return (
    <Dialog title="Report an issue" isOpen onClose={onClose}>
      <RequestForm request={report}>
        <Field label="Title">
          <input
            className={s.input}
            required
            value={title}
            onChange={({ target }) => {
              setTitle(target.value)
            }}
          />
        </Field>
        <Field label="Description">
          <textarea
            className={s.input}
            rows={3}
            required
            value={description}
            onChange={({ target }) => {
              setDescription(target.value)
            }}
          />
        </Field>
        <div className={s.row}>
          <Choice
            label="Category"
            hasLabel
            options={Object.entries(CATEGORIES)}
            value={category}
            onChange={setCategory}
          />
          <Choice
            label="Severity"
            hasLabel
            options={SEVERITIES.map((severity) => [severity, severity])}
            value={severity}
            onChange={setSeverity}
          />
        </div>
        {(artifacts.data?.items.length ?? 0) > 0 && (
          <Checkboxes
            legend="Artifacts (the trust of their agents falls by 2)"
            options={(artifacts.data?.items ?? []).map(({ id, name, workstream }) => [id, `${name} (${workstream})`])}
            checked={affectedArtifactIds}
            onChange={setArtifacts}
          />
        )}
        {project.workstreams.length > 0 && (
          <Checkboxes
            legend="Further workstreams"
            options={project.workstreams.map(({ id, name }) => [id, name])}
            checked={affectedWorkstreams}
            onChange={setWorkstreams}
          />
        )}
        <div className={s.dialogFoot}>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={report.isPending}>
            Report
          </Button>
        </div>
      </RequestForm>
    </Dialog>
  )
}

function Source({ source, agents }: { source: IssueSource; agents: readonly AgentView[] }) {
  switch (source.type) {
    case 'structural':
      return <>A rule found it: {RULES[source.check]}.</>
    case 'similarity':
      return source.engine === 'embeddings' ? (
        <>An embedding model found it: the texts are {source.percent} % similar.</>
      ) : (
        <>A comparison of texts found it: they are {source.percent} % similar.</>
      )
    case 'alignment':
      return (
        <>
          A comparison with decision {source.decisionId} found it: the texts are {source.percent} % similar.
        </>
      )
    case 'agent':
      return (
        <>
          The agent <AgentLink agents={agents} id={source.agentId} sessionId={source.sessionId} /> flagged it.
        </>
      )
    case 'person':
      return <>{source.id} reported it.</>
  }
}

function Status({ status }: { status: CoherenceStatus }) {
  switch (status.state) {
    case 'open':
      return <>Nobody has reviewed it yet.</>
    case 'confirmed':
      return (
        <>
          {status.by} confirmed that it is real <Ago at={status.at} />.
        </>
      )
    case 'dismissed':
      return (
        <>
          {status.by ?? 'The model'} dismissed it <Ago at={status.at} />
          {status.reason == null ? '.' : <>: <q>{status.reason}</q></>}
        </>
      )
    case 'resolved':
      return (
        <>
          {status.by} resolved it <Ago at={status.at} />: <q>{status.resolution}</q>
        </>
      )
  }
}

const FAILURES: Record<ReviewFailure, string> = {
  unavailable: 'the model could not be reached',
  invalid_answer: 'the model gave no valid answer',
  spending_cap: 'the spending cap of the project is reached',
}

/** The review by a model. */
function Review({ review }: { review: IssueReview }) {
  switch (review.state) {
    case 'requested':
      return (
        <>
          A review was requested <Ago at={review.at} />.
        </>
      )
    case 'failed':
      return <>There is no review: {FAILURES[review.failure]}. An audit requests another one.</>
    case 'confirmed':
      return (
        <>
          {review.model} confirmed it <Ago at={review.at} />: {review.explanation}
          {review.suggestedResolution != null && <p>Suggested: {review.suggestedResolution}</p>}
        </>
      )
    case 'false_positive':
      return (
        <>
          {review.model} found no issue <Ago at={review.at} />: {review.explanation}
        </>
      )
  }
}

function Detail({ id, projectId, agents }: { id: string; projectId: string; agents: readonly AgentView[] }) {
  const issue = useQuery({
    queryKey: ['coherence', projectId, 'issue', id],
    queryFn: () => data(api.GET('/api/coherence/{id}', { params: { path: { id } } })),
  })
  if (issue.isError) return <Problem error={issue.error} />
  if (issue.data === undefined) return <Empty>Loading …</Empty>
  const { title, description, severity, category, status, review, source, detectedAt, detectedTick } = issue.data
  const { affectedWorkstreams, affectedArtifactIds, affectedAgentIds } = issue.data
  return (
    <Card
      title={title}
      aside={
        <span className={s.row}>
          <Badge tone={STATES[status.state].tone}>{STATES[status.state].label}</Badge>
          <Badge tone={SEVERITY[severity]}>{severity}</Badge>
          <Badge>{CATEGORIES[category]}</Badge>
        </span>
      }
    >
      <div className={s.stack}>
        <p style={{ whiteSpace: 'pre-wrap' }}>{description}</p>
        <dl className={s.facts}>
          <dt>Source</dt>
          <dd>
            <Source source={source} agents={agents} />
          </dd>
          <dt>Found</dt>
          <dd>
            <Ago at={detectedAt} />, in tick {detectedTick}
          </dd>
          <dt>Workstreams</dt>
          <dd className={s.row}>
            {affectedWorkstreams.length === 0 && 'none'}
            {affectedWorkstreams.map((workstream) => (
              <Link key={workstream} to="/projects/$id/artifacts" params={{ id: projectId }} search={{ workstream }}>
                {workstream}
              </Link>
            ))}
          </dd>
          <dt>Artifacts</dt>
          <dd>
            {affectedArtifactIds.length === 0 && 'none'}
            <ArtifactLinks projectId={projectId} ids={affectedArtifactIds} />
          </dd>
          <dt>Agents</dt>
          <dd className={s.row}>
            {affectedAgentIds.length === 0 && 'none'}
            {affectedAgentIds.map((agentId) => (
              <AgentLink key={agentId} agents={agents} id={agentId} />
            ))}
          </dd>
          <dt>State</dt>
          <dd>
            <Status status={status} />
          </dd>
          {review != null && (
            <>
              <dt>Review</dt>
              <dd>
                <Review review={review} />
              </dd>
            </>
          )}
        </dl>
        <Settle issue={issue.data} />
      </div>
    </Card>
  )
}

type Settlement = { as: 'confirm' } | { as: 'dismiss' | 'resolve'; text: string }

/** Confirms, dismisses or resolves an issue. */
function Settle({ issue }: { issue: CoherenceIssueView }) {
  const client = useQueryClient()
  const [writing, setWriting] = useState<'dismiss' | 'resolve'>()
  const settle = useMutation({
    mutationFn: (settlement: Settlement) => {
      const params = { path: { id: issue.id } }
      switch (settlement.as) {
        case 'confirm':
          return data(api.POST('/api/coherence/{id}/confirm', { params }))
        case 'dismiss': {
          const reason = settlement.text === '' ? undefined : settlement.text
          return data(api.POST('/api/coherence/{id}/dismiss', { params, body: { reason } }))
        }
        case 'resolve':
          return data(api.POST('/api/coherence/{id}/resolve', { params, body: { resolution: settlement.text } }))
      }
    },
    onSuccess: () => {
      setWriting(undefined)
    },
    onSettled: () => client.invalidateQueries({ queryKey: ['coherence', issue.projectId] }),
  })
  const { state } = issue.status
  const isOpen = state === 'open' || state === 'confirmed'
  const confirm = () => {
    settle.mutate({ as: 'confirm' })
  }
  const actions = [
    { can: state === 'open', label: 'Confirm the issue', run: confirm },
    { can: isOpen, label: 'Resolve the issue', run: () => { setWriting('resolve') } },
    { can: state === 'open', label: 'Dismiss the issue', run: () => { setWriting('dismiss') } },
  ]
  useActions(actions.filter(({ can }) => can && !settle.isPending))
  return (
    <div className={s.stack}>
      {settle.isError && <Problem error={settle.error} />}
      {writing !== undefined && (
        <TextForm
          key={writing}
          label={writing === 'resolve' ? 'How do the parts fit together now? (required)' : 'Why is it not real? (optional)'}
          submit={writing === 'resolve' ? 'Resolve' : 'Dismiss'}
          isRequired={writing === 'resolve'}
          onSubmit={(text) => {
            settle.mutate({ as: writing, text })
          }}
          onCancel={() => {
            setWriting(undefined)
          }}
        />
      )}
      {writing === undefined && isOpen && (
        <div className={s.row}>
          {state === 'open' && (
            <Button
              disabled={settle.isPending}
              onClick={confirm}
            >
              Confirm: it is real
            </Button>
          )}
          <Button
            look="primary"
            disabled={settle.isPending}
            onClick={() => {
              setWriting('resolve')
            }}
          >
            Resolve …
          </Button>
          {state === 'open' && (
            <Button
              look="danger"
              disabled={settle.isPending}
              onClick={() => {
                setWriting('dismiss')
              }}
            >
              Dismiss …
            </Button>
          )}
        </div>
      )}
    </div>
  )
}
