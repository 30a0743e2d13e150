import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, data } from '../api/client'
import type { DeadQueueView } from '../api/types'
import { ActionButton, Button, Card, Dialog, Empty, Problem, s } from '../ui'
import { Ago } from '../ui/time'
import { toast } from '../ui/toasts'
import { Code } from '../ui/toolInput'
import c from './screens.module.css'

const KEY = ['dead-letters']

/** The messages that failed until their last attempt. An operator can send them again. */
export function DeadLettersScreen() {
  const client = useQueryClient()
  const letters = useQuery({ queryKey: KEY, queryFn: () => data(api.GET('/api/operations/dead-letters')) })
  const [redriven, setRedriven] = useState<DeadQueueView>()
  const { queues = [], redrives = [] } = letters.data ?? {}
  return (
    <div className={s.stack}>
      <div className={c.head} style={{ marginBottom: 0 }}>
        <h1>Dead letters</h1>
        <Button disabled={letters.isFetching} onClick={() => void letters.refetch()}>
          Read again
        </Button>
      </div>
      {letters.isError && <Problem error={letters.error} />}
      {letters.data !== undefined && queues.length === 0 && <Empty>No message has failed.</Empty>}
      {queues.map((queue) => (
        <Card
          key={queue.queue}
          title={`${queue.queue} (${String(queue.count)})`}
          aside={
            <Button
              onClick={() => {
                setRedriven(queue)
              }}
            >
              Send again …
            </Button>
          }
        >
          <ul className={s.stack}>
            {queue.letters.map(({ id, group, cause, receiveCount, bytes, head }) => (
              <li key={id} className={c.bubble}>
                <p>{cause}</p>
                <p className={s.muted}>
                  group <code>{group}</code>, received {receiveCount} times, {bytes.toLocaleString()} bytes
                </p>
                <details>
                  <summary>Beginning of the message</summary>
                  <Code label={`Beginning of ${id}`}>{head}</Code>
                </details>
              </li>
            ))}
          </ul>
          {queue.letters.length < queue.count && (
            <p className={s.muted}>
              {queue.letters.length} of {queue.count} are shown.
            </p>
          )}
        </Card>
      ))}
      {redrives.length > 0 && (
        <Card title="Sent again">
          <div className={s.scroll}>
            <table className={s.table}>
              <thead>
                <tr>
                  <th>When</th>
                  <th>Queue</th>
                  <th>By</th>
                  <th className={s.number}>Messages</th>
                </tr>
              </thead>
              <tbody>
                {redrives.map(({ id, at, queue, by, letters }) => (
                  <tr key={id}>
                    <td>
                      <Ago at={at} />
                    </td>
                    <td>{queue}</td>
                    <td>{by}</td>
                    <td className={s.number}>{letters}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </Card>
      )}
      {redriven !== undefined && (
        <Dialog
          title={`Send ${String(redriven.count)} messages of ${redriven.queue} again?`}
          description="Messages that fail again return to the dead letters."
          isOpen
          onClose={() => {
            setRedriven(undefined)
          }}
        >
          <div className={s.dialogFoot}>
            <Button
              onClick={() => {
                setRedriven(undefined)
              }}
            >
              Cancel
            </Button>
            <ActionButton
              look="primary"
              action={async () => {
                const path = '/api/operations/dead-letters/{queue}/redrive'
                const { redrive, left } = await data(api.POST(path, { params: { path: { queue: redriven.queue } } }))
                toast(`${String(redrive.letters)} messages are sent again${left > 0 ? `; ${String(left)} remain` : ''}.`)
              }}
              done={() => {
                setRedriven(undefined)
                void client.invalidateQueries({ queryKey: KEY })
              }}
            >
              Send again
            </ActionButton>
          </div>
        </Dialog>
      )}
    </div>
  )
}
