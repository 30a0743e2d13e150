import { useQuery } from '@tanstack/react-query'
import { lazy, Suspense, useState } from 'react'
import { api, data } from '../api/client'
import type { DecisionView } from '../api/types'
import { Button, Problem, s } from '../ui'
import { Code } from '../ui/toolInput'

const Review = lazy(() => import('./review'))

type Output = Extract<DecisionView, { kind: 'output_review' }>

/** The output that a person reviews. */
export function OutputFacts({ decision }: { decision: Output }) {
  const { filesChanged, testsAdded, allTestsPassing, commitSha, violations, guardrails } = decision.output
  return (
    <>
      <p>
        {filesChanged} files changed, {testsAdded} tests added,{' '}
        {allTestsPassing ? 'all tests pass' : 'not all tests pass'}
        {commitSha != null && (
          <>
            , commit <code>{commitSha}</code>
          </>
        )}
      </p>
      {violations?.map((violation) => (
        <p key={JSON.stringify(violation)} className={s.problem}>
          {violation.path} {violation.message}
        </p>
      ))}
      {guardrails?.map(({ name, action, description }) => (
        <p key={name} className={s.problem}>
          Guardrail {name} ({action}){description == null ? '' : `: ${description}`}
        </p>
      ))}
      {decision.sessionId !== undefined && <Changes decision={decision} sessionId={decision.sessionId} />}
    </>
  )
}

/** The changes of an output. They are read when a person opens them. */
function Changes({ decision, sessionId }: { decision: Output; sessionId: string }) {
  const [isOpen, setOpen] = useState(false)
  const [wasOpened, setOpened] = useState(false)
  return (
    <>
      <div>
        <Button
          aria-expanded={isOpen}
          onClick={() => {
            setOpen((now) => !now)
            setOpened(true)
          }}
        >
          Review the changes
        </Button>
      </div>
      {/* Hidden changes keep the comments that are not sent yet. */}
      {wasOpened && (
        <div hidden={!isOpen}>
          <Suspense fallback={<p>Loading …</p>}>
            <Review decision={decision} sessionId={sessionId} />
          </Suspense>
        </div>
      )}
    </>
  )
}

export function Plan({ sessionId, version }: { sessionId: string; version: number }) {
  const plan = useQuery({
    queryKey: ['plan', sessionId, version],
    queryFn: () => data(api.GET('/api/agents/sessions/{id}/plan', { params: { path: { id: sessionId } } })),
  })
  if (plan.isLoadingError) return <Problem error={plan.error} />
  const text = plan.data?.content
  return <Code label="Plan">{text == null ? 'Loading …' : text}</Code>
}
