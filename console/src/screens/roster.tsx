import { Link, useNavigate } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import { useDeferredValue, useEffect, useMemo, useRef, useState } from 'react'
import { api, messageOf } from '../api/client'
import type { AgentSessionStatus, SessionSummary } from '../api/types'
import { useKeys } from '../app/keyboard'
import { inbox } from '../live/inbox'
import { roster } from '../live/roster'
import { useStore } from '../live/store'
import { Button, Dialog, Empty, Meter, s } from '../ui'
import { dollars, share } from '../ui/money'
import { Badge, StatusBadge } from '../ui/status'
import { Ago } from '../ui/time'
import { isDecidable } from './decision'
import c from './screens.module.css'

type Group = 'needs' | 'working' | 'stopped' | 'queued' | 'done'

const GROUPS: Record<Group, string> = {
  needs: 'Needs you',
  working: 'Working',
  stopped: 'Paused or idle',
  queued: 'Queued',
  done: 'Done',
}
const ORDER = Object.keys(GROUPS) as Group[]

const OF_STATUS: Record<AgentSessionStatus, Group> = {
  Queued: 'queued',
  Running: 'working',
  Interrupting: 'working',
  Pausing: 'working',
  Resuming: 'working',
  Cancelling: 'working',
  Interrupted: 'stopped',
  Paused: 'stopped',
  Idle: 'stopped',
  WaitingForInput: 'needs',
  WaitingForApproval: 'needs',
  ContextExhausted: 'done',
  Cancelled: 'done',
  Completed: 'done',
  Failed: 'done',
}

const BULK = {
  pause: { label: 'Pause', from: ['Running', 'WaitingForInput', 'WaitingForApproval'] },
  resume: { label: 'Resume', from: ['Paused', 'Interrupted'] },
  cancel: {
    label: 'Cancel',
    from: ['Queued', 'Running', 'Paused', 'Interrupted', 'WaitingForInput', 'WaitingForApproval', 'Idle'],
  },
  retry: { label: 'Retry', from: ['Failed'] },
} as const satisfies Record<string, { label: string; from: readonly AgentSessionStatus[] }>
type Bulk = keyof typeof BULK

async function apply(action: Bulk, id: string): Promise<void> {
  const params = { path: { id } }
  switch (action) {
    case 'pause':
      await api.POST('/api/agents/sessions/{id}/pause', { params })
      break
    case 'resume':
      await api.POST('/api/agents/sessions/{id}/resume', { params })
      break
    case 'cancel':
      await api.POST('/api/agents/sessions/{id}/cancel', { params, body: {} as never })
      break
    case 'retry':
      await api.POST('/api/agents/sessions/{id}/retry', { params, body: {} as never })
  }
}

type Row = { kind: 'head'; group: Group; count: number } | { kind: 'session'; session: SessionSummary; waiting: number }

function fits(session: SessionSummary, text: string): boolean {
  const labels = Object.entries(session.labels).map(([name, value]) => `${name}=${value}`)
  return [session.name, session.id, ...labels].some((part) => part.toLowerCase().includes(text))
}

