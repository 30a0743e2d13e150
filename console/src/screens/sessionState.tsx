import type { Disk, SessionView } from '../api/types'
import { s } from '../ui'
import { Badge, StatusBadge } from '../ui/status'
import { Clock } from '../ui/time'

/** The status of a session, and what else is true of it now. */
export function StateBadges({ session }: { session: SessionView }) {
  return (
    <>
      <StatusBadge status={session.status} />
      {session.pausedReason != null && <Badge tone="warn">{session.pausedReason.replaceAll('-', ' ')}</Badge>}
      {session.queuedReason != null && <Badge>{session.queuedReason.replaceAll('-', ' ')}</Badge>}
      {session.validating && <Badge tone="busy">checking its criteria</Badge>}
      {session.reloading ? (
        <Badge tone="info">loading its configuration</Badge>
      ) : (
        session.reloadNeeded && <Badge tone="warn">reload needed</Badge>
      )}
      {session.hibernated && <Badge>asleep</Badge>}
      {session.unreachable && <Badge tone="bad">unreachable</Badge>}
    </>
  )
}

const FULL_DISK: Record<Disk, string> = {
  server: 'The disk of the server is nearly full. The session resumes when there is space.',
  worker: 'The disk of the worker is full. The agent waits until there is space.',
}

/** Why the session cannot continue, and when it will. */
export function Blocked({ session: { quota, fullDisk } }: { session: SessionView }) {
  return (
    <>
      {quota != null && (
        <p className={s.problem}>
          The plan that pays for the agent is used up{quota.message != null && `: ${quota.message}`}.{' '}
          {quota.resetAt != null ? (
            <>
              The session resumes at <Clock at={quota.resetAt} />.
            </>
          ) : (
            'Resume the session when the plan can be used again.'
          )}
        </p>
      )}
      {fullDisk != null && <p className={s.problem}>{FULL_DISK[fullDisk]}</p>}
    </>
  )
}
