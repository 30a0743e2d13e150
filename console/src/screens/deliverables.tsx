import { useQuery } from '@tanstack/react-query'
import { api, data } from '../api/client'
import type { DeliverableState, SessionView } from '../api/types'
import { useReadAgain } from '../app/queries'
import { Card, Empty, Problem, s } from '../ui'
import { Badge, type Tone } from '../ui/status'
import { Ago } from '../ui/time'
import c from './screens.module.css'

const STATE: Record<DeliverableState, Tone> = { pending: 'plain', passed: 'good', blocked: 'bad' }

/** The deliverables of the agent with their acceptance criteria. `changes` counts what may have changed them. */
export function Deliverables({ session, changes }: { session: SessionView; changes: number | undefined }) {
  const { id, deliverables: counts } = session
  const key = ['deliverables', id]
  const followed = useReadAgain(key, counts == null ? undefined : changes)
  const { data: list, error } = useQuery({
    queryKey: key,
    queryFn: () => data(api.GET('/api/agents/sessions/{id}/deliverables', { params: { path: { id } } })),
    ...followed,
  })
  if (counts == null) return <Empty>The agent has reported no deliverables.</Empty>
  const { passed, blocked, pending } = counts
  return (
    <Card
      title={`${String(passed)} of ${String(passed + blocked + pending)} passed${blocked > 0 ? `, ${String(blocked)} blocked` : ''}`}
      aside={
        list !== undefined && (
          <span className={`${s.muted ?? ''} ${s.small ?? ''}`}>
            reported <Ago at={list.updatedAt} />
          </span>
        )
      }
    >
      {error !== null && <Problem error={error} />}
      <ul className={c.list} aria-label="Deliverables">
        {list?.deliverables.map(({ id, description, acceptanceCriteria, status }) => (
          <li key={id} className={c.bubble}>
            <div className={s.row}>
              <code>{id}</code>
              <Badge tone={STATE[status]}>{status}</Badge>
            </div>
            <p>{description}</p>
            {acceptanceCriteria.length > 0 && (
              <ul className={s.muted} aria-label={`Acceptance criteria of ${id}`} style={{ listStyle: 'revert', paddingLeft: '1.3rem' }}>
                {acceptanceCriteria.map((criterion, at) => (
                  <li key={at}>{criterion}</li>
                ))}
              </ul>
            )}
          </li>
        ))}
      </ul>
    </Card>
  )
}
