import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api, data, etag } from '../api/client'
import { useRequestKey } from '../api/requestKey'
import type { BrakeScope, BrakeView, HoldStage } from '../api/types'
import { ActionButton, Button, Dialog, Field, Problem, s } from '../ui'
import { Badge, type Tone } from '../ui/status'
import { Ago } from '../ui/time'
import { toast } from '../ui/toasts'
import { projectsQuery } from './lists'
import { useReadBrakeAgain, useReadWithBrakes } from './queries'
import c from './shell.module.css'

const STAGE: Record<HoldStage, { tone: Tone; text: string }> = {
  requested: { tone: 'info', text: 'requested' },
  acknowledged: { tone: 'info', text: 'acknowledged' },
  confirmed: { tone: 'good', text: 'confirmed' },
  escalated: { tone: 'bad', text: 'escalated: the process is being ended' },
  unreachable: { tone: 'bad', text: 'unreachable' },
  released: { tone: 'plain', text: 'released' },
}

export function scopeText(scope: BrakeScope): string {
  switch (scope.type) {
    case 'all':
      return 'all of your sessions'
    case 'session':
      return 'one session'
    case 'project':
      return 'a project'
    case 'workstream':
      return 'a workstream'
    case 'agent':
      return 'an agent'
  }
}

/** The brakes in force, with their progress. */
export function Brakes() {
  const brakes = useQuery({
    queryKey: ['brakes'],
    queryFn: () => data(api.GET('/api/brakes', { params: { query: { limit: 200 } } })),
    ...useReadWithBrakes(['brakes']),
  })
  const active = brakes.data?.items.filter(({ released }) => released == null) ?? []
  return active.map(({ id }) => <BrakeBanner key={id} id={id} />)
}

function hasStopped(brake: BrakeView | undefined): boolean {
  return brake !== undefined && brake.confirmedCount === brake.sessionCount
}

function BrakeBanner({ id }: { id: string }) {
  const client = useQueryClient()
  const queryKey = ['brake', id]
  const query = useQuery({
    queryKey,
    queryFn: () => data(api.GET('/api/brakes/{id}', { params: { path: { id } } })),
    ...useReadBrakeAgain(queryKey, hasStopped(client.getQueryData(queryKey))),
  })
  const [isOpen, setOpen] = useState(false)
  const close = () => {
    setOpen(false)
  }
  const brake = query.data
  if (brake === undefined || brake.released != null) return null
  return (
    <div className={c.banner} data-tone="bad" role="region" aria-label="Emergency brake">
      <span>
        <strong>Brake on {scopeText(brake.scope)}</strong>: {brake.reason}. {brake.confirmedCount} of {brake.sessionCount}{' '}
        confirmed, pulled <Ago at={brake.pulledAt} />
        {brake.initiatedBy === 'system' && ' by the system'}
      </span>
      <span className={s.row}>
        <Button
          onClick={() => {
            setOpen(true)
          }}
        >
          Progress
        </Button>
        <ActionButton
          action={() =>
            api.POST('/api/brakes/{id}/release', {
              params: { path: { id }, header: { 'If-Match': etag(brake.version) } as never },
              body: {} as never,
            })
          }
          done={() => {
            toast('The brake is released.')
            void client.invalidateQueries({ queryKey: ['brakes'] })
            void client.invalidateQueries({ queryKey: ['brake', id] })
          }}
        >
          Release
        </ActionButton>
      </span>
      <Dialog title="Progress of the brake" isOpen={isOpen} onClose={close}>
        <Progress brake={brake} />
        <div className={s.dialogFoot}>
          <Button onClick={close}>Close</Button>
        </div>
      </Dialog>
    </div>
  )
}

export function Progress({ brake }: { brake: BrakeView }) {
  return (
    <div className={s.stack}>
      <p role="status">
        {brake.confirmedCount} of {brake.sessionCount} agents confirmed that they do not act.
      </p>
      <ul className={s.stack}>
        {brake.sessions.map(({ sessionId, name, stage }) => (
          <li key={sessionId} className={s.cardHead}>
            <Link to="/sessions/$id" params={{ id: sessionId }}>
              {name}
            </Link>
            <Badge tone={STAGE[stage].tone}>{STAGE[stage].text}</Badge>
          </li>
        ))}
      </ul>
    </div>
  )
}

