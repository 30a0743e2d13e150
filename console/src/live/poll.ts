import { onChangeCarriedOut } from '../api/client'
import { readUntilDone } from './follow'

/** The wait after a read that has found a change, in milliseconds. It doubles after each one that has not, up to `LONGEST_WAIT`. */
const SHORTEST_WAIT = 2_000
const LONGEST_WAIT = 30_000
/** The wait after a change by this page, or after the page was shown again. */
const SOON = 500

function isHidden(): boolean {
  return document.visibilityState === 'hidden'
}

/**
 * Follows a list that no stream reports, by reading it again and again while the page is visible. `read` reports whether it has found
 * a change.
 */
export function poll(name: string, read: () => Promise<boolean>): () => void {
  let isClosed = false
  let isReading = false
  let wait = SHORTEST_WAIT
  let timer: ReturnType<typeof setTimeout> | undefined
  const readNow = async (): Promise<void> => {
    if (isReading || isHidden()) return
    isReading = true
    wait = Math.min(wait * 2, LONGEST_WAIT)
    const readOnce = async () => {
      if (await read()) wait = SHORTEST_WAIT
    }
    // A read that fails is not repeated while nobody sees the page. The next one follows when it is shown again.
    await readUntilDone(name, readOnce, () => isClosed || isHidden())
    isReading = false
    if (!isClosed) readAfter(wait)
  }
  const readAfter = (delay: number): void => {
    clearTimeout(timer)
    timer = setTimeout(() => void readNow(), delay)
  }
  const readSoon = (): void => {
    wait = SHORTEST_WAIT
    // A read that is under way may precede the change. The next one follows it after the shortest wait.
    if (!isReading) readAfter(SOON)
  }
  const stopListening = onChangeCarriedOut(readSoon)
  document.addEventListener('visibilitychange', readSoon)
  window.addEventListener('online', readSoon)
  void readNow()
  return () => {
    isClosed = true
    clearTimeout(timer)
    stopListening()
    document.removeEventListener('visibilitychange', readSoon)
    window.removeEventListener('online', readSoon)
  }
}
