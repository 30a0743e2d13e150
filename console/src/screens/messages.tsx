import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useRef, useState } from 'react'
import { api, data, etag } from '../api/client'
import type { QueueView, SessionMessage, SessionView } from '../api/types'
import { useReadAgain } from '../app/queries'
import { ActionButton, Button, Card, Problem, s, showProblem } from '../ui'
import { Badge } from '../ui/status'
import { Ago } from '../ui/time'
import { toast } from '../ui/toasts'
import c from './screens.module.css'

const OVER: readonly string[] = ['Completed', 'Cancelled', 'Failed', 'ContextExhausted', 'Cancelling']

/** Sends a message into the running turn, or queues it for the next one. */
export function Composer({
  session,
  input,
}: {
  session: SessionView
  input: React.RefObject<HTMLTextAreaElement | null>
}) {
  const [text, setText] = useState('')
  const [priority, setPriority] = useState<'Immediate' | 'Queued'>('Immediate')
  const client = useQueryClient()
  const send = useMutation({
    mutationFn: () =>
      api.POST('/api/agents/sessions/{id}/messages/queue', {
        params: { path: { id: session.id } },
        body: { content: text.trim(), priority } as never,
      }),
    onSuccess: () => {
      setText('')
      toast(priority === 'Immediate' ? 'Sent into the running turn.' : 'Queued for the next turn.')
      void client.invalidateQueries({ queryKey: ['queue', session.id] })
    },
  })
  if (OVER.includes(session.status)) return null
  return (
    <form
      className={c.composer}
      aria-label="Message to the agent"
      onSubmit={(event) => {
        event.preventDefault()
        if (text.trim() !== '') send.mutate()
      }}
    >
      {send.isError && <Problem error={send.error} />}
      <label>
        <span className={s.visuallyHidden}>Message to the agent</span>
        <textarea
          ref={input}
          className={s.input}
          rows={1}
          placeholder="Write to the agent"
          value={text}
          onChange={({ target }) => {
            setText(target.value)
          }}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) event.currentTarget.form?.requestSubmit()
            if (event.key === 'Escape') event.currentTarget.blur()
          }}
        />
      </label>
      <div className={s.row} style={{ justifyContent: 'space-between' }}>
        <fieldset className={c.segments}>
          <legend className={s.visuallyHidden}>When the agent receives it</legend>
          {(['Immediate', 'Queued'] as const).map((value) => (
            <label key={value}>
              <input
                type="radio"
                name="priority"
                className={s.visuallyHidden}
                checked={priority === value}
                onChange={() => {
                  setPriority(value)
                }}
              />
              {value}
            </label>
          ))}
        </fieldset>
        <span className={s.row}>
          <span className={`${s.muted ?? ''} ${s.small ?? ''} ${c.onlyWide ?? ''}`}>
            {priority === 'Immediate' ? 'into the running turn' : 'after the running turn'}
          </span>
          <Button type="submit" look="primary" disabled={text.trim() === '' || send.isPending}>
            Send <kbd className={c.onlyWide}>Ctrl ⏎</kbd>
          </Button>
        </span>
      </div>
    </form>
  )
}

/** The queued messages, each with its actions: edit, move, promote, release, remove. Messages move among those of the same priority. */
export function Queue({ id, changes }: { id: string; changes: number | undefined }) {
  const client = useQueryClient()
  const queue = useQuery({
    queryKey: ['queue', id],
    queryFn: () => data(api.GET('/api/agents/sessions/{id}/messages/queue', { params: { path: { id } } })),
    ...useReadAgain(['queue', id], changes),
  })
  const reload = () => client.invalidateQueries({ queryKey: ['queue', id] })
  if (queue.isError) return <Problem error={queue.error} />
  const items = queue.data?.items ?? []
  if (queue.data === undefined || items.length === 0) return null
  return (
    <Card title={`Queue (${String(items.length)})`}>
      {queue.data.held && <p className={s.muted}>The queue is held until you release its first message.</p>}
      <ol>
        {items.map((message) => (
          <QueueItem key={message.messageId} session={id} queue={queue.data} message={message} onChange={reload} />
        ))}
      </ol>
    </Card>
  )
}

