import { useMutation } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import * as Tabs from '@radix-ui/react-tabs'
import { useRef, useState } from 'react'
import type { SessionView } from '../api/types'
import { useActions } from '../app/keyboard'
import { inbox } from '../live/inbox'
import { useSessionFollower, type LiveSession, type SessionFollower } from '../live/session'
import { useStore } from '../live/store'
import { ActionButton, Button, Card, Dialog, Empty, Meter, Problem, s, showProblem } from '../ui'
import { dollars } from '../ui/money'
import { Ago, Clock } from '../ui/time'
import { toast } from '../ui/toasts'
import { Chain, POLICY } from './chain'
import { Deliverables } from './deliverables'
import { Logs } from './logs'
import { Composer, Queue } from './messages'
import { Conversation, ToolCalls } from './records'
import { DecisionCard } from './decision'
import { BudgetEditor } from './budget'
import { Blocked, StateBadges } from './sessionState'
import { SessionSkills } from './sessionSkills'
import { Timeline } from './timeline'
import { useControlHistory } from './control'
import { UsageTable, usageByModel } from './usage'
import { LIFECYCLE, possibleRequests, request, type Lifecycle } from './lifecycle'
import c from './screens.module.css'

const KEYS: Partial<Record<Lifecycle, string>> = { pause: 'p', resume: 'p', interrupt: 'i' }

export function SessionScreen() {
  const { id } = useParams({ from: '/shell/sessions/$id' })
  return <Followed key={id} id={id} />
}

function Followed({ id }: { id: string }) {
  const follower = useSessionFollower(id)
  const live = useStore(follower.state)
  if (live.session === undefined) {
    return live.error === undefined ? <Empty>Loading …</Empty> : <Problem error={live.error} />
  }
  return <Session follower={follower} live={live} session={live.session} />
}

function Session({ follower, live, session }: { follower: SessionFollower; live: LiveSession; session: SessionView }) {
  const { id } = session
  const { open } = useStore(inbox)
  const decisions = open.filter(({ sessionId }) => sessionId === id)
  const composer = useRef<HTMLTextAreaElement>(null)
  const [isCancelling, setCancelling] = useState(false)
  const lifecycle = useMutation({
    mutationFn: (action: Lifecycle) => request(action, id),
    onSuccess: (session) => {
      follower.take(session)
    },
    onError: showProblem,
  })
  const actions = possibleRequests(session)
  const act = (action: Lifecycle) => {
    if (action === 'cancel') setCancelling(true)
    else if (!lifecycle.isPending) lifecycle.mutate(action)
  }
  useActions([
    { label: 'Write to the agent', key: 's', run: () => composer.current?.focus() },
    ...actions.map((action) => {
      const key = KEYS[action]
      return {
        label: `${LIFECYCLE[action]} ${session.name}`,
        ...(key === undefined ? {} : { key }),
        run: () => {
          act(action)
        },
      }
    }),
  ])
  return (
    <div className={s.stack}>
      <div className={c.head} style={{ marginBottom: 0 }}>
        <span className={s.row}>
          <h1>{session.name}</h1>
          <StateBadges session={session} />
        </span>
        <span className={s.row}>
          {actions.map((action) => (
            <Button
              key={action}
              look={action === 'cancel' ? 'danger' : undefined}
              disabled={lifecycle.isPending}
              onClick={() => {
                act(action)
              }}
            >
              {LIFECYCLE[action]}
            </Button>
          ))}
        </span>
      </div>
      <Blocked session={session} />
      <ControlState live={live} session={session} />
      <div className={c.sessionScreen}>
        <div className={c.aside}>
          {decisions.map((decision) => (
            <DecisionCard key={decision.id} decision={decision} hasLink={false} />
          ))}
          <Tabs.Root defaultValue="timeline">
            <Tabs.List className={s.tabs} aria-label="Views of the session">
              {[
                ['timeline', 'Timeline'],
                ['conversation', 'Conversation'],
                ['tools', 'Tool calls'],
                ['deliverables', 'Deliverables'],
                ['logs', 'Logs'],
                ['about', 'About'],
              ].map(([value, label]) => (
                <Tabs.Trigger key={value} value={value ?? ''} className={s.tab}>
                  {label}
                </Tabs.Trigger>
              ))}
            </Tabs.List>
            <Tabs.Content value="timeline" style={{ paddingTop: '0.7rem' }}>
              <Timeline follower={follower} live={live} />
            </Tabs.Content>
            <Tabs.Content value="conversation" style={{ paddingTop: '0.7rem' }}>
              <Conversation id={id} changes={live.changes.records} />
            </Tabs.Content>
            <Tabs.Content value="tools" style={{ paddingTop: '0.7rem' }}>
              <ToolCalls id={id} changes={live.changes.records} />
            </Tabs.Content>
            <Tabs.Content value="deliverables" style={{ paddingTop: '0.7rem' }}>
              <Deliverables session={session} changes={live.isCaughtUp ? live.changes.records : undefined} />
            </Tabs.Content>
            <Tabs.Content value="logs" style={{ paddingTop: '0.7rem' }}>
              <Logs follower={follower} isCaughtUp={live.isCaughtUp} />
            </Tabs.Content>
            <Tabs.Content value="about" style={{ paddingTop: '0.7rem' }}>
              <About session={session} />
            </Tabs.Content>
          </Tabs.Root>
          <Composer session={session} input={composer} />
        </div>
        <div className={c.aside}>
          <Money session={session} follower={follower} />
          <Tasks session={session} />
          <Queue id={id} changes={live.isCaughtUp ? live.changes.queue : undefined} />
          <Chain session={session} />
          <SessionSkills follower={follower} live={live} session={session} />
        </div>
      </div>
      {isCancelling && (
        <Dialog
          title={`Cancel ${session.name}?`}
          description="Its work ends, and cannot be resumed."
          isOpen
          onClose={() => {
            setCancelling(false)
          }}
        >
          <div className={s.dialogFoot}>
            <Button
              onClick={() => {
                setCancelling(false)
              }}
            >
              Keep it
            </Button>
            <ActionButton
              look="stop"
              action={async () => {
                follower.take(await request('cancel', id))
              }}
              done={() => {
                setCancelling(false)
                toast('The cancellation is requested.')
              }}
            >
              Cancel the session
            </ActionButton>
          </div>
        </Dialog>
      )}
    </div>
  )
}

