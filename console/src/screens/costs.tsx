import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import type { SessionSummary } from '../api/types'
import { useActions } from '../app/keyboard'
import { portfolioQuery } from '../app/lists'
import { roster } from '../live/roster'
import { useStore } from '../live/store'
import { Button, Card, Choice, Empty, s } from '../ui'
import { download } from '../ui/download'
import { add, compareAmounts, dollars, share } from '../ui/money'
import { useToday } from '../ui/time'
import { UsageTable, usageByModel } from './usage'
import c from './screens.module.css'

/** The local day of a time, as a text that sorts by time. */
function dayOf(date: Date): string {
  const two = (number: number) => String(number).padStart(2, '0')
  return `${String(date.getFullYear())}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
}

function sum(sessions: readonly SessionSummary[]): string {
  return add(sessions.map(({ totalCostUsd }) => totalCostUsd))
}

function quoted(text: string): string {
  // A leading sign would make a spreadsheet evaluate the text.
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return `"${safe.replaceAll('"', '""')}"`
}

const COLUMNS = [
  ...['session', 'name', 'status', 'created', 'project', 'labels', 'model'],
  ...['input_tokens', 'output_tokens', 'cache_read_tokens', 'cache_write_tokens', 'spent_usd', 'cap_usd'],
]

/** The rows of a session: one for each model, and one for the cost without a model. `spent_usd` adds up to the spend of the session. */
function rowsOf(session: SessionSummary, projects: ReadonlyMap<string, string>): string[][] {
  const { id, name, status, createdAt, project, labels, hardCapUsd } = session
  const projectId = project?.projectId ?? ''
  const common = [
    ...[id, name, status, createdAt, projects.get(projectId) ?? projectId],
    Object.entries(labels)
      .map(([label, value]) => `${label}=${value}`)
      .join('; '),
  ]
  const { models, unattributed } = usageByModel([session])
  const rows = models.map(({ model, tokens, cost }) => {
    const counts = [tokens.inputTokens, tokens.outputTokens, tokens.cacheReadTokens, tokens.cacheWriteTokens]
    return [...common, model, ...counts.map(String), cost ?? '', hardCapUsd]
  })
  if (unattributed !== '0' || rows.length === 0) rows.push([...common, '', '', '', '', '', unattributed, hardCapUsd])
  return rows
}

function exportCsv(sessions: readonly SessionSummary[], projects: ReadonlyMap<string, string>): void {
  const lines = sessions.flatMap((session) => rowsOf(session, projects)).map((row) => row.map(quoted).join(','))
  download(new Blob([[COLUMNS.join(','), ...lines].join('\n')], { type: 'text/csv' }), 'pilothouse-costs.csv')
}

const DAYS = [7, 30, 90] as const

/** The spend of the sessions of a period. The server does not record the day of spend, so a session counts for the day of its creation. */
export function CostsScreen() {
  const { sessions, isLoaded } = useStore(roster)
  const [days, setDays] = useState<number>(30)
  const portfolio = useQuery(portfolioQuery)
  const today = useToday()
  const { chosen, byDay, usage } = useMemo(() => {
    const onDay = new Map<string, SessionSummary[]>()
    for (let back = days - 1; back >= 0; back--) {
      const date = new Date(today)
      date.setDate(date.getDate() - back)
      onDay.set(dayOf(date), [])
    }
    const first = onDay.keys().next().value ?? ''
    const chosen: SessionSummary[] = []
    for (const session of sessions.values()) {
      const day = dayOf(new Date(session.createdAt))
      if (day >= first) chosen.push(session)
      onDay.get(day)?.push(session)
    }
    const byDay = [...onDay].map(([day, sessions]) => ({ day, spent: sum(sessions) }))
    return { chosen, byDay, usage: usageByModel(chosen) }
  }, [sessions, days, today])
  const most = byDay.reduce((most, { spent }) => (compareAmounts(spent, most) > 0 ? spent : most), '0')
  const dearest = chosen.toSorted((a, b) => compareAmounts(b.totalCostUsd, a.totalCostUsd)).slice(0, 50)
  const save = () => {
    exportCsv(chosen, new Map(portfolio.data?.items.map(({ projectId, name }) => [projectId, name])))
  }
  useActions(chosen.length === 0 ? [] : [{ label: 'Export the costs as CSV', run: save }])
  return (
    <div className={s.stack}>
      <div className={c.head} style={{ marginBottom: 0 }}>
        <h1>Costs</h1>
        <span className={s.row}>
          <Choice
            label="Period"
            options={DAYS.map((days) => [String(days), `Last ${String(days)} days`])}
            value={String(days)}
            onChange={(days) => {
              setDays(Number(days))
            }}
          />
          <Button
            disabled={chosen.length === 0}
            onClick={save}
          >
            Export CSV
          </Button>
        </span>
      </div>
      {isLoaded && chosen.length === 0 && <Empty>No session was created in this period.</Empty>}
      <Card title={`${dollars(sum(chosen))} in ${String(chosen.length)} sessions`}>
        <div
          className={c.bars}
          role="img"
          aria-label={`Spend by day, at most ${dollars(most)} on one day; the table below has the sessions`}
        >
          {byDay.map(({ day, spent }) => (
            <div
              key={day}
              className={c.bar}
              style={{ height: `${String(share(spent, most))}%` }}
              title={`${day}: ${dollars(spent)}`}
            />
          ))}
        </div>
        <div className={`${s.cardHead ?? ''} ${s.muted ?? ''} ${s.small ?? ''}`}>
          <span>{byDay[0]?.day}</span>
          <span>{byDay.at(-1)?.day}</span>
        </div>
        <p className={`${s.muted ?? ''} ${s.small ?? ''}`}>All spend of a session counts for the day on which it was created.</p>
      </Card>
      {usage.models.length > 0 && (
        <Card title="By model">
          <UsageTable usage={usage} />
        </Card>
      )}
      {(portfolio.data?.items.length ?? 0) > 0 && (
        <Card title="By project">
          <table className={s.table}>
            <thead>
              <tr>
                <th>Project</th>
                <th className={s.number}>Spent in all</th>
              </tr>
            </thead>
            <tbody>
              {portfolio.data?.items.map(({ projectId, name, spentUsd }) => (
                <tr key={projectId}>
                  <td>
                    <Link to="/projects/$id" params={{ id: projectId }}>
                      {name}
                    </Link>
                  </td>
                  <td className={s.number}>{dollars(spentUsd)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Card>
      )}
      <Card title="By session">
        <table className={s.table}>
          <thead>
            <tr>
              <th>Session</th>
              <th className={s.number}>Spent</th>
              <th className={s.number}>Cap</th>
            </tr>
          </thead>
          <tbody>
            {dearest.map(({ id, name, totalCostUsd, hardCapUsd }) => (
              <tr key={id}>
                <td>
                  <Link to="/sessions/$id" params={{ id }}>
                    {name}
                  </Link>
                </td>
                <td className={s.number}>{dollars(totalCostUsd)}</td>
                <td className={s.number}>{dollars(hardCapUsd)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Card>
    </div>
  )
}
