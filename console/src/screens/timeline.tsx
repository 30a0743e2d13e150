import { useVirtualizer } from '@tanstack/react-virtual'
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import type { ActivityItemType, ActivityView, TextMatch } from '../api/types'
import { useActions } from '../app/keyboard'
import { entryOf, entryOfLine, type LiveSession, type SessionFollower } from '../live/session'
import { ActionButton, Button, Choice, Empty, s, showProblem } from '../ui'
import { Clock } from '../ui/time'
import { Minimap, useLanes } from './minimap'
import { SPEEDS, useReplay } from './replay'
import { SessionSearch, usePart } from './sessionSearch'
import c from './screens.module.css'

const SIGN: Record<ActivityItemType, string> = {
  Message: '●',
  ToolCallStart: '▸',
  ToolCallEnd: '✓',
  SubAgentSpawn: '⑂',
  SubAgentComplete: '⑂',
  PlanModeEnter: '☰',
  PlanModeExit: '☰',
  UserQuestion: '?',
  UserAnswer: '!',
  TodoUpdate: '☑',
  StatusChange: '⇒',
  MetricsUpdate: '$',
  SkillEnabled: '+',
  HandoffInitiated: '⇢',
  Notice: 'i',
}

/** The distance from the end, in pixels, within which the list follows new entries. */
const AT_END = 40

/** The words of a search. The texts that it finds have all of them. */
function wordsOf(text: string): string[] {
  return text.toLowerCase().split(/\s+/).filter((word) => word !== '')
}

/** The line that shows a match, or the last line before it. */
function lineOf(lines: readonly ActivityView[], { activityId, journalSequence }: TextMatch): ActivityView | undefined {
  return (
    lines.find(({ id }) => id === activityId) ??
    lines.findLast((line) => entryOfLine(line) <= journalSequence) ??
    lines[0]
  )
}

/**
 * The activity of a session: live, a replay, or a part around an entry that a search found. The list follows new entries only while it is
 * scrolled to its end.
 */
