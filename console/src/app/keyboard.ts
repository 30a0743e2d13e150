import { useEffect, useRef } from 'react'

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
}

/** Whether a key has an effect of its own on the focused element. A focused region scrolls by the arrow keys. */
function belongsToFocus({ key, target }: KeyboardEvent): boolean {
  if (!(target instanceof Element)) return false
  if (key === 'Enter') return target.closest('a[href], button, summary') !== null
  return key.startsWith('Arrow') && target.closest('[tabindex="0"]') !== null
}

/** An action of the screen. The command palette lists it by its label. */
export interface Action {
  label: string
  key?: string
  run: () => void
}

/** The actions of each component on the screen, in the order in which the components appeared. */
const offered = new Set<{ current: readonly Action[] }>()

/** The actions of all components on the screen. */
export function offeredActions(): readonly Action[] {
  return [...offered].flatMap(({ current }) => current)
}

/** Offers actions by their keys and in the command palette while the component is on the screen. */
export function useActions(actions: readonly Action[]): void {
  useKeys(Object.fromEntries(actions.flatMap(({ key, run }) => (key === undefined ? [] : [[key, run]]))))
  const latest = useRef(actions)
  useEffect(() => {
    latest.current = actions
  })
  useEffect(() => {
    offered.add(latest)
    return () => {
      offered.delete(latest)
    }
  }, [])
}

/** The longest time between the keys of a pair like `g i`, in milliseconds. */
const PAIR = 1_000

/**
 * Calls the action of a key, or of a pair like `g i`, unless the focus is in a text field or on an element with another use for the key, or
 * a dialog is open. Keys with Ctrl or Alt belong to the browser.
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
      if (belongsToFocus(event)) return
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
