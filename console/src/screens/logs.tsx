import { memo, useEffect, useLayoutEffect, useRef, useState } from 'react'
import { api, data } from '../api/client'
import type { LogChunkView } from '../api/types'
import { blobPath } from '../api/whole'
import type { SessionFollower } from '../live/session'
import { useStore } from '../live/store'
import { ActionButton, Button, Empty, s } from '../ui'
import { download } from '../ui/download'
import { Badge } from '../ui/status'
import { Clock } from '../ui/time'
import c from './screens.module.css'

/** The distance from the end, in pixels, within which the list follows new chunks. */
const AT_END = 40

/** The log of a session, live. It follows new chunks only while it is scrolled to its end. */
export const Logs = memo(function Logs({ follower, isCaughtUp }: { follower: SessionFollower; isCaughtUp: boolean }) {
  const { id, log } = follower
  const { chunks, hasEarlier } = useStore(log.state)
  const view = useRef<HTMLDivElement>(null)
  const isAtEnd = useRef(true)
  const [isFollowing, setFollowing] = useState(true)
  const first = useRef(chunks[0]?.sequenceNumber)
  useLayoutEffect(() => {
    const element = view.current
    if (element === null) return
    const begin = chunks[0]?.sequenceNumber
    const former = first.current === begin ? null : element.querySelector<HTMLElement>(`[data-chunk="${String(first.current)}"]`)
    // Earlier chunks were added: show them above the former first one.
    if (former !== null) element.scrollTop = former.offsetTop
    else if (isAtEnd.current) element.scrollTop = element.scrollHeight
    first.current = begin
  }, [chunks])
  useEffect(() => log.keepFor(() => !isAtEnd.current), [log])
  return (
    <div className={s.stack}>
      <div className={s.row} style={{ justifyContent: 'space-between' }}>
        <span className={`${s.muted ?? ''} ${s.small ?? ''}`} role="status">
          {isCaughtUp ? `${String(chunks.length)} parts of the log, live` : 'Loading …'}
        </span>
        <span className={s.row}>
          {hasEarlier && <ActionButton action={() => log.loadEarlier()}>Load earlier</ActionButton>}
          <Button
            disabled={isFollowing}
            onClick={() => {
              isAtEnd.current = true
              if (view.current !== null) view.current.scrollTop = view.current.scrollHeight
            }}
          >
            To the end
          </Button>
        </span>
      </div>
      <div
        className={c.timeline}
        // The browser keeps what the person reads when chunks leave memory.
        style={{ position: 'relative', overflowAnchor: 'auto' }}
        ref={view}
        role="region"
        aria-label="Logs"
        // A region with overflow must be reachable for the keyboard.
        // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
        tabIndex={0}
        onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
          isAtEnd.current = scrollHeight - scrollTop - clientHeight < AT_END
          setFollowing(isAtEnd.current)
        }}
      >
        {isCaughtUp && chunks.length === 0 && (
          <Empty>{hasEarlier ? 'The last entries have no log.' : 'The session has no log yet.'}</Empty>
        )}
        {chunks.map((chunk) => (
          <Chunk key={chunk.sequenceNumber} id={id} chunk={chunk} />
        ))}
      </div>
    </div>
  )
})

const Chunk = memo(function Chunk({ id, chunk }: { id: string; chunk: LogChunkView }) {
  const { sequenceNumber, stream, content, truncated, blob, recordedAt } = chunk
  return (
    <div className={c.logChunk} data-chunk={sequenceNumber}>
      <small className={s.muted}>
        <Clock at={recordedAt} />
      </small>
      <small className={s.muted}>{stream}</small>
      <pre>
        {content.trimEnd()}
        {truncated && (
          <>
            {' '}
            <Badge>shortened</Badge>
          </>
        )}
        {blob != null && (
          <>
            {' '}
            <ActionButton action={() => saveBlob(id, blob, sequenceNumber)}>Download all of it</ActionButton>
          </>
        )}
      </pre>
    </div>
  )
})

/** Saves the event with the whole text, as JSON. */
async function saveBlob(id: string, blob: string, sequenceNumber: number): Promise<void> {
  const params = { path: blobPath(id, blob) }
  const content: unknown = await data(api.GET('/api/agents/sessions/{id}/blobs/{sha256}', { params, parseAs: 'blob' }))
  download(content as Blob, `log-${String(sequenceNumber)}.json`)
}
