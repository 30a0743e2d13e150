import { useMutation, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api, data } from '../api/client'
import { allPages } from '../api/pages'
import type { DecisionView } from '../api/types'
import { Button, Empty, Field, Problem, s } from '../ui'
import { Diff, SIGN, type Line } from '../ui/diff'
import { toast } from '../ui/toasts'
import { changeOf, type Change } from '../ui/toolInput'

type Output = Extract<DecisionView, { kind: 'output_review' }>

/** A comment on a line. */
interface Comment {
  where: string
  line: string
  text: string
}

/** All comments as one message, in the order of what they are about. */
function messageOf(comments: readonly Comment[]): string {
  const parts = comments.map(({ where, line, text }, at) => `${String(at + 1)}. ${where}, at \`${line}\`:\n${text}`)
  return `Comments on your output:\n\n${parts.join('\n\n')}`
}

/** What the agent changed, and its result. Comments on lines are collected and sent as one message. */
export default function Review({ decision, sessionId }: { decision: Output; sessionId: string }) {
  const changes = useQuery({
    queryKey: ['changes', sessionId, decision.outputId],
    queryFn: async (): Promise<(Change & { id: string })[]> => {
      const path = '/api/agents/sessions/{id}/tool-calls'
      const calls = await allPages((cursor) =>
        data(api.GET(path, { params: { path: { id: sessionId }, query: { limit: 100, cursor } as never } })),
      )
      return calls.flatMap(({ id, input, result }) => {
        const change = result?.isError === true ? undefined : changeOf(input)
        return change === undefined ? [] : [{ ...change, id }]
      })
    },
  })
  const [comments, setComments] = useState<ReadonlyMap<string, Comment>>(new Map())
  const [open, setOpen] = useState<string>()
  const send = useMutation({
    mutationFn: (content: string) =>
      api.POST('/api/agents/sessions/{id}/messages/queue', {
        params: { path: { id: sessionId } },
        body: { content, priority: 'Immediate' } as never,
      }),
    onSuccess: () => {
      setComments(new Map())
      toast('The comments are sent as one message.')
    },
  })
  if (changes.isError) return <Problem error={changes.error} />
  if (changes.data === undefined) return <Empty>Loading …</Empty>
  const { result } = decision.output
  const shown = [...changes.data]
  if (result !== undefined && result !== null) {
    shown.push({ id: 'result', path: 'result', before: '', after: JSON.stringify(result, null, 2) })
  }
  const keys = shown.map(({ id }) => id)
  const [callOf, lineOf] = [(key: string) => keys.indexOf(key.split('\n')[0] ?? ''), (key: string) => Number(key.split('\n')[1])]
  const sorted = [...comments].sort(([a], [b]) => callOf(a) - callOf(b) || lineOf(a) - lineOf(b)).map(([, comment]) => comment)
  const beside = (id: string, where: string) => (line: Line, at: number) => {
    if (line.kind === 'gap') return null
    const key = `${id}\n${String(at)}`
    const comment = comments.get(key)
    const text = `${SIGN[line.kind]}${line.text}`.trim()
    if (open === key) {
      return (
        <CommentForm
          line={text}
          before={comment?.text ?? ''}
          onClose={() => {
            setOpen(undefined)
          }}
          onSave={(written) => {
            const changed = new Map(comments)
            if (written === '') changed.delete(key)
            else changed.set(key, { where, line: text, text: written })
            setComments(changed)
            setOpen(undefined)
          }}
        />
      )
    }
    return (
      <>
        {' '}
        <button
          type="button"
          className={s.beside}
          aria-label={`Comment on ${text}`}
          onClick={() => {
            setOpen(key)
          }}
        >
          {comment === undefined ? '+' : 'Edit'}
        </button>
        {comment !== undefined && <q className={s.comment}>{comment.text}</q>}
      </>
    )
  }
  return (
    <div className={s.stack}>
      {shown.length === 0 && <p className={s.muted}>No tool call shows a change of a file.</p>}
      {shown.map(({ id, path, before, after }) => (
        <figure key={id} className={s.stack}>
          <figcaption className={s.muted}>{path ?? 'a file'}</figcaption>
          <Diff before={before} after={after} label={`Change of ${path ?? 'a file'}`} beside={beside(id, path ?? 'a file')} />
        </figure>
      ))}
      {send.isError && <Problem error={send.error} />}
      {sorted.length > 0 && (
        <div>
          <Button
            look="primary"
            disabled={send.isPending}
            onClick={() => {
              send.mutate(messageOf(sorted))
            }}
          >
            Send {sorted.length === 1 ? '1 comment' : `${String(sorted.length)} comments`} as one message
          </Button>
        </div>
      )}
    </div>
  )
}

function CommentForm({
  line,
  before,
  onSave,
  onClose,
}: {
  line: string
  before: string
  onSave: (text: string) => void
  onClose: () => void
}) {
  const [text, setText] = useState(before)
  return (
    <form
      className={s.comment}
      onSubmit={(event) => {
        event.preventDefault()
        onSave(text.trim())
      }}
    >
      <Field label={`Comment on ${line}`}>
        <textarea
          className={s.input}
          rows={2}
          value={text}
          // The person has just asked for this field.
          // eslint-disable-next-line jsx-a11y/no-autofocus
          autoFocus
          onChange={({ target }) => {
            setText(target.value)
          }}
          onKeyDown={(event) => {
            if (event.key === 'Escape') onClose()
            if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) event.currentTarget.form?.requestSubmit()
          }}
        />
      </Field>
      <div className={s.row}>
        <Button type="submit" look="primary">
          Keep the comment
        </Button>
        <Button onClick={onClose}>Cancel</Button>
      </div>
    </form>
  )
}
