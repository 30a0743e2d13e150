/** Calls `action` at once, and then at most once in `interval` milliseconds, also after the last request for it. */
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
