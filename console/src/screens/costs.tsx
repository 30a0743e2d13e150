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

function exportCsv(sessions: readonly SessionSummary[]): void {
  const lines = sessions.map(({ id, name, status, createdAt, totalCostUsd, hardCapUsd }) =>
    [id, name, status, createdAt, totalCostUsd, hardCapUsd].map(quoted).join(','),
  )
  const text = ['session,name,status,created,spent_usd,cap_usd', ...lines].join('\n')
  download(new Blob([text], { type: 'text/csv' }), 'pilothouse-costs.csv')
}

const DAYS = [7, 30, 90] as const

/** The spend of the sessions of a period. A session counts for the day on which it was created. */
export function CostsScreen() {
  const { sessions, isLoaded } = useStore(roster)
  const [days, setDays] = useState<number>(30)
  const portfolio = useQuery(portfolioQuery)
  const [today] = useState(() => Date.now())
  const { chosen, byDay } = useMemo(() => {
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
    return { chosen, byDay }
  }, [sessions, days, today])
  const most = byDay.reduce((most, { spent }) => (compareAmounts(spent, most) > 0 ? spent : most), '0')
  const dearest = chosen.toSorted((a, b) => compareAmounts(b.totalCostUsd, a.totalCostUsd)).slice(0, 50)
  const save = () => {
    exportCsv(chosen)
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
      </Card>
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
