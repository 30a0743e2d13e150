import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { lazy, Suspense } from 'react'
import { api, data } from '../api/client'
import type { ChainView, ContextPolicy, SessionView } from '../api/types'
import { useReadWithSessions } from '../app/queries'
import { Card, Problem, s } from '../ui'
import { dollars } from '../ui/money'
import { Badge, StatusBadge } from '../ui/status'
import { Ago } from '../ui/time'
import c from './screens.module.css'

const AgentText = lazy(() => import('../ui/markdown'))

/** When a chain is read again whose last session is completed. */
const CHAIN_ENDS_MS = 1_000

export const POLICY: Record<ContextPolicy, string> = {
  handoff: 'A new session continues the work, with a handoff document.',
  compact: 'The agent shortens its conversation and continues.',
}

/** The place of the session in its chain, and the handoff documents that it received and wrote. */
export function Chain({ session }: { session: SessionView }) {
  const { id, chainId, continues, continuation, handoffDocument } = session
  const key = ['chain', chainId ?? '']
  const followed = useReadWithSessions(key)
  const { data: chain, error } = useQuery({
    queryKey: key,
    queryFn: () => data(api.GET('/api/agents/chains/{id}', { params: { path: { id: chainId ?? '' } } })),
    ...followed,
    enabled: followed.enabled && chainId != null,
    // The chain ends shortly after its last session, and no stream reports that.
    refetchInterval: ({ state }) => (session.status === 'Completed' && state.data?.status === 'Active' ? CHAIN_ENDS_MS : false),
  })
  if (chainId == null && handoffDocument == null) return null
  const own = chain?.sessions.find(({ sessionId }) => sessionId === id)
  const received = chain?.handoffDocuments.findLast(({ toSessionId }) => toSessionId === id)
  const written = handoffDocument ?? chain?.handoffDocuments.findLast(({ fromSessionId }) => fromSessionId === id)
  return (
    <Card title="Chain">
      <div className={s.stack}>
        {error !== null && <Problem error={error} />}
        {chain !== undefined && own !== undefined && (
          <p>
            Session <strong>{own.position}</strong> of {chain.sessionCount}{' '}
            <Badge tone={chain.status === 'Completed' ? 'good' : 'plain'}>{chain.status.toLowerCase()}</Badge>{' '}
            <span className={s.muted}>{dollars(chain.totalCostUsd)} together</span>
          </p>
        )}
        <Neighbour label="Before" id={continues} chain={chain} />
        <Neighbour label="After" id={continuation} chain={chain} />
        <p className={`${s.muted ?? ''} ${s.small ?? ''}`}>When the context is full: {POLICY[session.contextPolicy]}</p>
        {received !== undefined && <Handoff label="Handoff document that it received" document={received} />}
        {written !== undefined && <Handoff label="Handoff document that it wrote" document={written} />}
      </div>
    </Card>
  )
}

function Neighbour({ label, id, chain }: { label: string; id: string | null | undefined; chain: ChainView | undefined }) {
  if (id == null) return null
  const session = chain?.sessions.find(({ sessionId }) => sessionId === id)
  return (
    <p className={s.row}>
      {label}:{' '}
      <Link to="/sessions/$id" params={{ id }}>
        {session === undefined ? id : `${session.name}, session ${String(session.position)}`}
      </Link>
      {session !== undefined && <StatusBadge status={session.status} />}
    </p>
  )
}

interface HandoffText {
  createdAt: string
  synthesized?: boolean
  summary?: string | null
  remainingWork?: string | null
  keyDecisions?: string | null
}

/** A handoff document. Its parts are Markdown of an agent. */
function Handoff({ label, document }: { label: string; document: HandoffText }) {
  const { createdAt, synthesized, summary, remainingWork, keyDecisions } = document
  const parts = [
    ['Done', summary],
    ['Remaining work', remainingWork],
    ['Decisions', keyDecisions],
  ] as const
  return (
    <details>
      <summary>
        {label}, <Ago at={createdAt} /> {synthesized === true && <Badge>assembled by Pilothouse</Badge>}
      </summary>
      {/* A region with overflow must be reachable for the keyboard. */}
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <div className={c.document} role="group" aria-label={label} tabIndex={0}>
        {summary == null && <p className={s.muted}>The session that wrote it no longer exists.</p>}
        {parts.map(
          ([title, text]) =>
            text != null && (
              <section key={title} aria-label={title}>
                <h3>{title}</h3>
                <Suspense fallback={<p style={{ whiteSpace: 'pre-wrap' }}>{text}</p>}>
                  <AgentText>{text}</AgentText>
                </Suspense>
              </section>
            ),
        )}
      </div>
    </details>
  )
}
