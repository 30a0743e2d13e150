import { useMutation, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api, data } from '../api/client'
import { allPages } from '../api/pages'
import { useRequestKey } from '../api/requestKey'
import type { DecisionView, ToolCallView } from '../api/types'
import { isFields, isShortened, wholeInput } from '../api/whole'
import { Button, Empty, Problem, s, TextForm } from '../ui'
import { Diff, SIGN, type Line } from '../ui/diff'
import { Shortened } from '../ui/shortened'
import { toast } from '../ui/toasts'
import { changeLabel, changesOf, type Change } from '../ui/toolInput'

type Output = Extract<DecisionView, { kind: 'output_review' }>

/** A comment on a line. */
interface Comment {
  where: string
  line: string
  text: string
}

/** The changes by one call, or by the result. */
interface Changed {
  id: string
  /** The name of what changed: the path of a file, if it is known. */
  name: string
  changes: readonly Change[]
  /** The call, while only the beginning of its input is shown. */
  shortened?: ToolCallView
}

/** The changes of a call. A shortened input may hide them, unless it has a command. */
function changed(call: ToolCallView, input: unknown, isWhole: boolean): Changed[] {
  const { changes } = changesOf(input)
  const mayHide = !isWhole && !(isFields(input) && 'command' in input)
  if (changes.length === 0 && !mayHide) return []
  const name = changes.length === 0 ? `a call of ${call.toolName}` : (changes[0]?.path ?? 'a file')
  return [{ id: call.id, name, changes, ...(isWhole ? {} : { shortened: call }) }]
}

/** The message to the agent: all comments, in the order of the changes and their lines. */
function messageOf(comments: readonly Comment[]): string {
  const parts = comments.map(({ where, line, text }, at) => `${String(at + 1)}. ${where}, at \`${line}\`:\n${text}`)
  return `Comments on your output:\n\n${parts.join('\n\n')}`
}

/** The key of a change, to which a comment adds the number of its line. */
function keyOf(id: string, at: number): string {
  return `${id}/${String(at)}`
}

/** The changes of files by the agent's tool calls, and the result of its output. Comments on lines are sent as one message. */
export default function Review({ decision, sessionId }: { decision: Output; sessionId: string }) {
  const changes = useQuery({
    queryKey: ['changes', sessionId, decision.outputId],
    queryFn: async () => {
      const path = '/api/agents/sessions/{id}/tool-calls'
      const calls = await allPages((cursor) =>
        data(api.GET(path, { params: { path: { id: sessionId }, query: { limit: 100, cursor } as never } })),
      )
      return calls.filter(({ result }) => result?.isError !== true)
    },
  })
  const [whole, setWhole] = useState<ReadonlyMap<string, unknown>>(new Map())
  const [comments, setComments] = useState<ReadonlyMap<string, Comment>>(new Map())
  const [open, setOpen] = useState<string>()
  const key = useRequestKey()
  const send = useMutation({
    mutationFn: ({ content }: { content: string; sent: ReadonlyMap<string, Comment> }) =>
      api.POST('/api/agents/sessions/{id}/messages/queue', {
        params: { path: { id: sessionId }, header: key.header(content) },
        body: { content, priority: 'Immediate' } as never,
      }),
    onSuccess: (_data, { sent }) => {
      key.renew()
      // Comments that were written or changed meanwhile stay.
      setComments((now) => new Map([...now].filter(([at, comment]) => sent.get(at) !== comment)))
      toast('The comments are sent as one message.')
    },
  })
  if (changes.isLoadingError) return <Problem error={changes.error} />
  if (changes.data === undefined) return <Empty>Loading …</Empty>
  const { result } = decision.output
  const shown = changes.data.flatMap((call) =>
    whole.has(call.id) ? changed(call, whole.get(call.id), true) : changed(call, call.input, !isShortened(call)),
  )
  if (result !== undefined && result !== null) {
    const text = JSON.stringify(result, null, 2)
    shown.push({ id: 'result', name: 'result', changes: [{ path: 'result', before: '', after: text }] })
  }
  const keys = shown.flatMap(({ id, changes }) => changes.map((_, at) => keyOf(id, at)))
  const [callOf, lineOf] = [(key: string) => keys.indexOf(key.split('\n')[0] ?? ''), (key: string) => Number(key.split('\n')[1])]
  const sorted = [...comments].sort(([a], [b]) => callOf(a) - callOf(b) || lineOf(a) - lineOf(b)).map(([, comment]) => comment)
  const beside = (id: string, where: string) => (line: Line, number: number) => {
    if (line.kind === 'gap') return null
    const at = `${id}\n${String(number)}`
    const comment = comments.get(at)
    const text = `${SIGN[line.kind]}${line.text}`.trim()
    if (open === at) {
      return (
        <div className={s.comment}>
          <TextForm
            label={`Comment on ${text}`}
            submit="Keep the comment"
            initial={comment?.text}
            onCancel={() => {
              setOpen(undefined)
            }}
            onSubmit={(written) => {
              setComments((now) => {
                const changed = new Map(now)
                if (written === '') changed.delete(at)
                else changed.set(at, { where, line: text, text: written })
                return changed
              })
              setOpen(undefined)
            }}
          />
        </div>
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
            setOpen(at)
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
      {shown.length === 0 && <p className={s.muted}>No tool call changed a file.</p>}
      {shown.map(({ id, name, changes, shortened }) => (
        <figure key={id} className={s.stack}>
          <figcaption className={s.muted}>{name}</figcaption>
          {shortened !== undefined && (
            <Shortened
              what={`change of ${name}`}
              read={async () => {
                const input = await wholeInput(sessionId, shortened)
                setWhole((now) => new Map(now).set(id, input))
              }}
            />
          )}
          {changes.map((change, at) => (
            <Diff
              key={at}
              before={change.before}
              after={change.after}
              label={changeLabel(change, at, changes.length)}
              beside={beside(keyOf(id, at), name)}
            />
          ))}
        </figure>
      ))}
      {send.isError && <Problem error={send.error} />}
      {sorted.length > 0 && (
        <div>
          <Button
            look="primary"
            disabled={send.isPending}
            onClick={() => {
              send.mutate({ content: messageOf(sorted), sent: comments })
            }}
          >
            Send {sorted.length === 1 ? '1 comment' : `${String(sorted.length)} comments`} as one message
          </Button>
        </div>
      )}
    </div>
  )
}
