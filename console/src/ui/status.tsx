import type { AgentSessionStatus } from '../api/types'
import s from './ui.module.css'

export type Tone = 'good' | 'warn' | 'bad' | 'busy' | 'info' | 'plain'

export function Badge({ tone = 'plain', children }: { tone?: Tone; children: React.ReactNode }) {
  return (
    <span className={s.badge} data-tone={tone}>
      {children}
    </span>
  )
}

const STATUS: Record<AgentSessionStatus, { tone: Tone; label: string }> = {
  Queued: { tone: 'plain', label: 'Queued' },
  Running: { tone: 'busy', label: 'Running' },
  Interrupting: { tone: 'info', label: 'Interrupting…' },
  Interrupted: { tone: 'warn', label: 'Interrupted' },
  Pausing: { tone: 'info', label: 'Pausing…' },
  Paused: { tone: 'warn', label: 'Paused' },
  Resuming: { tone: 'info', label: 'Resuming…' },
  Cancelling: { tone: 'info', label: 'Cancelling…' },
  Cancelled: { tone: 'plain', label: 'Cancelled' },
  WaitingForInput: { tone: 'warn', label: 'Waits for an answer' },
  WaitingForApproval: { tone: 'warn', label: 'Waits for approval' },
  Idle: { tone: 'info', label: 'Idle' },
  ContextExhausted: { tone: 'bad', label: 'Context full' },
  Completed: { tone: 'good', label: 'Completed' },
  Failed: { tone: 'bad', label: 'Failed' },
}

export function StatusBadge({ status }: { status: AgentSessionStatus }) {
  const { tone, label } = STATUS[status]
  return (
    <span className={s.badge} data-tone={tone} data-status={status}>
      <span className={s.dot} aria-hidden="true" />
      {label}
    </span>
  )
}
