import { lazy, memo, Suspense, useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { api, data } from '../api/client'
import type { Page } from '../api/pages'
import type { MessageView, ToolCallView } from '../api/types'
import { isShortened, wholeInput, wholeText } from '../api/whole'
import { throttled } from '../live/throttle'
import { Button, Empty, Problem, s } from '../ui'
import { Shortened } from '../ui/shortened'
import { Badge } from '../ui/status'
import { Clock } from '../ui/time'
import { Code, ToolInput } from '../ui/toolInput'
import c from './screens.module.css'

const AgentText = lazy(() => import('../ui/markdown'))

/** A list in order of time that grows at its end. Its last page is read again after each change. */
function useGrowingList<T extends { id: string }>(
  read: (cursor: string | undefined) => Promise<Page<T>>,
  changes: number,
): { items: readonly T[]; isLoaded: boolean; error: unknown } {
  const [pages, setPages] = useState<ReadonlyMap<string, readonly T[]>>(new Map())
  const [state, setState] = useState<{ isLoaded: boolean; error: unknown }>({ isLoaded: false, error: undefined })
  const last = useRef<string | undefined>(undefined)
  const isReading = useRef(false)
  const requests = useRef(0)
  const readOn = useCallback(async () => {
    requests.current += 1
    if (isReading.current) return
    isReading.current = true
    try {
      let isEnd = false
      let served: number | undefined
      // A change during a read may be missing in its page, so the last page is read once more.
      while (!isEnd || served !== requests.current) {
        served = requests.current
        const cursor = last.current
        const page = await read(cursor)
        setPages((known) => new Map(known).set(cursor ?? '', page.items))
        isEnd = page.nextCursor == null || page.nextCursor === cursor
        last.current = page.nextCursor ?? cursor
      }
      setState({ isLoaded: true, error: undefined })
    } catch (error) {
      setState((now) => ({ ...now, error }))
    } finally {
      isReading.current = false
    }
  }, [read])
  const readSoon = useMemo(() => throttled(700, () => void readOn()), [readOn])
  useEffect(() => {
    readSoon()
  }, [readSoon, changes])
  const items = useMemo(() => [...pages.values()].flat(), [pages])
  return { items, ...state }
}

/** How many items are shown at first, and added by each click, so that a long list opens quickly. */
const SHOWN = 100

function useEnd<T>(items: readonly T[]): { shown: readonly T[]; hidden: number; more: () => void } {
  const [count, setCount] = useState(SHOWN)
  return {
    shown: items.slice(-count),
    hidden: Math.max(0, items.length - count),
    more: () => {
      setCount((now) => now + SHOWN)
    },
  }
}

export function Conversation({ id, changes }: { id: string; changes: number }) {
  const read = useCallback(
    (cursor: string | undefined): Promise<Page<MessageView>> =>
      data(
        api.GET('/api/agents/sessions/{id}/messages', {
          params: { path: { id }, query: { limit: 100, cursor } as never },
        }),
      ),
    [id],
  )
  const { items, isLoaded, error } = useGrowingList(read, changes)
  const { shown, hidden, more } = useEnd(items)
  if (error !== undefined) return <Problem error={error} />
  if (isLoaded && items.length === 0) return <Empty>No messages yet.</Empty>
  return (
    <div className={s.stack}>
      {hidden > 0 && <Button onClick={more}>Show earlier ({hidden})</Button>}
      {shown.map((message) => (
        <Message key={message.id} sessionId={id} message={message} />
      ))}
    </div>
  )
}

const Message = memo(function Message({ sessionId, message }: { sessionId: string; message: MessageView }) {
  const { source, thinking, truncated, blob, timestamp } = message
  const [whole, setWhole] = useState<string>()
  const content = whole ?? message.content
  return (
    <article className={c.bubble} data-source={source}>
      <header className={s.row}>
        <strong>{source === 'SubAgent' ? 'Subagent' : source}</strong>
        {thinking && <Badge>thinking</Badge>}
        <small className={s.muted}>
          <Clock at={timestamp} />
        </small>
      </header>
      {source === 'Agent' || source === 'SubAgent' ? (
        <Suspense fallback={<p style={{ whiteSpace: 'pre-wrap' }}>{content}</p>}>
          <AgentText>{content}</AgentText>
        </Suspense>
      ) : (
        <p style={{ whiteSpace: 'pre-wrap' }}>{content}</p>
      )}
      {truncated && whole === undefined && (
        <Shortened
          what="message"
          read={reader(blob, async (blob) => {
            setWhole(await wholeText(sessionId, blob))
          })}
        />
      )}
    </article>
  )
})

/** Reads a blob on request, if there is one. */
function reader(blob: string | null | undefined, read: (blob: string) => Promise<void>): (() => Promise<void>) | undefined {
  return blob == null ? undefined : () => read(blob)
}

export function ToolCalls({ id, changes }: { id: string; changes: number }) {
  const read = useCallback(
    (cursor: string | undefined): Promise<Page<ToolCallView>> =>
      data(
        api.GET('/api/agents/sessions/{id}/tool-calls', {
          params: { path: { id }, query: { limit: 100, cursor } as never },
        }),
      ),
    [id],
  )
  const { items, isLoaded, error } = useGrowingList(read, changes)
  const { shown, hidden, more } = useEnd(items)
  if (error !== undefined) return <Problem error={error} />
  if (isLoaded && items.length === 0) return <Empty>The agent has not used a tool yet.</Empty>
  return (
    <div className={s.stack}>
      {hidden > 0 && <Button onClick={more}>Show earlier ({hidden})</Button>}
      {shown.map((call) => (
        <ToolCall key={call.id} sessionId={id} call={call} />
      ))}
    </div>
  )
}

const ToolCall = memo(function ToolCall({ sessionId, call }: { sessionId: string; call: ToolCallView }) {
  const { toolName, status, startedAt, result } = call
  const [input, setInput] = useState<{ value: unknown }>()
  const [content, setContent] = useState<string>()
  return (
    <details className={c.bubble}>
      <summary>
        <span className={s.row} style={{ display: 'inline-flex' }}>
          <strong>{toolName}</strong>
          <Badge tone={status === 'Error' ? 'bad' : status === 'Success' ? 'good' : 'busy'}>
            {status === 'Pending' ? 'running' : status.toLowerCase()}
          </Badge>
          <small className={s.muted}>
            <Clock at={startedAt} />
          </small>
        </span>
      </summary>
      <div className={s.stack} style={{ marginTop: '0.6rem' }}>
        {isShortened(call) && input === undefined && (
          <Shortened
            what="input"
            read={async () => {
              setInput({ value: await wholeInput(sessionId, call) })
            }}
          />
        )}
        <ToolInput tool={toolName} input={input === undefined ? call.input : input.value} />
        {result != null && (
          <>
            <h3>{result.isError ? 'Error' : 'Result'}</h3>
            {result.truncated && content === undefined && (
              <Shortened
                what="result"
                read={reader(result.blob, async (blob) => {
                  setContent(await wholeText(sessionId, blob))
                })}
              />
            )}
            <Code label={`Result of ${toolName}`}>{(content ?? result.content) || '(empty)'}</Code>
          </>
        )}
      </div>
    </details>
  )
})
