import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useRef, useState } from 'react'
import { api, data, etag } from '../api/client'
import { useRequestKey } from '../api/requestKey'
import type { QueueView, SessionMessage, SessionView } from '../api/types'
import { useReadAgain } from '../app/queries'
import { ActionButton, Button, Card, Problem, s, showProblem } from '../ui'
import { Badge } from '../ui/status'
import { Ago } from '../ui/time'
import { toast } from '../ui/toasts'
import { AttachButton, AttachedImages, type AttachedImage, imagesOf, readImage } from './images'
import c from './screens.module.css'

const OVER: readonly string[] = ['Completed', 'Cancelled', 'Failed', 'ContextExhausted', 'Cancelling']

interface Draft {
  text: string
  images: readonly AttachedImage[]
  priority: 'Immediate' | 'Queued'
}

/** Sends a message into the running turn, or queues it for the next one. */
export function Composer({
  session,
  input,
}: {
  session: SessionView
  input: React.RefObject<HTMLTextAreaElement | null>
}) {
  const [text, setText] = useState('')
  const [images, setImages] = useState<readonly AttachedImage[]>([])
  const [priority, setPriority] = useState<'Immediate' | 'Queued'>('Immediate')
  const client = useQueryClient()
  const key = useRequestKey()
  const send = useMutation({
    mutationFn: ({ text, images, priority }: Draft) => {
      const sent = images.map(({ mediaType, base64 }) => ({ mediaType, base64 }))
      const body = { content: text.trim(), priority, ...(sent.length > 0 && { images: sent }) }
      const params = { path: { id: session.id }, header: key.header(body) }
      return api.POST('/api/agents/sessions/{id}/messages/queue', { params, body: body as never })
    },
    onSuccess: (_data, { text, images, priority }) => {
      key.renew()
      // What the person added meanwhile stays.
      setText((now) => (now.startsWith(text) ? now.slice(text.length).trimStart() : now))
      setImages((now) => now.filter((image) => !images.includes(image)))
      toast(priority === 'Immediate' ? 'Sent into the running turn.' : 'Queued for the next turn.')
      void client.invalidateQueries({ queryKey: ['queue', session.id] })
    },
  })
  if (OVER.includes(session.status)) return null
  const attach = (files: FileList) => {
    Promise.all(imagesOf(files).map(readImage)).then((read) => {
      setImages((now) => [...now, ...read])
    }, showProblem)
  }
  return (
    <form
      className={c.composer}
      aria-label="Message to the agent"
      onSubmit={(event) => {
        event.preventDefault()
        if (text.trim() !== '' && !send.isPending) send.mutate({ text, images, priority })
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
          onPaste={(event) => {
            const { files } = event.clipboardData
            if (imagesOf(files).length === 0) return
            event.preventDefault()
            attach(files)
          }}
        />
      </label>
      <AttachedImages
        images={images}
        onRemove={(removed) => {
          setImages((now) => now.filter((image) => image !== removed))
        }}
      />
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
          <AttachButton onFiles={attach} />
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
  // The messages that a person edits stay on the screen when they leave the queue.
  const [edited, setEdited] = useState<ReadonlyMap<string, SessionMessage>>(new Map())
  if (queue.data === undefined) return queue.isError ? <Problem error={queue.error} /> : null
  const { items } = queue.data
  const gone = [...edited.values()].filter(({ messageId }) => !items.some((item) => item.messageId === messageId))
  if (items.length === 0 && gone.length === 0) return null
  return (
    <Card title={`Queue (${String(items.length)})`}>
      {queue.isError && <Problem error={queue.error} />}
      {queue.data.held && <p className={s.muted}>The queue is held until you release its first message.</p>}
      <ol>
        {/* At the start of the list, an item that left the queue does not move in the document, so it keeps the focus. */}
        {[...gone, ...items].map((message) => (
          <QueueItem
            key={message.messageId}
            session={id}
            queue={queue.data}
            message={message}
            isGone={message.sent || gone.includes(message)}
            onChange={reload}
            onEdit={(isEdited) => {
              setEdited((now) => {
                const others = [...now].filter(([id]) => id !== message.messageId)
                return new Map(isEdited ? [...others, [message.messageId, message]] : others)
              })
            }}
          />
        ))}
      </ol>
    </Card>
  )
}

function QueueItem({
  session,
  queue,
  message,
  isGone,
  onChange,
  onEdit,
}: {
  session: string
  queue: QueueView
  message: SessionMessage
  /** Whether the message can no longer be changed. */
  isGone: boolean
  onChange: () => Promise<void>
  /** Called when an edit of the message begins and ends. */
  onEdit: (isEdited: boolean) => void
}) {
  // `seen` is the message at the start of the edit.
  const [edit, setEdit] = useState<{ text: string; seen: typeof message }>()
  const isStale = edit !== undefined && !isGone && edit.seen.content !== message.content
  const endEdit = () => {
    setEdit(undefined)
    onEdit(false)
  }
  const params = {
    path: { id: session, messageId: message.messageId },
    header: { 'If-Match': etag(queue.version) } as never,
  }
  const path = '/api/agents/sessions/{id}/messages/queue/{messageId}'
  const save = useMutation({
    mutationFn: (content: string) => api.PATCH(path, { params, body: { content } as never }),
    onSuccess: endEdit,
    onSettled: onChange,
  })
  const key = useRequestKey()
  const add = useMutation({
    mutationFn: (content: string) => {
      // A message that was promoted meanwhile has gone, and the new one need not hurry.
      const body = { content, priority: edit?.seen.priority ?? message.priority }
      const params = { path: { id: session }, header: key.header(body) }
      return api.POST('/api/agents/sessions/{id}/messages/queue', { params, body: body as never })
    },
    onSuccess: () => {
      key.renew()
      endEdit()
    },
    onSettled: onChange,
  })
  const isSaving = save.isPending || add.isPending
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
            if (isStale || isSaving) return
            if (isGone) add.mutate(edit.text.trim())
            else save.mutate(edit.text.trim())
          }}
        >
          {save.isError && !isGone && <Problem error={save.error} />}
          {add.isError && <Problem error={add.error} />}
          {isGone && (
            <p role="alert">
              This message was sent or removed meanwhile. Copy your text, or add it as a new message.
            </p>
          )}
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
            <Button type="submit" look="primary" disabled={edit.text.trim() === '' || isStale || isSaving}>
              {isGone ? 'Add as a new message' : 'Save'}
            </Button>
            <Button onClick={endEdit}>Cancel</Button>
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
      {edit === undefined && !isGone && (
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
              setEdit({ text: message.content, seen: message })
              onEdit(true)
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
