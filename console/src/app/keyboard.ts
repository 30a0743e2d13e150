import { useEffect, useRef } from 'react'

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
}

/** The longest time between the keys of a pair like `g i`, in milliseconds. */
const PAIR = 1_000

/**
 * Calls the action of a key, or of a pair like `g i`, unless the focus is in a text field or a dialog is open. Keys with Ctrl or Alt belong
 * to the browser.
 */
export function useKeys(actions: Readonly<Record<string, () => void>>): void {
  const latest = useRef(actions)
  useEffect(() => {
    latest.current = actions
  })
  useEffect(() => {
    let first: { key: string; at: number } | undefined
    const press = (event: KeyboardEvent): void => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return
      if (document.querySelector('[role="dialog"], [role="menu"]') !== null) return
      const pair = first !== undefined && event.timeStamp - first.at < PAIR ? `${first.key} ${event.key}` : undefined
      const action = (pair === undefined ? undefined : latest.current[pair]) ?? latest.current[event.key]
      first = { key: event.key, at: event.timeStamp }
      if (action === undefined) return
      event.preventDefault()
      action()
    }
    window.addEventListener('keydown', press)
    return () => {
      window.removeEventListener('keydown', press)
    }
  }, [])
}
