import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, data } from '../api/client'
import type { NotificationKind } from '../api/types'
import { deviceName } from '../app/deviceName'
import { obstacle, subscribe, thisDevice, unsubscribe } from '../app/webPush'
import { useStore } from '../live/store'
import { ActionButton, Button, Card, Checkboxes, Field, Problem, RequestForm, s } from '../ui'
import { Ago } from '../ui/time'
import { DeviceRow } from './deviceRow'

/** What a new device receives: what waits for a person, and what ended. */
const USUAL = [
  ['waiting-for-input', 'An agent asks, or needs an approval'],
  ['waiting-for-approval', 'A plan waits for approval'],
  ['output-ready', 'An output waits for review'],
  ['session-completed', 'A session completed'],
  ['session-failed', 'A session failed'],
  ['chain-completed', 'A chain completed'],
  ['budget-exhausted', 'A budget is used up'],
  ['spend-unmetered', 'A spend cannot be measured'],
  ['quota-exceeded', 'A quota is used up'],
  ['disk-full', 'A disk is full'],
  ['context-exhausted', 'A context window is full'],
  ['auto-continue-stopped', 'Auto-continue stopped early'],
  ['after-stop-activity', 'An agent acted after its stop'],
] as const satisfies readonly (readonly [NotificationKind, string])[]
const OTHER = [
  ['budget-warning', 'A budget is nearly used up'],
  ['model-unavailable', 'A model does not answer'],
  ['events-lost', 'Events were lost'],
  ['run-late', 'The agent takes long to carry out a command'],
  ['schedule-skipped', 'A schedule was skipped'],
  ['webhook-disabled', 'A webhook was disabled'],
] as const satisfies readonly (readonly [NotificationKind, string])[]
const KINDS: readonly (readonly [NotificationKind, string])[] = [...USUAL, ...OTHER]

function textOf(kind: NotificationKind): string {
  return KINDS.find(([known]) => known === kind)?.[1] ?? kind
}

const KEY = ['web-push'] as const

/** Which notifications this browser receives while the console is not open in it. */
export function ThisDeviceNotifications() {
  const queries = useQueryClient()
  const known = useStore(thisDevice)
  const [device, setDevice] = useState(known?.device ?? deviceName)
  const [kinds, setKinds] = useState<readonly string[]>(known?.kinds ?? USUAL.map(([kind]) => kind))
  const save = useMutation({
    mutationFn: () => subscribe(device, kinds as readonly NotificationKind[]),
    onSuccess: () => queries.invalidateQueries({ queryKey: KEY }),
  })
  const reason = obstacle()
  if (reason !== undefined) {
    return (
      <Card title="Notifications on this device">
        <p>{reason}</p>
      </Card>
    )
  }
  return (
    <Card title="Notifications on this device">
      <RequestForm request={save}>
        <p>
          {known === undefined
            ? 'This browser can notify you while the console is closed. Nothing is shown while you look at it.'
            : 'This browser notifies you while the console is closed.'}
        </p>
        <Field label="Name of this device">
          <input
            className={s.input}
            value={device}
            maxLength={100}
            required
            onChange={({ target }) => {
              setDevice(target.value)
            }}
          />
        </Field>
        <Checkboxes legend="Notify me when" options={KINDS} checked={kinds} onChange={setKinds} />
        <div>
          <Button type="submit" look="primary" disabled={save.isPending || kinds.length === 0}>
            {known === undefined ? 'Notify me on this device' : 'Save'}
          </Button>
        </div>
      </RequestForm>
    </Card>
  )
}

/** All devices of the owner that receive notifications. */
export function NotifiedDevices() {
  const queries = useQueryClient()
  const list = useQuery({ queryKey: KEY, queryFn: () => data(api.GET('/api/web-push/subscriptions')) })
  const own = useStore(thisDevice)?.id
  return (
    <Card title="Devices that receive notifications">
      {list.isError && <Problem error={list.error} />}
      {list.data?.items.length === 0 && <p className={s.muted}>None.</p>}
      <ul className={s.stack} aria-label="Devices that receive notifications">
        {list.data?.items.map(({ id, device, service, kinds, createdAt }) => (
          <DeviceRow
            key={id}
            name={device}
            isThis={id === own}
            details={
              <>
                by {service}, since <Ago at={createdAt} />: {kinds.map(textOf).join('; ')}
              </>
            }
          >
            <ActionButton
              aria-label={`Stop notifying ${device}`}
              action={() => unsubscribe(id)}
              done={() => void queries.invalidateQueries({ queryKey: KEY })}
            >
              Stop
            </ActionButton>
          </DeviceRow>
        ))}
      </ul>
    </Card>
  )
}
