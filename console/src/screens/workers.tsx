import { useQuery, useQueryClient } from '@tanstack/react-query'
import { api, data } from '../api/client'
import { allPages } from '../api/pages'
import type { WorkerView } from '../api/types'
import { useReadWithSessions } from '../app/queries'
import { Card, Problem, s } from '../ui'
import { ConfirmButton } from '../ui/confirm'
import { Badge } from '../ui/status'
import { Ago } from '../ui/time'

const KEY = ['workers'] as const

/** The machines that run sessions. */
export function Workers() {
  const workers = useQuery({
    queryKey: KEY,
    queryFn: () =>
      allPages((cursor) => data(api.GET('/api/workers', { params: { query: cursor === undefined ? { limit: 200 } : { limit: 200, cursor } } }))),
    ...useReadWithSessions(KEY),
  })
  return (
    <Card title="Workers">
      {workers.isError && <Problem error={workers.error} />}
      {workers.data?.length === 0 && (
        <p className={s.muted}>
          Sessions run on the server itself. Add a machine with <code>pilothouse worker</code>.
        </p>
      )}
      <ul className={s.stack} aria-label="Workers">
        {workers.data?.map((worker) => (
          <Row key={worker.id} worker={worker} />
        ))}
      </ul>
      {(workers.data?.length ?? 0) > 0 && (
        <p className={s.muted}>
          <code>pilothouse worker --capacity</code> sets the most runs of a machine. A worker that you stop there takes no new runs, and is
          draining until its last one ends.
        </p>
      )}
    </Card>
  )
}

function Row({ worker: { id, alive, draining, shared, labels, capacity, runs, seenAt } }: { worker: WorkerView }) {
  const client = useQueryClient()
  const reload = () => void client.invalidateQueries({ queryKey: KEY })
  const names = Object.entries(labels).map((pair) => pair.join('='))
  return (
    <li className={s.cardHead}>
      <span>
        <strong>{id}</strong> <Badge tone={alive ? 'good' : 'bad'}>{alive ? 'alive' : 'silent'}</Badge>{' '}
        {draining && <Badge tone="warn">draining</Badge>} {shared && <Badge>for all owners</Badge>}
        <br />
        <span className={s.muted}>
          {runs.length} of {capacity} runs, seen <Ago at={seenAt} />
          {names.length > 0 && `, ${names.join(', ')}`}
        </span>
      </span>
      <span className={s.row}>
        {runs.length === 0 && (
          <ConfirmButton
            label={`Remove ${id}`}
            question={`Remove the worker ${id}?`}
            consequence="It receives no more runs. If its program still runs, it registers again."
            action={() => api.DELETE('/api/workers/{id}', { params: { path: { id } } })}
            reload={reload}
          >
            Remove
          </ConfirmButton>
        )}
        {runs.length > 0 && !alive && (
          <ConfirmButton
            label={`Declare lost: ${id}`}
            question={`Declare the worker ${id} lost?`}
            consequence={`Its ${String(runs.length)} runs end, and their sessions fail. Do this only if its machine does not return: otherwise the sessions continue there.`}
            action={() => api.DELETE('/api/workers/{id}', { params: { path: { id }, query: { lost: 'true' } } })}
            reload={reload}
          >
            Declare lost
          </ConfirmButton>
        )}
      </span>
    </li>
  )
}