export function Timeline({ follower, live }: { follower: SessionFollower; live: LiveSession }) {
  const [hasUsage, setUsage] = useState(false)
  const part = usePart(follower.id, entryOf(live.session?.cursor ?? '') ?? 0)
  const isPart = part.lines !== undefined
  const lines = part.lines ?? live.activity
  const all = useMemo(
    () => (hasUsage ? lines : lines.filter(({ type }) => type !== 'MetricsUpdate')),
    [lines, hasUsage],
  )
  const lanes = useLanes(all)
  const replay = useReplay(all)
  const items = replay.shown
  const draft = replay.isReplay || isPart ? undefined : live.draft
  const view = useRef<HTMLDivElement>(null)
  const isAtEnd = useRef(true)
  const [isFollowing, setFollowing] = useState(true)
  const virtual = useVirtualizer({
    count: items.length,
    getScrollElement: () => view.current,
    estimateSize: () => 34,
    getItemKey: (at) => items[at]?.id ?? at,
    overscan: 12,
  })
  const first = useRef(items[0]?.id)
  const wasPart = useRef(isPart)
  // The line to scroll to when it is in the list, and the last one that was reached.
  const [target, setTarget] = useState<{ id: string }>()
  const reached = useRef(target)
  const total = virtual.getTotalSize()
  useLayoutEffect(() => {
    const element = view.current
    if (element === null) return
    const at = target === undefined || target === reached.current ? -1 : items.findIndex(({ id }) => id === target.id)
    const hasFirst = wasPart.current === isPart && first.current !== undefined
    const added = hasFirst ? items.findIndex(({ id }) => id === first.current) : 0
    if (added === -1) {
      // The first entries left memory. So do their heights. The others stay, because rows that are shown are not measured again.
      const left = new Set<unknown>(items.map(({ id }) => id))
      for (const id of virtual.itemSizeCache.keys()) {
        if (!left.has(id)) virtual.itemSizeCache.delete(id)
      }
    }
    if (at !== -1) {
      reached.current = target
      virtual.scrollToIndex(at, { align: 'center' })
    } else if (added > 0) {
      // Earlier entries were added: keep what the reader sees.
      virtual.scrollToIndex(added, { align: 'start' })
    } else if (isAtEnd.current && (!isPart || replay.isReplay)) {
      // A part does not follow: later entries that were added are read from their first one on.
      element.scrollTop = element.scrollHeight
    }
    first.current = items[0]?.id
    wasPart.current = isPart
  }, [items, total, virtual, draft, isPart, replay.isReplay, target])
  useEffect(() => {
    const element = view.current
    if (element === null) return
    const scrolled = () => {
      isAtEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < AT_END
      setFollowing(isAtEnd.current)
    }
    element.addEventListener('scroll', scrolled, { passive: true })
    return () => {
      element.removeEventListener('scroll', scrolled)
    }
  }, [])
  useEffect(() => {
    follower.isAtEnd = () => isAtEnd.current && !isPart && !replay.isReplay
    return () => {
      follower.isAtEnd = () => true
    }
  }, [follower, isPart, replay.isReplay])
  const [wanted, setWanted] = useState('')
  const box = useRef<HTMLInputElement>(null)
  const [searched, setSearched] = useState<{ words: string; number: number }>()
  const matches = useMemo(() => {
    const words = wordsOf(wanted)
    if (words.length === 0) return []
    return all.flatMap(({ summary, detail }, at) => {
      const text = `${summary} ${detail ?? ''}`.toLowerCase()
      return words.every((word) => text.includes(word)) ? [at] : []
    })
  }, [all, wanted])
  const now = all[replay.position]
  /** Chooses an entry and shows it, also during a replay. */
  const moveTo = (index: number) => {
    isAtEnd.current = replay.isReplay
    replay.moveTo(index)
    if (!replay.isReplay) virtual.scrollToIndex(index, { align: 'center' })
  }
  /** Shows a match of the whole session. The part around it is loaded if it is before the loaded entries. */
  const show = async (found: TextMatch) => {
    const [begin] = live.activity
    const isLoaded = !live.hasEarlier || (begin !== undefined && entryOfLine(begin) <= found.journalSequence)
    if (isLoaded) part.close()
    const near = isLoaded ? live.activity : await part.open(found.journalSequence)
    if (near === undefined) return
    const line = lineOf(near.filter(({ type }) => type !== 'MetricsUpdate'), found)
    if (line === undefined) return
    isAtEnd.current = false
    replay.choose(line.id)
    setTarget({ id: line.id })
  }
  const searchAll = () => {
    setSearched((before) => ({ words: wanted.trim(), number: (before?.number ?? 0) + 1 }))
  }
  const play = () => {
    isAtEnd.current = true
    replay.play()
  }
  useActions([
    replay.isPlaying ? { label: 'Pause the replay', run: replay.pause } : { label: 'Replay the timeline', run: play },
    ...(wanted.trim() === '' ? [] : [{ label: 'Search the whole session', run: searchAll }]),
  ])
  return (
    <div className={s.stack}>
      {all.length > 1 && (
        <>
          <Minimap items={all} lanes={lanes} position={replay.position} onMove={moveTo} />
          <div className={s.row} role="group" aria-label="Replay">
            {replay.isPlaying ? (
              <Button onClick={replay.pause}>Pause the replay</Button>
            ) : (
              <Button onClick={play}>Replay</Button>
            )}
            <Choice
              label="Speed of the replay"
              options={SPEEDS.map((speed) => [String(speed), `${String(speed)} ×`])}
              value={String(replay.speed)}
              onChange={(speed) => {
                replay.setSpeed(Number(speed))
              }}
            />
            {replay.isReplay && <Button onClick={replay.end}>{isPart ? 'End the replay' : 'Back to live'}</Button>}
            <span className={`${s.muted ?? ''} ${s.small ?? ''}`}>
              entry {replay.position + 1} of {all.length}
              {now !== undefined && (
                <>
                  , <Clock at={now.timestamp} />
                </>
              )}
            </span>
          </div>
        </>
      )}
      <div className={s.row} style={{ justifyContent: 'space-between' }}>
        <form
          className={s.row}
          role="search"
          onSubmit={(event) => {
            event.preventDefault()
            const next = matches.find((at) => at > replay.position) ?? matches[0]
            if (next !== undefined) moveTo(next)
          }}
        >
          <label style={{ flex: '0 1 18rem' }}>
            <span className={s.visuallyHidden}>Find in the timeline</span>
            <input
              className={s.input}
              ref={box}
              type="search"
              placeholder="Find in the timeline"
              maxLength={200}
              value={wanted}
              onChange={({ target }) => {
                setWanted(target.value)
              }}
            />
          </label>
          <Button type="submit" disabled={matches.length === 0}>
            Next
          </Button>
          <Button disabled={wanted.trim() === ''} onClick={searchAll}>
            Search the whole session
          </Button>
          <span className={`${s.muted ?? ''} ${s.small ?? ''}`} role="status">
            {wanted.trim() !== ''
              ? `${String(matches.length)} of ${String(all.length)} loaded entries`
              : !live.isCaughtUp
                ? 'Loading …'
                : replay.isReplay
                  ? 'Replay'
                  : isPart
                    ? `${String(items.length)} entries, a part of the session`
                    : `${String(items.length)} entries, live`}
          </span>
        </form>
        <span className={s.row}>
          <label className={`${s.row ?? ''} ${s.small ?? ''}`}>
            <input
              type="checkbox"
              checked={hasUsage}
              onChange={({ target }) => {
                setUsage(target.checked)
              }}
            />
            Usage
          </label>
          {(isPart ? part.hasEarlier : live.hasEarlier) && (
            <ActionButton action={() => (isPart ? part.loadEarlier() : follower.loadEarlier())}>Load earlier</ActionButton>
          )}
          {part.hasLater && <ActionButton action={part.loadLater}>Load later</ActionButton>}
          <Button
            disabled={isFollowing && !replay.isReplay && !isPart}
            onClick={() => {
              isAtEnd.current = true
              part.close()
              replay.end()
              if (view.current !== null) view.current.scrollTop = view.current.scrollHeight
            }}
          >
            To the end
          </Button>
        </span>
      </div>
      {searched !== undefined && (
        <SessionSearch
          id={follower.id}
          words={searched.words}
          number={searched.number}
          onChoose={(found) => {
            show(found).catch(showProblem)
          }}
          onClose={() => {
            setSearched(undefined)
            // The button that had the focus is gone.
            box.current?.focus()
          }}
        />
      )}
      <div
        className={c.timeline}
        ref={view}
        role="region"
        aria-label="Timeline"
        // A region with overflow must be reachable for the keyboard.
        // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
        tabIndex={0}
      >
        {live.isCaughtUp && items.length === 0 && <Empty>No activity yet.</Empty>}
        <div className={c.virtual} style={{ height: total }}>
          {virtual.getVirtualItems().map(({ index, key, start }) => {
            const item = items[index]
            return item === undefined ? null : (
              <div
                key={key}
                data-index={index}
                ref={virtual.measureElement}
                style={{ transform: `translateY(${String(start)}px)` }}
              >
                <Entry item={item} lane={lanes.laneOf(item)} isChosen={item.id === replay.chosen} />
              </div>
            )
          })}
        </div>
        {draft !== undefined && (
          <div className={c.entry} data-kind="Draft">
            <span className={s.muted}>now</span>
            <span aria-hidden="true">✎</span>
            <p className={draft.kind === 'thinking' ? s.muted : undefined}>
              <span className={s.visuallyHidden}>
                {draft.kind === 'thinking' ? 'The agent is thinking: ' : 'The agent is writing: '}
              </span>
              {draft.text}
            </p>
          </div>
        )}
      </div>
    </div>
  )
}

function Entry({ item, lane, isChosen }: { item: ActivityView; lane: number; isChosen: boolean }) {
  const { type, summary, detail, subAgentId, timestamp } = item
  const [isOpen, setOpen] = useState(false)
  const hasMore = detail != null && detail !== summary
  return (
    <div className={c.entry} data-kind={type} data-lane={lane} data-chosen={isChosen} data-entry={item.id}>
      <Clock at={timestamp} />
      <span aria-hidden="true">{SIGN[type]}</span>
      <div>
        <p>
          {subAgentId != null && <span className={s.muted}>subagent: </span>}
          {isOpen && hasMore ? detail : summary}
        </p>
        {hasMore && (
          <button
            type="button"
            className={c.more}
            aria-expanded={isOpen}
            onClick={() => {
              setOpen((now) => !now)
            }}
          >
            {isOpen ? 'Less' : 'More'}
          </button>
        )}
      </div>
    </div>
  )
}
