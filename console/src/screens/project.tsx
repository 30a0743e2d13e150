import { useInfiniteQuery, useMutation, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { api, data, etag } from '../api/client'
import type { AgentEvent, AgentView, LoggedDecisionView, ProjectView, RoutedEvent, TrustChange } from '../api/types'
import { BrakeDialog } from '../app/brake'
import { useActions } from '../app/keyboard'
import { usePages, useReadAgain } from '../app/queries'
import { inbox } from '../live/inbox'
import { useStore } from '../live/store'
import { ActionButton, Button, Card, Dialog, Empty, Meter, More, Problem, s } from '../ui'
import { dollars, share } from '../ui/money'
import { Badge, StatusBadge } from '../ui/status'
import { Ago, Clock } from '../ui/time'
import { BriefingCard, DECISION_LOG, decisionElement, GOALS } from './briefing'
import { DecisionCard, KIND } from './decision'
import { ProjectHead, useProject } from './projectFrame'
import c from './screens.module.css'

const MODES = {
  orchestrator: 'You approve every change',
  adaptive: 'Trivial actions without you, more as trust grows',
  ecosystem: 'Everything but deletions, deployments and unclear actions',
} as const
type Mode = keyof typeof MODES

export function ProjectScreen() {
  const { id } = useParams({ from: '/shell/projects/$id' })
  return <Project key={id} id={id} />
}

function Project({ id }: { id: string }) {
  const { live, project, agents } = useProject(id)
  const log = live.changes?.log
  useReadAgain(['trust'], log)
  const { open } = useStore(inbox)
  const [isBraking, setBraking] = useState(false)
  const navigate = useNavigate()
  useActions([
    { label: 'New agent', run: () => void navigate({ to: '/projects/$id/brief', params: { id } }) },
    {
      label: 'Stop all agents of the project',
      run: () => {
        setBraking(true)
      },
    },
  ])
  if (project.isLoadingError) return <Problem error={project.error} />
  if (project.data === undefined) return <Empty>Loading …</Empty>
  const { name, description, goals, constraints, workstreams, spending, spendingCap } = project.data
  const decisions = open.filter(
    (decision) => (decision.kind === 'coherence_review' ? decision.projectId : decision.project?.projectId) === id,
  )
  return (
    <div className={s.stack}>
      <ProjectHead id={id} title={name}>
        <Button
          look="stop"
          onClick={() => {
            setBraking(true)
          }}
        >
          Stop all agents of {name}
        </Button>
      </ProjectHead>
      {description != null && <p>{description}</p>}
      <div className={c.columns}>
        <ControlMode project={project.data} />
        <div id={GOALS}>
          <Card title="Goals and rules">
            <ul>
              {goals.map((goal) => (
                <li key={goal}>{goal}</li>
              ))}
              {constraints.map((rule) => (
                <li key={rule} className={s.muted}>
                  Rule: {rule}
                </li>
              ))}
            </ul>
            {spendingCap != null && spending != null && (
              <>
                <p>
                  <strong>{dollars(spending.drawnUsd)}</strong> of {dollars(spendingCap.usd)} drawn
                </p>
                <Meter
                  percent={share(spending.drawnUsd, spendingCap.usd)}
                  warnAt={spendingCap.warnAtPercent}
                  label="Spending cap"
                />
              </>
            )}
          </Card>
        </div>
      </div>
      <BriefingCard projectId={id} open={new Set(decisions.map((decision) => decision.id))} />
      {decisions.length > 0 && <h2>Waiting for you ({decisions.length})</h2>}
      <div className={c.columns}>
        {decisions.map((decision) => (
          <div key={decision.id} id={decisionElement(decision.id)}>
            <DecisionCard decision={decision} />
          </div>
        ))}
      </div>
      <Card
        title="Agents"
        aside={
          <Link to="/projects/$id/brief" params={{ id }} className={s.button}>
            New agent
          </Link>
        }
      >
        {agents.isError && <Problem error={agents.error} />}
        {agents.data?.items.length === 0 && <Empty>No agent yet.</Empty>}
        <ul className={s.stack}>
          {agents.data?.items.map((agent) => (
            <Agent
              key={agent.id}
              agent={agent}
              trust={live.trust[agent.id]}
              workstream={workstreams.find(({ id }) => id === agent.brief.workstream)?.name}
            />
          ))}
        </ul>
      </Card>
      <LiveEvents events={live.events} agents={agents.data?.items ?? []} />
      <div id={DECISION_LOG}>
        <DecisionLog id={id} changes={log} agents={agents.data?.items ?? []} />
      </div>
      {isBraking && (
        <BrakeDialog
          title={`Stop all agents of ${name}`}
          scope={{ type: 'project', projectId: id }}
          onClose={() => {
            setBraking(false)
          }}
        />
      )}
    </div>
  )
}

function ControlMode({ project }: { project: ProjectView }) {
  const client = useQueryClient()
  const read = () => client.invalidateQueries({ queryKey: ['project', project.id] })
  const change = useMutation({
    mutationFn: (mode: Mode) =>
      api.PUT('/api/control-mode', {
        params: { header: { 'If-Match': etag(project.revision) } as never },
        body: { projectId: project.id, mode } as never,
      }),
    onSettled: read,
  })
  useActions(
    (Object.keys(MODES) as Mode[])
      .filter((mode) => mode !== project.controlMode)
      .map((mode) => ({
        label: `Control mode: ${mode}`,
        run: () => {
          change.mutate(mode)
        },
      })),
  )
  return (
    <Card title="Control mode">
      {change.isError && <Problem error={change.error} />}
      <fieldset className={s.stack}>
        <legend className={s.visuallyHidden}>Control mode</legend>
        {(Object.keys(MODES) as Mode[]).map((name) => (
          <div key={name} className={s.row} style={{ flexWrap: 'nowrap', alignItems: 'start' }}>
            <input
              type="radio"
              name="mode"
              id={`mode-${name}`}
              checked={project.controlMode === name}
              disabled={change.isPending}
              onChange={() => {
                change.mutate(name)
              }}
            />
            <label htmlFor={`mode-${name}`}>
              <strong>{name}</strong>
              <br />
              <span className={s.muted}>{MODES[name]}</span>
            </label>
          </div>
        ))}
      </fieldset>
    </Card>
  )
}

function Agent({
  agent,
  trust,
  workstream,
}: {
  agent: AgentView
  trust: number | undefined
  workstream: string | undefined
}) {
  const [hasTrust, setTrust] = useState(false)
  const client = useQueryClient()
  const reload = () => void client.invalidateQueries({ queryKey: ['agents', agent.projectId] })
  const params = { path: { id: agent.id } }
  return (
    <li className={c.bubble}>
      <div className={s.cardHead}>
        <span className={s.row}>
          <Link to="/sessions/$id" params={{ id: agent.sessionId }}>
            <strong>{agent.brief.role}</strong>
          </Link>
          <StatusBadge status={agent.sessionStatus} />
          {agent.pendingDecisions > 0 && <Badge tone="warn">{agent.pendingDecisions} to decide</Badge>}
          {agent.briefSync === 'pending' && <Badge tone="info">new brief waits for a reload</Badge>}
        </span>
        <span className={s.row}>
          {agent.briefSync === 'pending' && (
            <ActionButton
              action={() => api.POST('/api/agents/sessions/{id}/reload', { params: { path: { id: agent.sessionId } } })}
              done={reload}
            >
              Reload
            </ActionButton>
          )}
          <Link to="/projects/$id/brief" params={{ id: agent.projectId }} search={{ agentId: agent.id }} className={s.button}>
            Brief
          </Link>
          <Button
            onClick={() => {
              setTrust(true)
            }}
          >
            Trust{trust !== undefined && ` ${String(trust)}`}
          </Button>
          {agent.status === 'paused' ? (
            <ActionButton action={() => api.POST('/api/agents/{id}/resume', { params })} done={reload}>
              Resume
            </ActionButton>
          ) : (
            <ActionButton
              disabled={agent.status === 'completed' || agent.status === 'error'}
              action={() => api.POST('/api/agents/{id}/pause', { params })}
              done={reload}
            >
              Pause
            </ActionButton>
          )}
        </span>
      </div>
      <p className={s.muted}>
        {agent.brief.description}
        {workstream !== undefined && `, workstream ${workstream}`}, spent {dollars(agent.spentUsd)}, changed{' '}
        <Ago at={agent.updatedAt} />
      </p>
      {hasTrust && (
        <Trust
          agent={agent}
          onClose={() => {
            setTrust(false)
          }}
        />
      )}
    </li>
  )
}

function Trust({ agent, onClose }: { agent: AgentView; onClose: () => void }) {
  const query = useInfiniteQuery({
    queryKey: ['trust', agent.id],
    queryFn: ({ pageParam: cursor }) =>
      data(api.GET('/api/trust/{id}', { params: { path: { id: agent.id }, query: { limit: 100, cursor } as never } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ history }) => history.nextCursor ?? undefined,
  })
  const trust = query.data?.pages[0]
  const changes = query.data?.pages.flatMap(({ history }) => history.items) ?? []
  return (
    <Dialog title={`Trust in ${agent.brief.role}`} isOpen onClose={onClose}>
      {query.isError && <Problem error={query.error} />}
      {trust !== undefined && (
        <div className={s.stack}>
          <p>
            <strong>{trust.score}</strong> <span className={s.muted}>of 100, profile {trust.profile}</span>
          </p>
          <Meter percent={trust.score} warnAt={101} label="Trust" />
          {changes.length === 0 && <p className={s.muted}>Nothing has changed it yet.</p>}
          {changes.length > 0 && <Trajectory changes={changes} />}
          <div className={s.scroll}>
            <table className={s.table}>
              <thead>
                <tr>
                  <th>When</th>
                  <th>What happened</th>
                  <th className={s.number}>Trust</th>
                  <th>Why</th>
                </tr>
              </thead>
              <tbody>
                {changes.map(({ causedBy, at, outcome, before, after, explanation }) => (
                  <tr key={`${causedBy} ${outcome}`}>
                    <td>
                      <Ago at={at} />
                    </td>
                    <td>{outcome.replaceAll('_', ' ')}</td>
                    <td className={s.number}>
                      {before} → {after}
                    </td>
                    <td>{explanation}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          <More
            pages={{ hasMore: query.hasNextPage, more: query.isFetching ? undefined : () => void query.fetchNextPage() }}
            text="Show earlier changes"
          />
        </div>
      )}
    </Dialog>
  )
}

/** The scores after each change, in order of time. The table below has the reasons. */
function Trajectory({ changes }: { changes: readonly TrustChange[] }) {
  const scores = [changes.at(-1)?.before ?? 0, ...changes.map(({ after }) => after).toReversed()]
  const points = scores.map((score, at) => `${String(at)},${String(100 - score)}`)
  return (
    <svg
      className={c.trajectory}
      viewBox={`0 0 ${String(changes.length)} 100`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`Trust from ${String(scores[0])} to ${String(scores.at(-1))} in ${String(changes.length)} changes; the table below has the reasons`}
    >
      <polyline points={points.join(' ')} />
    </svg>
  )
}

/** The text of an event, or `undefined` if another event has the same text. */
function eventText(event: AgentEvent): string | undefined {
  switch (event.type) {
    case 'status':
    case 'error':
      return event.message
    case 'decision':
      return `asks you: ${KIND[event.subtype].toLowerCase()}`
    case 'tool_call':
      return event.phase === 'completed' ? undefined : `${event.toolName ?? 'a tool'} ${event.phase}`
    case 'completion':
      return event.summary
    case 'delegation':
    case 'lifecycle':
      return `${event.action.replaceAll('_', ' ')}: ${event.reason}`
    case 'guardrail':
      return `${event.guardrailName}: ${event.message}`
    case 'progress':
      return event.progressPct === undefined ? event.description : `${event.description} (${String(event.progressPct)} %)`
    case 'artifact':
      return `reports ${event.name} (${event.status.replaceAll('_', ' ')})`
    case 'coherence':
      return `does not fit the work of others: ${event.title}`
    case 'raw_provider':
      return undefined
  }
}

/** The events that the server routed to the person while the page was open. */
function LiveEvents({ events, agents }: { events: readonly RoutedEvent[]; agents: AgentView[] }) {
  return (
    <Card title="Live events">
      {events.length === 0 && <p className={s.muted}>Activity of the agents appears here live.</p>}
      {/* A region with overflow must be reachable for the keyboard. */}
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <div className={c.briefing} role="log" aria-label="Live events" tabIndex={0}>
        {events.map(({ envelope: { sourceEventId, ingestedAt, agentId, event } }) => {
          const text = eventText(event)
          return text === undefined ? null : (
            <p key={sourceEventId} className={event.type === 'error' ? c.failed : undefined}>
              <Clock at={ingestedAt} /> <strong>{agents.find(({ id }) => id === agentId)?.brief.role}</strong> {text}
            </p>
          )
        })}
      </div>
    </Card>
  )
}

function logText(entry: LoggedDecisionView): { what: string; decided: string } {
  switch (entry.type) {
    case 'verdict':
      return {
        what: entry.tool,
        decided: `${{ allow: 'allowed', ask: 'asked a person', deny: 'denied' }[entry.verdict]} (${entry.mode})`,
      }
    case 'decision':
      return {
        what: entry.kind.replaceAll('_', ' '),
        decided: (entry.resolutionType ?? entry.state).replaceAll('_', ' '),
      }
    case 'timeout':
      return { what: entry.kind.replaceAll('_', ' '), decided: 'timed out' }
    case 'control_mode':
      return { what: 'control mode', decided: `${entry.from} → ${entry.to}` }
    case 'brake':
      return { what: 'brake', decided: `${entry.action.replaceAll('_', ' ')}: ${entry.reason}` }
    case 'knowledge':
      return {
        what: entry.access.replaceAll('_', ' ') + (entry.workstream == null ? '' : ` of ${entry.workstream}`),
        decided: entry.allowed ? 'allowed' : 'denied',
      }
    case 'guardrail': {
      const { name, action } = entry.guardrail
      const blocked = entry.subject === 'output' ? 'not allowed' : 'refused'
      const decided = { block: blocked, ask: 'asks for a review', warn: 'warned', log: 'logged' }[action]
      return { what: entry.subject, decided: `${decided}: guardrail ${name}` }
    }
    case 'trust':
      return {
        what: 'trust',
        decided: `${String(entry.change.before)} → ${String(entry.change.after)}, ${entry.change.outcome.replaceAll('_', ' ')}`,
      }
  }
}

function DecisionLog({ id, changes, agents }: { id: string; changes: number | undefined; agents: AgentView[] }) {
  const key = ['decision-log', id]
  const log = usePages(
    key,
    async (cursor) => {
      const params = { path: { id }, query: { limit: 50, cursor } as never }
      const page = await data(api.GET('/api/projects/{id}/decision-log', { params }))
      return { ...page, items: page.items.map((entry) => ({ ...entry, id: JSON.stringify(entry) })) }
    },
    useReadAgain(key, changes),
  )
  return (
    <Card title="Decision log">
      {log.error !== null && <Problem error={log.error} />}
      {log.isLoaded && log.items.length === 0 && <p className={s.muted}>No decisions yet.</p>}
      <div className={s.scroll}>
        <table className={s.table}>
          <thead>
            <tr>
              <th>When</th>
              <th>Agent</th>
              <th>What</th>
              <th>Decided</th>
            </tr>
          </thead>
          <tbody>
            {log.items.map((entry) => {
              const { what, decided } = logText(entry)
              return (
                <tr key={entry.id}>
                  <td>
                    <Ago at={entry.at} />
                  </td>
                  <td>{agents.find((agent) => agent.id === entry.agentId)?.brief.role ?? ''}</td>
                  <td>{what}</td>
                  <td>{decided}</td>
                </tr>
              )
            })}
          </tbody>
        </table>
      </div>
      <More pages={log} text="Show earlier decisions" />
    </Card>
  )
}
