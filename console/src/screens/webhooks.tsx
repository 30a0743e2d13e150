import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, data } from '../api/client'
import type { RegisteredWebhook, Webhook } from '../api/types'
import { usePages, useReadWithSessions } from '../app/queries'
import { RequestButton } from '../app/requestButton'
import { ActionButton, Button, Card, Dialog, More, Problem, s } from '../ui'
import { ConfirmButton } from '../ui/confirm'
import { Badge } from '../ui/status'
import { Ago } from '../ui/time'
import { Code } from '../ui/toolInput'
import c from './screens.module.css'

const KEY = ['webhooks'] as const

/** The endpoints that receive events, with their deliveries. */
export function Webhooks() {
  const client = useQueryClient()
  const webhooks = useQuery({ queryKey: KEY, queryFn: () => data(api.GET('/api/webhooks')), ...useReadWithSessions(KEY) })
  const [registered, setRegistered] = useState<RegisteredWebhook>()
  const reload = () => void client.invalidateQueries({ queryKey: KEY })
  return (
    <Card
      title="Webhooks"
      aside={
        <RequestButton
          title="Add a webhook"
          submit="Add"
          schema={(named) => named('RegisterWebhook')}
          first={['url', 'events', 'description']}
          send={(values, header) => data(api.POST('/api/webhooks', { params: { header }, body: values as never }))}
          done={(webhook) => {
            setRegistered(webhook)
            reload()
          }}
        >
          Add a webhook
        </RequestButton>
      }
    >
      {webhooks.isError && <Problem error={webhooks.error} />}
      {webhooks.data?.items.length === 0 && <p className={s.muted}>None.</p>}
      <ul className={s.stack} aria-label="Webhooks">
        {webhooks.data?.items.map((webhook) => (
          <Row key={webhook.id} webhook={webhook} reload={reload} />
        ))}
      </ul>
      <Dialog
        title="The secret of the webhook"
        description="It signs the deliveries. Copy it now: it is shown only once."
        isOpen={registered !== undefined}
        staysOpen
        onClose={() => {
          setRegistered(undefined)
        }}
      >
        {registered !== undefined && <Code label="Secret">{registered.secret}</Code>}
        <div className={s.dialogFoot}>
          <Button
            look="primary"
            onClick={() => {
              setRegistered(undefined)
            }}
          >
            Close
          </Button>
        </div>
      </Dialog>
    </Card>
  )
}

function State({ webhook: { disabled, failing } }: { webhook: Webhook }) {
  if (disabled != null) return <Badge tone="bad">disabled</Badge>
  if (failing?.pausedUntil != null) return <Badge tone="warn">paused</Badge>
  return failing == null ? <Badge tone="good">enabled</Badge> : <Badge tone="warn">failing</Badge>
}

function Row({ webhook, reload }: { webhook: Webhook; reload: () => void }) {
  const { id, url, description, events, disabled, failing, createdAt } = webhook
  const [isOpen, setOpen] = useState(false)
  const params = { path: { id } }
  return (
    <li className={s.cardHead}>
      <span>
        <code>{url}</code> <State webhook={webhook} />
        <br />
        <span className={s.muted}>
          {description != null && `${description}; `}
          {(events ?? []).length === 0 ? 'all events' : events?.join(', ')}, since <Ago at={createdAt} />
          {disabled != null && `; ${disabled.reason}`}
          {failing != null && (
            <>
              ; {failing.failures} failures since <Ago at={failing.since} />
              {failing.pausedUntil != null && (
                <>
                  , next attempt <Ago at={failing.pausedUntil} />
                </>
              )}
            </>
          )}
        </span>
      </span>
      <span className={s.row}>
        {(disabled != null || failing != null) && (
          <ActionButton aria-label={`${disabled == null ? 'Resume' : 'Enable'} ${url}`} action={() => api.POST('/api/webhooks/{id}/enable', { params })} done={reload}>
            {disabled == null ? 'Resume' : 'Enable'}
          </ActionButton>
        )}
        <Button
          aria-label={`Deliveries to ${url}`}
          onClick={() => {
            setOpen(true)
          }}
        >
          Deliveries
        </Button>
        <ConfirmButton
          label={`Remove ${url}`}
          question="Remove this webhook?"
          consequence={`${url} receives no more events. Deliveries that wait are dropped.`}
          action={() => api.DELETE('/api/webhooks/{id}', { params })}
          reload={reload}
        >
          Remove
        </ConfirmButton>
      </span>
      {isOpen && (
        <Deliveries
          webhook={webhook}
          onClose={() => {
            setOpen(false)
          }}
        />
      )}
    </li>
  )
}

function Deliveries({ webhook: { id, url }, onClose }: { webhook: Webhook; onClose: () => void }) {
  const client = useQueryClient()
  const key = ['deliveries', id]
  const deliveries = usePages(key, (cursor) => {
    const params = { path: { id }, query: { limit: 50, cursor } as never }
    return data(api.GET('/api/webhooks/{id}/deliveries', { params }))
  })
  return (
    <Dialog
      title={`Deliveries to ${url}`}
      description="Latest first. A delivery that fails is tried up to eight times within eight hours."
      isOpen
      onClose={onClose}
    >
      {deliveries.error !== null && <Problem error={deliveries.error} />}
      {deliveries.isLoaded && deliveries.items.length === 0 && <p className={s.muted}>None yet.</p>}
      <ul className={s.stack} aria-label="Deliveries">
        {deliveries.items.map((delivery) => (
          <li key={delivery.id} className={c.bubble}>
            <p>
              <strong>{delivery.type}</strong>{' '}
              <Badge tone={delivery.state === 'delivered' ? 'good' : delivery.state === 'failed' ? 'bad' : 'warn'}>{delivery.state}</Badge>
              {delivery.state === 'pending' && (
                <span className={s.muted}>
                  {' '}
                  next attempt <Ago at={delivery.nextAt} />
                </span>
              )}
            </p>
            <ol>
              {delivery.attempts.map(({ at, status, error }) => (
                <li key={at} className={s.muted}>
                  <Ago at={at} />: {status == null ? (error ?? 'no response') : `status ${String(status)}`}
                </li>
              ))}
            </ol>
          </li>
        ))}
      </ul>
      <More pages={deliveries} text="Show earlier deliveries" />
      <div className={s.dialogFoot}>
        <Button onClick={() => void client.invalidateQueries({ queryKey: key })}>Read again</Button>
        <Button onClick={onClose}>Close</Button>
      </div>
    </Dialog>
  )
}