/** All sessions, by what they need. */
export function RosterScreen() {
  const { isLoaded, sessions } = useStore(roster)
  const { open } = useStore(inbox)
  const navigate = useNavigate()
  const [text, setText] = useState('')
  const [group, setGroup] = useState<Group | ''>('')
  const [bulk, setBulk] = useState<Bulk>()
  const [selected, setSelected] = useState<string>()
  const wanted = useDeferredValue(text.trim().toLowerCase())
  const { rows, shown } = useMemo(() => {
    const waiting = new Map<string, number>()
    for (const decision of open) {
      const { sessionId } = decision
      if (sessionId !== undefined && isDecidable(decision)) waiting.set(sessionId, (waiting.get(sessionId) ?? 0) + 1)
    }
    const groupOf = (session: SessionSummary): Group =>
      waiting.has(session.id) || session.hasPendingReview ? 'needs' : OF_STATUS[session.status]
    const shown = [...sessions.values()]
      .filter((session) => (group === '' || groupOf(session) === group) && (wanted === '' || fits(session, wanted)))
      .sort((a, b) => b.createdAt.localeCompare(a.createdAt) || b.id.localeCompare(a.id))
    const rows = ORDER.flatMap((name): Row[] => {
      const members = shown.filter((session) => groupOf(session) === name)
      if (members.length === 0) return []
      return [
        { kind: 'head', group: name, count: members.length },
        ...members.map((session): Row => ({ kind: 'session', session, waiting: waiting.get(session.id) ?? 0 })),
      ]
    })
    return { rows, shown }
  }, [sessions, open, group, wanted])
  const list = useRef<HTMLDivElement>(null)
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => list.current,
    estimateSize: (at) => (rows[at]?.kind === 'head' ? 36 : 58),
    getItemKey: (at) => {
      const row = rows[at]
      return row?.kind === 'session' ? row.session.id : (row?.group ?? at)
    },
    overscan: 8,
  })
  const order = rows.flatMap((row) => (row.kind === 'session' ? [row.session.id] : []))
  const move = (step: number) => {
    const at = selected === undefined ? -1 : order.indexOf(selected)
    const next = order[Math.min(Math.max(at + step, 0), order.length - 1)]
    if (next === undefined) return
    setSelected(next)
    virtual.scrollToIndex(rows.findIndex((row) => row.kind === 'session' && row.session.id === next))
  }
  useKeys({
    j: () => {
      move(1)
    },
    k: () => {
      move(-1)
    },
    Enter: () => {
      if (selected !== undefined) void navigate({ to: '/sessions/$id', params: { id: selected } })
    },
  })
  return (
    <div className={c.rosterScreen}>
      <div className={c.head}>
        <h1>Sessions</h1>
        <span className={s.muted} role="status">
          {isLoaded ? `${String(shown.length)} of ${String(sessions.size)}` : 'Loading …'}
        </span>
      </div>
      <div className={c.filters}>
        <label>
          <span className={s.visuallyHidden}>Search sessions</span>
          <input
            className={s.input}
            type="search"
            placeholder="Name, label or id"
            value={text}
            onChange={({ target }) => {
              setText(target.value)
            }}
          />
        </label>
        <label>
          <span className={s.visuallyHidden}>State</span>
          <select
            className={s.input}
            value={group}
            onChange={({ target }) => {
              setGroup(target.value as Group | '')
            }}
          >
            <option value="">All states</option>
            {ORDER.map((name) => (
              <option key={name} value={name}>
                {GROUPS[name]}
              </option>
            ))}
          </select>
        </label>
        {(Object.keys(BULK) as Bulk[]).map((action) => {
          const from: readonly string[] = BULK[action].from
          const count = shown.filter(({ status }) => from.includes(status)).length
          return (
            <Button
              key={action}
              disabled={count === 0}
              onClick={() => {
                setBulk(action)
              }}
            >
              {BULK[action].label} {count}
            </Button>
          )
        })}
      </div>
      <div
        className={c.rosterList}
        ref={list}
        role="region"
        aria-label="Sessions by state"
        // A region with overflow must be reachable for the keyboard.
        // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
        tabIndex={0}
      >
        {isLoaded && rows.length === 0 && (
          <Empty>
            {sessions.size === 0 ? 'There is no session yet. Start one with “New session”.' : 'No session fits.'}
          </Empty>
        )}
        <div className={c.virtual} style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map(({ index, key, start }) => {
            const row = rows[index]
            if (row === undefined) return null
            const style = { transform: `translateY(${String(start)}px)` }
            return row.kind === 'head' ? (
              <h2 key={key} className={c.groupHead} style={style} data-index={index} ref={virtual.measureElement}>
                {GROUPS[row.group]} ({row.count})
              </h2>
            ) : (
              <div key={key} style={style} data-index={index} ref={virtual.measureElement}>
                <SessionRow {...row} isSelected={row.session.id === selected} />
              </div>
            )
          })}
        </div>
      </div>
      {bulk !== undefined && (
        <BulkDialog
          action={bulk}
          sessions={shown.filter(({ status }) => (BULK[bulk].from as readonly string[]).includes(status))}
          onClose={() => {
            setBulk(undefined)
          }}
        />
      )}
    </div>
  )
}

