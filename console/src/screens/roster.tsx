import { Link, useNavigate } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import { useDeferredValue, useEffect, useMemo, useRef, useState } from 'react'
import { messageOf } from '../api/client'
import type { AgentSessionStatus, SessionSummary } from '../api/types'
import { useActions, useKeys } from '../app/keyboard'
import { inbox } from '../live/inbox'
import { roster } from '../live/roster'
import { useStore } from '../live/store'
import { Button, Choice, Dialog, Empty, Meter, s } from '../ui'
import { dollars, share } from '../ui/money'
import { Badge, StatusBadge } from '../ui/status'
import { Ago } from '../ui/time'
import { isDecidable } from './decision'
import { LIFECYCLE, possibleRequests, request } from './lifecycle'
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

const BULK = ['pause', 'resume', 'cancel', 'retry'] as const
type Bulk = (typeof BULK)[number]

type Row = { kind: 'head'; group: Group; count: number } | { kind: 'session'; session: SessionSummary; waiting: number }

function matches(session: SessionSummary, text: string): boolean {
  const labels = Object.entries(session.labels).map(([name, value]) => `${name}=${value}`)
  return [session.name, session.id, ...labels].some((part) => part.toLowerCase().includes(text))
}

/** All sessions, grouped by state, with a filter and requests to all sessions that match it. */
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
      .filter((session) => (group === '' || groupOf(session) === group) && (wanted === '' || matches(session, wanted)))
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
    // Enter then opens this session, not the link that had the focus.
    list.current?.focus({ preventScroll: true })
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
  const affected = BULK.map((action) => ({
    action,
    count: shown.filter((session) => possibleRequests(session).includes(action)).length,
  }))
  useActions(
    affected
      .filter(({ count }) => count > 0)
      .map(({ action, count }) => ({
        label: `${LIFECYCLE[action]} ${String(count)} sessions`,
        run: () => {
          setBulk(action)
        },
      })),
  )
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
        <Choice
          label="State"
          any="All states"
          options={Object.entries(GROUPS)}
          value={group}
          onChange={(value) => {
            setGroup(value as Group | '')
          }}
        />
        {affected.map(({ action, count }) => (
          <Button
            key={action}
            disabled={count === 0}
            onClick={() => {
              setBulk(action)
            }}
          >
            {LIFECYCLE[action]} {count}
          </Button>
        ))}
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
            {sessions.size === 0 ? 'No session yet. Start one with “New session”.' : 'No session matches.'}
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
          sessions={shown.filter((session) => possibleRequests(session).includes(bulk))}
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
      <span className={`${s.small ?? ''} ${s.muted ?? ''}`}>
        {contextWindowUsagePercent == null ? '' : `context ${contextWindowUsagePercent} %`}
      </span>
      <span className={`${s.small ?? ''} ${s.muted ?? ''}`}>
        <Ago at={createdAt} />
      </span>
    </Link>
  )
}

function BulkDialog({ action, sessions, onClose }: { action: Bulk; sessions: SessionSummary[]; onClose: () => void }) {
  // The person confirms the sessions of the moment at which the dialog opened, so later changes of the list have no effect.
  const [affected] = useState(sessions)
  const [results, setResults] = useState<{ id: string; name: string; error?: string }[]>()
  const [isSure, setSure] = useState(false)
  const isMounted = useRef(true)
  useEffect(() => {
    isMounted.current = true
    return () => {
      isMounted.current = false
    }
  }, [])
  const label = LIFECYCLE[action]
  const run = async () => {
    setResults([])
    for (const { id, name } of affected) {
      const result = await request(action, id).then(
        () => ({ id, name }),
        (error: unknown) => ({ id, name, error: messageOf(error) }),
      )
      // Closing the dialog stops the rest.
      if (!isMounted.current) return
      setResults((earlier = []) => [...earlier, result])
    }
  }
  const failures = results?.filter(({ error }) => error !== undefined) ?? []
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
      {action === 'cancel' && results === undefined && (
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
      {results !== undefined && (
        <p role="status">
          {results.length} of {affected.length} requested{failures.length > 0 && `, ${String(failures.length)} refused`}
        </p>
      )}
      {failures.map(({ id, name, error }) => (
        <p key={id} className={s.problem}>
          {name}: {error}
        </p>
      ))}
      <div className={s.dialogFoot}>
        <Button onClick={onClose}>{results === undefined ? 'Cancel' : 'Close'}</Button>
        {results === undefined && (
          <Button
            look={action === 'cancel' ? 'stop' : 'primary'}
            disabled={action === 'cancel' && !isSure}
            onClick={() => void run()}
          >
            {label} {affected.length}
          </Button>
        )}
      </div>
    </Dialog>
  )
}