function QueueItem({
  session,
  queue,
  message,
  onChange,
}: {
  session: string
  queue: QueueView
  message: SessionMessage
  onChange: () => Promise<void>
}) {
  // `seen` is the content at the start of the edit.
  const [edit, setEdit] = useState<{ text: string; seen: string }>()
  const isStale = edit !== undefined && edit.seen !== message.content
  const params = {
    path: { id: session, messageId: message.messageId },
    header: { 'If-Match': etag(queue.version) } as never,
  }
  const path = '/api/agents/sessions/{id}/messages/queue/{messageId}'
  const save = useMutation({
    mutationFn: (content: string) => api.PATCH(path, { params, body: { content } as never }),
    onSuccess: () => {
      setEdit(undefined)
    },
    onSettled: onChange,
  })
  const canChange = !message.sent
  const peers = queue.items.filter(({ priority }) => priority === message.priority).map(({ messageId }) => messageId)
  const at = peers.indexOf(message.messageId)
  const handle = useRef<HTMLButtonElement>(null)
  const [target, setTarget] = useState<string>()
  const move = useMutation({
    mutationFn: (position: number) => api.PATCH(path, { params, body: { position } as never }),
    // An element that moves in the document loses the focus.
    onMutate: () => document.activeElement,
    onError: showProblem,
    onSettled: async (_data, _error, _position, focused) => {
      await onChange()
      if (focused instanceof HTMLElement && focused.isConnected) focused.focus()
    },
  })
  const moveTo = (position: number) => {
    if (!move.isPending && position !== at && position >= 0 && position < peers.length) move.mutate(position)
  }
  /** The message of the same priority at a height of the page. */
  const under = (y: number): string | undefined => {
    const others = handle.current?.closest('ol')?.querySelectorAll<HTMLElement>('[data-message]') ?? []
    return [...others]
      .filter((item) => y <= item.getBoundingClientRect().bottom)
      .map((item) => item.dataset.message ?? '')
      .find((id) => peers.includes(id))
  }
  return (
    <li className={c.queueItem} data-message={message.messageId} data-dragged={target !== undefined}>
      {target !== undefined && target !== message.messageId && (
        <p className={s.muted} role="status">
          Place {peers.indexOf(target) + 1} of {peers.length}
        </p>
      )}
      {edit === undefined ? (
        <p style={{ whiteSpace: 'pre-wrap' }}>{message.content}</p>
      ) : (
        <form
          className={s.stack}
          onSubmit={(event) => {
            event.preventDefault()
            if (!isStale) save.mutate(edit.text.trim())
          }}
        >
          {save.isError && <Problem error={save.error} />}
          {isStale && (
            <p role="alert">This message was changed since you read it. Cancel to see its new text, then edit it again.</p>
          )}
          <label>
            <span className={s.visuallyHidden}>Text of the message</span>
            <textarea
              className={s.input}
              rows={3}
              value={edit.text}
              // eslint-disable-next-line jsx-a11y/no-autofocus
              autoFocus
              onChange={({ target }) => {
                setEdit({ ...edit, text: target.value })
              }}
            />
          </label>
          <span className={s.row}>
            <Button type="submit" look="primary" disabled={edit.text.trim() === '' || isStale || save.isPending}>
              Save
            </Button>
            <Button
              onClick={() => {
                setEdit(undefined)
              }}
            >
              Cancel
            </Button>
          </span>
        </form>
      )}
      <span className={s.row}>
        <Badge tone={message.priority === 'Immediate' ? 'busy' : 'plain'}>{message.priority}</Badge>
        {message.deliveryUncertain && <Badge tone="warn">delivery uncertain</Badge>}
        {message.sent && <Badge tone="info">on its way</Badge>}
        <small className={s.muted}>
          <Ago at={message.createdAt} />
        </small>
      </span>
      {edit === undefined && canChange && (
        <span className={s.row}>
          <Button
            ref={handle}
            look="icon"
            className={c.handle}
            aria-label={`Move, place ${String(at + 1)} of ${String(peers.length)}`}
            title="Drag it, or press the arrow keys"
            disabled={peers.length < 2}
            onKeyDown={(event) => {
              if (event.key !== 'ArrowUp' && event.key !== 'ArrowDown') return
              event.preventDefault()
              moveTo(at + (event.key === 'ArrowUp' ? -1 : 1))
            }}
            onPointerDown={(event) => {
              event.currentTarget.setPointerCapture(event.pointerId)
              setTarget(message.messageId)
            }}
            onPointerMove={(event) => {
              if (target !== undefined) setTarget(under(event.clientY) ?? peers.at(-1))
            }}
            onPointerUp={() => {
              if (target !== undefined) moveTo(peers.indexOf(target))
              setTarget(undefined)
            }}
            onPointerCancel={() => {
              setTarget(undefined)
            }}
          >
            ⠿
          </Button>
          <Button
            onClick={() => {
              setEdit({ text: message.content, seen: message.content })
            }}
          >
            Edit
          </Button>
          {message.priority === 'Queued' && (
            <ActionButton
              action={() =>
                api.PATCH('/api/agents/sessions/{id}/messages/queue/{messageId}/promote', { params })
              }
              done={() => void onChange()}
            >
              Send now
            </ActionButton>
          )}
          <Button
            look="icon"
            aria-label="Move up"
            disabled={at === 0}
            onClick={() => {
              moveTo(at - 1)
            }}
          >
            ↑
          </Button>
          <Button
            look="icon"
            aria-label="Move down"
            disabled={at === peers.length - 1}
            onClick={() => {
              moveTo(at + 1)
            }}
          >
            ↓
          </Button>
          {(message.deliveryUncertain || queue.held) && (
            <ActionButton
              action={() =>
                api.POST('/api/agents/sessions/{id}/messages/queue/{messageId}/release', { params, body: {} as never })
              }
              done={() => void onChange()}
            >
              Release
            </ActionButton>
          )}
          <ActionButton look="danger" action={() => api.DELETE(path, { params })} done={() => void onChange()}>
            Remove
          </ActionButton>
        </span>
      )}
    </li>
  )
}
