import { useMemo } from 'react'
import type { ActivityItemType, ActivityView } from '../api/types'
import { s } from '../ui'
import c from './screens.module.css'

/** The most columns of the map. Each one summarises neighbouring entries. */
const COLUMNS = 200
/** The height of a lane, in pixels. */
const LANE = 14
/** Subagents with a lane of their own; the others share the last one. */
const LANES = 6

type Tone = 'wait' | 'message' | 'tool' | 'other'

const TONE: Partial<Record<ActivityItemType, Tone>> = {
  UserQuestion: 'wait',
  UserAnswer: 'wait',
  PlanModeExit: 'wait',
  Message: 'message',
  ToolCallStart: 'tool',
  ToolCallEnd: 'tool',
}
const RANK: readonly Tone[] = ['other', 'tool', 'message', 'wait']

export interface Lanes {
  names: readonly string[]
  laneOf: (item: ActivityView) => number
}

/** The lanes of a timeline: the agent, then its subagents in the order of their first entries. */
export function useLanes(items: readonly ActivityView[]): Lanes {
  return useMemo(() => {
    const lanes = new Map<string, number>()
    const names = ['Agent']
    for (const { subAgentId, type, summary } of items) {
      if (subAgentId == null || lanes.has(subAgentId)) continue
      const lane = Math.min(lanes.size + 1, LANES)
      lanes.set(subAgentId, lane)
      if (lane === names.length) names.push(type === 'SubAgentSpawn' ? summary : `Subagent ${String(lane)}`)
      else names[lane] = `Subagents from the ${String(LANES)}th on`
    }
    return { names, laneOf: ({ subAgentId }) => (subAgentId == null ? 0 : (lanes.get(subAgentId) ?? 0)) }
  }, [items])
}

/** The whole timeline as a map with a lane for each subagent. A slider over it moves the timeline, by pointer and by keyboard. */
export function Minimap({
  items,
  lanes: { names, laneOf },
  position,
  onMove,
}: {
  items: readonly ActivityView[]
  lanes: Lanes
  position: number
  onMove: (index: number) => void
}) {
  const columns = Math.max(Math.min(items.length, COLUMNS), 1)
  const cells = useMemo(() => {
    const found = new Map<string, { lane: number; column: number; tone: Tone }>()
    items.forEach((item, at) => {
      const lane = laneOf(item)
      const column = Math.floor((at * columns) / items.length)
      const tone = TONE[item.type] ?? 'other'
      const key = `${String(lane)} ${String(column)}`
      const known = found.get(key)
      if (known === undefined || RANK.indexOf(tone) > RANK.indexOf(known.tone)) found.set(key, { lane, column, tone })
    })
    return [...found.values()]
  }, [items, laneOf, columns])
  const height = names.length * LANE
  const now = items[position]
  return (
    <div className={c.minimap}>
      <ul className={c.laneNames} aria-label="Lanes">
        {names.map((name, lane) => (
          <li key={lane} className={c.clip} data-lane={lane} title={name} style={{ height: LANE }}>
            {name}
          </li>
        ))}
      </ul>
      <div className={c.lanes} style={{ height: Math.max(height, 24) }}>
        <svg viewBox={`0 0 ${String(columns)} ${String(height)}`} preserveAspectRatio="none" aria-hidden="true">
          {cells.map(({ lane, column, tone }) => (
            <rect
              key={`${String(lane)} ${String(column)}`}
              data-tone={tone}
              data-lane={lane}
              x={column}
              y={lane * LANE + 2}
              width={1}
              height={LANE - 4}
            />
          ))}
        </svg>
        <label>
          <span className={s.visuallyHidden}>Position in the timeline</span>
          <input
            type="range"
            min={0}
            max={Math.max(items.length - 1, 0)}
            value={Math.max(position, 0)}
            aria-valuetext={
              now === undefined ? 'no entry' : `entry ${String(position + 1)} of ${String(items.length)}: ${now.summary}`
            }
            onChange={({ target }) => {
              onMove(Number(target.value))
            }}
          />
        </label>
      </div>
    </div>
  )
}
