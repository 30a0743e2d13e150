import { useEffect, useMemo, useState } from 'react'
import type { ActivityView } from '../api/types'

/** How much faster than the agent a replay is. */
export const SPEEDS = [1, 10, 100] as const

/** The bounds of the time between two entries of a replay, in milliseconds. They shorten the waits of the agent. */
const SHORTEST = 30
const LONGEST = 1_500

export interface Replay {
  /** The entries that are shown: all, or those up to the position of a replay. */
  shown: readonly ActivityView[]
  /** The index of the chosen entry, or of the last one. */
  position: number
  /** The id of the chosen entry, if it is shown. */
  chosen: string | undefined
  isReplay: boolean
  isPlaying: boolean
  speed: number
  setSpeed: (speed: number) => void
  /** Chooses an entry. A replay continues from there. */
  moveTo: (index: number) => void
  /** Ends a replay and chooses an entry, which may be loaded only now. */
  choose: (id: string) => void
  /** Plays from the chosen entry, or from the beginning if that is the last one. */
  play: () => void
  pause: () => void
  /** Shows all entries again, and follows new ones. */
  end: () => void
}

/** The replay of a timeline. It starts at any entry, and does not affect the session. */
export function useReplay(items: readonly ActivityView[]): Replay {
  // An id and not an index, because earlier entries may be loaded.
  const [chosen, setChosen] = useState<string>()
  const [isReplay, setReplay] = useState(false)
  const [wantsPlay, setPlaying] = useState(false)
  const [speed, setSpeed] = useState<number>(10)
  const last = items.length - 1
  const found = useMemo(() => (chosen === undefined ? -1 : items.findIndex(({ id }) => id === chosen)), [items, chosen])
  const position = found === -1 ? last : found
  const shown = useMemo(() => (isReplay ? items.slice(0, position + 1) : items), [items, isReplay, position])
  const moveTo = (index: number) => {
    setChosen(items[Math.min(Math.max(index, 0), last)]?.id)
  }
  const next = items[position + 1]
  const now = items[position]
  const isNextLast = position + 1 === last
  const isPlaying = wantsPlay && next !== undefined
  useEffect(() => {
    if (!isPlaying || now === undefined) return
    const gap = (Date.parse(next.timestamp) - Date.parse(now.timestamp)) / speed
    const timer = setTimeout(
      () => {
        setChosen(next.id)
        if (isNextLast) setPlaying(false)
      },
      Math.min(Math.max(gap, SHORTEST), LONGEST),
    )
    return () => {
      clearTimeout(timer)
    }
  }, [isPlaying, speed, now, next, isNextLast])
  return {
    shown,
    position,
    chosen: found === -1 ? undefined : chosen,
    isReplay,
    isPlaying,
    speed,
    setSpeed,
    moveTo,
    choose: (id) => {
      setPlaying(false)
      setReplay(false)
      setChosen(id)
    },
    play: () => {
      if (position === last) moveTo(0)
      setReplay(true)
      setPlaying(true)
    },
    pause: () => {
      setPlaying(false)
    },
    end: () => {
      setPlaying(false)
      setReplay(false)
      setChosen(undefined)
    },
  }
}
