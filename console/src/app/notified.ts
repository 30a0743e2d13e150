/** Where the page remembers that this browser receives notifications, and which. */
export const NOTIFIED = 'pilothouse-notifications'

/** Runs a function with the path of a notification that the person opened. */
export function onOpened(open: (path: string) => void): () => void {
  if (!('serviceWorker' in navigator)) return () => undefined
  const listener = ({ data }: MessageEvent<{ open?: string }>): void => {
    if (data.open !== undefined) open(data.open)
  }
  navigator.serviceWorker.addEventListener('message', listener)
  return () => {
    navigator.serviceWorker.removeEventListener('message', listener)
  }
}
