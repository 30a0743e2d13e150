import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api, data } from '../api/client'
import type { BriefingLimit, BriefingLink, BriefingSection } from '../api/types'
import { Button, Card, Choice, Problem, s } from '../ui'
import { dollars } from '../ui/money'
import { Ago, Clock } from '../ui/time'

/** The periods to choose from, by their hours. */
const PERIODS = [
  ['1', 'The last hour'],
  ['24', 'The last 24 hours'],
  ['168', 'The last 7 days'],
  ['720', 'The last 30 days'],
] as const

const LIMITS: Record<BriefingLimit, string> = {
  decisions: 'more than 1,000 decisions are open',
  decision_log: 'the decision log has more than 1,000 entries of the period',
  sessions: 'some entries of sessions are older than those that it reads, or have expired',
}

/** The element of the decision log on the screen of a project. */
export const DECISION_LOG = 'decision-log'

/** The element of the goals and the spending cap on the screen of a project. */
export const GOALS = 'goals'

/** The element of an open decision on the screen of a project. */
export function decisionElement(id: string): string {
  return `decision-${id}`
}

/** The attention, results, risks, automatic decisions and cost of a project in a period, composed by the server. */
export function BriefingCard({ projectId, open }: { projectId: string; open: ReadonlySet<string> }) {
  const [hours, setHours] = useState('24')
  const briefing = useQuery({
    queryKey: ['briefing', projectId, hours],
    queryFn: () => {
      const since = new Date(Date.now() - Number(hours) * 3_600_000).toISOString()
      return data(api.GET('/api/projects/{id}/briefing', { params: { path: { id: projectId }, query: { since } } }))
    },
    placeholderData: keepPreviousData,
  })
  const part = (title: string, section: BriefingSection, children?: React.ReactNode) => (
    <Part title={title} section={section} projectId={projectId} open={open}>
      {children}
    </Part>
  )
  return (
    <Card
      title="Briefing"
      aside={
        <span className={s.row}>
          <Choice label="Period" options={PERIODS} value={hours} onChange={setHours} />
          <Button disabled={briefing.isFetching} onClick={() => void briefing.refetch()}>
            Read again
          </Button>
        </span>
      }
    >
      {briefing.isError && <Problem error={briefing.error} />}
      {briefing.data !== undefined && (
        <div className={s.stack} aria-busy={briefing.isFetching}>
          {part('Needs you', briefing.data.attention)}
          {part('Finished', briefing.data.finished)}
          {part('At risk', briefing.data.risks)}
          {part('Decided automatically', briefing.data.automaticDecisions)}
          {part(
            'Cost',
            briefing.data.cost,
            <p>
              {briefing.data.cost.isPartial === true && 'At least '}
              <strong>{dollars(briefing.data.cost.spentUsd)}</strong> in the period, {dollars(briefing.data.cost.totalUsd)} so far
              {briefing.data.cost.spendingCap != null && ` of ${dollars(briefing.data.cost.spendingCap.usd)}`}
            </p>,
          )}
          <p className={s.muted}>
            Read at <Clock at={briefing.data.until} />. Times in the sentences are in UTC.
            {(briefing.data.incomplete ?? []).map((limit) => ` It is not complete: ${LIMITS[limit]}.`)}
          </p>
        </div>
      )}
    </Card>
  )
}

function Part({
  title,
  section: { count, sentences },
  projectId,
  open,
  children,
}: {
  title: string
  section: BriefingSection
  projectId: string
  open: ReadonlySet<string>
  children: React.ReactNode
}) {
  return (
    <div role="group" aria-label={title}>
      <h3>
        {title} {count > 0 && `(${String(count)})`}
      </h3>
      {children}
      {count === 0 && children === undefined && <p className={s.muted}>Nothing.</p>}
      {count > 0 && (
        <ul>
          {/* Several sentences may have the same text and time. */}
          {sentences.map(({ text, at, eventCount, links }, index) => (
            <li key={index}>
              {text}{' '}
              <span className={s.muted}>
                (<Ago at={at} />:{' '}
                {links.map((link, number) => (
                  <span key={link.href}>
                    {number > 0 && ', '}
                    <SourceLink link={link} projectId={projectId} open={open} />
                  </span>
                ))}
                {eventCount > links.length && `, and ${String(eventCount - links.length)} more`})
              </span>
            </li>
          ))}
        </ul>
      )}
      {count > sentences.length && (
        <p className={s.muted}>
          {sentences.length} of {count} are shown.
        </p>
      )}
    </div>
  )
}

/** The place of the console that shows an event or a state of the briefing. */
function SourceLink({ link, projectId, open }: { link: BriefingLink; projectId: string; open: ReadonlySet<string> }) {
  const within = (hash: string, text: string) => (
    <Link to="/projects/$id" params={{ id: projectId }} hash={hash}>
      {text}
    </Link>
  )
  switch (link.type) {
    case 'decision': {
      const isOpen = open.has(link.decisionId)
      return within(isOpen ? decisionElement(link.decisionId) : DECISION_LOG, 'decision')
    }
    case 'decision_log':
      return within(DECISION_LOG, 'decision log')
    case 'brake':
      return within(DECISION_LOG, 'brake')
    case 'project':
      return within(GOALS, 'project')
    case 'session_event':
    case 'session':
    case 'usage':
      return (
        <Link to="/sessions/$id" params={{ id: link.sessionId }}>
          {link.type === 'session_event' ? `session, entry ${String(link.sequence)}` : link.type}
        </Link>
      )
  }
}