function SessionRow({ session, waiting, isSelected }: { session: SessionSummary; waiting: number; isSelected: boolean }) {
  const { id, name, status, totalCostUsd, hardCapUsd, contextWindowUsagePercent, createdAt, labels } = session
  const spent = share(totalCostUsd, hardCapUsd)
  return (
    <Link to="/sessions/$id" params={{ id }} className={c.session} data-selected={isSelected} data-session={id}>
      <span className={c.clip}>
        <strong>{name}</strong>
        {waiting > 0 && (
          <>
            {' '}
            <Badge tone="warn">{waiting} to decide</Badge>
          </>
        )}
        {session.hasPendingReview && waiting === 0 && (
          <>
            {' '}
            <Badge tone="warn">output to review</Badge>
          </>
        )}
        {session.unreachable && (
          <>
            {' '}
            <Badge tone="bad">unreachable</Badge>
          </>
        )}{' '}
        {Object.entries(labels).map(([label, value]) => (
          <Badge key={label}>
            {label}={value}
          </Badge>
        ))}
      </span>
      <span>
        <StatusBadge status={status} />
      </span>
      <span className={s.small}>
        {dollars(totalCostUsd)} of {dollars(hardCapUsd)}
        <Meter percent={spent} label={`Spend of ${name}`} />
      </span>
      <span className={`${s.small ?? ''} ${s.muted ?? ''} ${c.onlyWide ?? ''}`}>
        {contextWindowUsagePercent == null ? '' : `context ${contextWindowUsagePercent} %`}
      </span>
      <span className={`${s.small ?? ''} ${s.muted ?? ''}`}>
        <Ago at={createdAt} />
      </span>
    </Link>
  )
}

function BulkDialog({ action, sessions, onClose }: { action: Bulk; sessions: SessionSummary[]; onClose: () => void }) {
  // The sessions when the dialog opened: a change of the list must not change what is confirmed.
  const [affected] = useState(sessions)
  const [done, setDone] = useState<{ name: string; error?: string }[]>()
  const [isRunning, setRunning] = useState(false)
  const [isSure, setSure] = useState(false)
  const isMounted = useRef(true)
  useEffect(() => {
    isMounted.current = true
    return () => {
      isMounted.current = false
    }
  }, [])
  const { label } = BULK[action]
  const needsConfirmation = action === 'cancel'
  const run = async () => {
    setRunning(true)
    const results: { name: string; error?: string }[] = []
    for (const { id, name } of affected) {
      try {
        await apply(action, id)
        results.push({ name })
      } catch (error) {
        results.push({ name, error: messageOf(error) })
      }
      if (!isMounted.current) return
      setDone([...results])
    }
    setRunning(false)
  }
  const failures = done?.filter(({ error }) => error !== undefined) ?? []
  return (
    <Dialog title={`${label} ${String(affected.length)} sessions`} isOpen onClose={onClose}>
      <ul style={{ maxHeight: '14rem', overflowY: 'auto' }}>
        {affected.map(({ id, name, status }) => (
          <li key={id} className={s.cardHead}>
            <span>{name}</span>
            <StatusBadge status={status} />
          </li>
        ))}
      </ul>
      {needsConfirmation && done === undefined && (
        <label className={s.row}>
          <input
            type="checkbox"
            checked={isSure}
            onChange={({ target }) => {
              setSure(target.checked)
            }}
          />
          Their work ends, and cannot be resumed
        </label>
      )}
      {done !== undefined && (
        <p role="status">
          {done.length} of {affected.length} requested{failures.length > 0 && `, ${String(failures.length)} refused`}
        </p>
      )}
      {failures.map(({ name, error }) => (
        <p key={name} className={s.problem}>
          {name}: {error}
        </p>
      ))}
      <div className={s.dialogFoot}>
        <Button onClick={onClose}>{done === undefined ? 'Cancel' : 'Close'}</Button>
        {done === undefined && (
          <Button
            look={action === 'cancel' ? 'stop' : 'primary'}
            disabled={isRunning || (needsConfirmation && !isSure)}
            onClick={() => void run()}
          >
            {label} {affected.length}
          </Button>
        )}
      </div>
    </Dialog>
  )
}