/** Pulls a brake in two steps, the form and its confirmation, and then shows the progress for each agent. */
export function BrakeDialog({
  onClose,
  scope: given,
  title = 'Emergency brake',
}: {
  onClose: () => void
  scope?: BrakeScope
  title?: string
}) {
  const client = useQueryClient()
  const [reason, setReason] = useState('')
  const [behavior, setBehavior] = useState<'pause' | 'kill'>('pause')
  const [isConfirming, setConfirming] = useState(false)
  const [scope, setScope] = useState<BrakeScope>(given ?? { type: 'all' })
  const projects = useQuery(projectsQuery)
  const key = useRequestKey()
  const pull = useMutation({
    mutationFn: () => {
      const body = { scope, reason: reason.trim(), behavior }
      return data(api.POST('/api/brake', { params: { header: key.header(body) }, body: body as never }))
    },
    onSuccess: (brake) => {
      key.renew()
      client.setQueryData(['brake', brake.id], brake)
      // Sessions may have stopped before the response arrived.
      void client.invalidateQueries({ queryKey: ['brake', brake.id] })
      void client.invalidateQueries({ queryKey: ['brakes'] })
    },
  })
  const id = pull.data?.id
  const pulled = useQuery({
    queryKey: ['brake', id],
    queryFn: () => data(api.GET('/api/brakes/{id}', { params: { path: { id: id ?? '' } } })),
    enabled: id !== undefined,
  })
  useReadBrakeAgain(['brake', id], hasStopped(pulled.data))
  if (pulled.data !== undefined) {
    return (
      <Dialog title="The brake is in force" isOpen onClose={onClose}>
        <Progress brake={pulled.data} />
        <div className={s.dialogFoot}>
          <Button look="primary" onClick={onClose}>
            Close
          </Button>
        </div>
      </Dialog>
    )
  }
  const where =
    scope.type === 'project'
      ? `project ${projects.data?.items.find(({ id }) => id === scope.projectId)?.name ?? ''}`
      : scopeText(scope)
  return (
    <Dialog
      title={title}
      isOpen
      onClose={onClose}
      description="Stops agents at once. None of them starts again until you release the brake."
    >
      <form
        className={s.stack}
        onSubmit={(event) => {
          event.preventDefault()
          if (!isConfirming) setConfirming(true)
          else if (!pull.isPending) pull.mutate()
        }}
      >
        {pull.isError && <Problem error={pull.error} />}
        {isConfirming ? (
          <p>
            <strong>
              Stop {where}, and {behavior === 'pause' ? 'suspend the agents' : 'end the processes of the agents'}?
            </strong>
          </p>
        ) : (
          <>
            {given === undefined && (
              <Field label="What to stop">
                <select
                  className={s.input}
                  value={scope.type === 'project' ? scope.projectId : 'all'}
                  onChange={({ target }) => {
                    setScope(target.value === 'all' ? { type: 'all' } : { type: 'project', projectId: target.value })
                  }}
                >
                  <option value="all">All of my sessions</option>
                  {projects.data?.items.map(({ id, name }) => (
                    <option key={id} value={id}>
                      Project {name}
                    </option>
                  ))}
                </select>
              </Field>
            )}
            <Field label="Why">
              <input
                className={s.input}
                value={reason}
                maxLength={500}
                onChange={({ target }) => {
                  setReason(target.value)
                }}
              />
            </Field>
            <Field label="How">
              <select
                className={s.input}
                value={behavior}
                onChange={({ target }) => {
                  setBehavior(target.value === 'kill' ? 'kill' : 'pause')
                }}
              >
                <option value="pause">Suspend the agents in the middle of their work</option>
                <option value="kill">End their processes; the conversations are kept</option>
              </select>
            </Field>
          </>
        )}
        <div className={s.dialogFoot}>
          <Button
            onClick={() => {
              if (isConfirming) setConfirming(false)
              else onClose()
            }}
          >
            {isConfirming ? 'Back' : 'Cancel'}
          </Button>
          <Button type="submit" look="stop" disabled={reason.trim() === '' || pull.isPending}>
            {isConfirming ? 'Stop now' : 'Continue'}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
