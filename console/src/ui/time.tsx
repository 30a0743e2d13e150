import { Store, useStore } from '../live/store'

/** Advances every 15 seconds, so that all relative times of the page change together. */
const clock = new Store(Date.now())
setInterval(() => {
  clock.set(Date.now())
}, 15_000)

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })
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

export function Clock({ at }: { at: string }) {
  const date = new Date(at)
  return (
    <time dateTime={at} title={exact.format(date)}>
      {timeOfDay.format(date)}
    </time>
  )
}
