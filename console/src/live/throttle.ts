/**
 * How often streams update the page, in milliseconds. Animation frames would not do: a hidden tab has none, so its messages would
 * pile up.
 */
export const FLUSH_MS = 30

/** Returns a function that requests `action`. It runs at once, then at most once in `interval` milliseconds, and after the last request. */
export function throttled(interval: number, action: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined
  let isWanted = false
  const run = (): void => {
    isWanted = false
    action()
    timer = setTimeout(() => {
      timer = undefined
      if (isWanted) run()
    }, interval)
  }
  return () => {
    isWanted = true
    if (timer === undefined) run()
  }
}