/** The objective, and the steps of the last request to the agent with their times. */
function ControlState({ live, session }: { live: LiveSession; session: SessionView }) {
  const steps = useControlHistory(session.id, live.activity)
  return (
    <p className={c.control} role="status" aria-label="Control state">
      <span>{session.objective}</span>
      {steps.map(({ text, state, at }) => (
        <span key={`${at} ${state} ${text}`}>
          {text}: <strong>{state}</strong> <Clock at={at} />
        </span>
      ))}
    </p>
  )
}

function Money({ session, follower }: { session: SessionView; follower: SessionFollower }) {
  const { budget, metrics } = session
  const [isEditing, setEditing] = useState(false)
  const { contextWindow } = metrics
  const usage = usageByModel([metrics])
  const edit = () => {
    setEditing(true)
  }
  useActions([{ label: 'Change the cap of the session', run: edit }])
  return (
    <Card
      title="Money"
      aside={
        <Button
          look="quiet"
          onClick={edit}
        >
          Change cap
        </Button>
      }
    >
      <div className={s.stack}>
        <div>
          <p>
            <strong>{dollars(budget.estimatedCostUsd)}</strong> of {dollars(budget.hardCapUsd)}{' '}
            <span className={s.muted}>({budget.percentUsed} %)</span>
          </p>
          <Meter percent={Number(budget.percentUsed)} warnAt={budget.warnAtPercent} label="Budget" />
        </div>
        {contextWindow != null && (
          <div>
            <p>
              Context window <strong>{contextWindow.usagePercent} %</strong>{' '}
              <span className={s.muted}>
                of {contextWindow.modelContextLimit.toLocaleString()} tokens
              </span>
            </p>
            <Meter percent={Number(contextWindow.usagePercent)} label="Context window" />
          </div>
        )}
        {usage.models.length > 0 && <UsageTable usage={usage} />}
        <dl className={s.facts}>
          <dt>Turns</dt>
          <dd className={s.number}>{metrics.turnCount}</dd>
        </dl>
      </div>
      {isEditing && (
        <BudgetEditor
          session={session}
          onClose={() => {
            setEditing(false)
          }}
          onChanged={(session) => {
            follower.take(session)
          }}
        />
      )}
    </Card>
  )
}

const TASK = { Pending: '○', InProgress: '◐', Completed: '●' }

function Tasks({ session }: { session: SessionView }) {
  const tasks = session.sessionTaskList?.tasks ?? []
  if (tasks.length === 0) return null
  const done = tasks.filter(({ status }) => status === 'Completed').length
  return (
    <Card title={`Tasks (${String(done)} of ${String(tasks.length)})`}>
      <ul className={c.list}>
        {tasks.map(({ id, subject, status, activeForm }) => (
          <li key={id} className={s.row}>
            <span aria-hidden="true">{TASK[status]}</span>
            <span className={s.visuallyHidden}>{status}: </span>
            <span className={status === 'Completed' ? s.muted : undefined}>
              {status === 'InProgress' ? (activeForm ?? subject) : subject}
            </span>
          </li>
        ))}
      </ul>
    </Card>
  )
}

function About({ session }: { session: SessionView }) {
  const facts: [string, React.ReactNode][] = [
    ['Objective', session.objective],
    ['Directory', <code key="d">{session.workingDirectory}</code>],
    ['Agent', session.adapter],
    ['Model', session.agentSettings.modelId],
    ['When the context is full', POLICY[session.contextPolicy]],
    ['Started', session.startedAt == null ? 'not yet' : <Ago key="s" at={session.startedAt} />],
    ['Created', <Ago key="c" at={session.createdAt} />],
    ['Retries', `${String(session.retryCount)} of ${String(session.maxRetries)}`],
    ['Id', <code key="i">{session.id}</code>],
  ]
  if (session.failureReason != null) {
    facts.unshift(['Failure', `${session.failureReason.reason}: ${session.failureReason.message ?? ''}`])
  }
  if (session.output != null) {
    const { filesChanged, testsAdded, allTestsPassing } = session.output
    facts.push([
      'Output',
      `${String(filesChanged)} files changed, ${String(testsAdded)} tests added, ${allTestsPassing ? 'all tests pass' : 'not all tests pass'}`,
    ])
  }
  if (session.sessionPlan?.content != null) facts.push(['Plan', `${session.sessionPlan.status}: ${session.sessionPlan.content}`])
  return (
    <Card>
      <dl className={s.facts}>
        {facts.map(([name, value]) => (
          <div key={name} style={{ display: 'contents' }}>
            <dt>{name}</dt>
            <dd style={{ whiteSpace: 'pre-wrap' }}>{value}</dd>
          </div>
        ))}
      </dl>
    </Card>
  )
}
