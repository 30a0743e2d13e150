import { Store, useStore } from '../live/store'

/** Advances every 15 seconds, so that all relative times of the page change together. */
const clock = new Store(Date.now())

function dayOf(date: Date): string {
  return date.toDateString()
}

/** The day in the reader's zone. It is a store of its own, so that the times of a day change once when it ends. */
const today = new Store(dayOf(new Date()))
setInterval(() => {
  clock.set(Date.now())
  today.set(dayOf(new Date()))
}, 15_000)

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })
const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' })
const timeOfDay = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' })
const relative = new Intl.RelativeTimeFormat(undefined, { style: 'narrow', numeric: 'auto' })

function distance(milliseconds: number): string {
  const seconds = Math.round(milliseconds / 1000)
  const size = Math.abs(seconds)
  if (size < 20) return 'now'
  if (size < 60) return relative.format(seconds, 'second')
  if (size < 3600) return relative.format(Math.round(seconds / 60), 'minute')
  if (size < 86_400) return relative.format(Math.round(seconds / 3600), 'hour')
  return relative.format(Math.round(seconds / 86_400), 'day')
}

/** The present day in the reader's zone, as a text that `Date` parses. */
export function useToday(): string {
  return useStore(today)
}

/** The distance of a time from now. The title has the exact time in the reader's zone. */
export function Ago({ at }: { at: string }) {
  const now = useStore(clock)
  const date = new Date(at)
  return (
    <time dateTime={at} title={exact.format(date)}>
      {distance(date.getTime() - now)}
    </time>
  )
}

/** The time of day in the reader's zone, after the date unless it is today. */
export function Clock({ at }: { at: string }) {
  const date = new Date(at)
  const isToday = useToday() === dayOf(date)
  return (
    <time dateTime={at} title={exact.format(date)}>
      {!isToday && (
        <>
          <span style={{ whiteSpace: 'nowrap' }}>{day.format(date)}</span>{' '}
        </>
      )}
      {timeOfDay.format(date)}
    </time>
  )
}
