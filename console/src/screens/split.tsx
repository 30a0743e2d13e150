import { useEffect, useRef, useState } from 'react'
import { useKeys } from '../app/keyboard'
import { Button } from '../ui'
import c from './screens.module.css'

/**
 * The selected entry of a list. Keys change the selection; new entries do not, so that a tap cannot hit another entry than the one shown.
 * Until the person chooses an entry, the one that was first when the list loaded is selected. `list` identifies the list if filters change it.
 */
export function useSelection(
  ids: readonly string[],
  chosen: string | undefined,
  choose: (id: string) => void,
  list = '',
) {
  const [first, setFirst] = useState<{ list: string; id: string }>()
  if (chosen === undefined && first?.list !== list && ids[0] !== undefined) setFirst({ list, id: ids[0] })
  const selected = chosen ?? (first?.list === list ? first.id : undefined)
  const move = (step: number) => {
    const at = selected === undefined ? -1 : ids.indexOf(selected)
    // From an entry that is no longer listed, both directions lead to the first one.
    const next = at === -1 ? ids[0] : ids[Math.min(Math.max(at + step, 0), ids.length - 1)]
    if (next !== undefined) choose(next)
  }
  const next = () => {
    move(1)
  }
  const previous = () => {
    move(-1)
  }
  useKeys({ j: next, k: previous, ArrowDown: next, ArrowUp: previous })
  return { selected, next }
}

/** A list with the selected entry beside it. On a phone, the entry opens on its own. */
export function Split({
  list,
  selected,
  isOpen,
  back,
  onBack,
  children,
}: {
  list: React.ReactNode
  selected: string | undefined
  isOpen: boolean
  back: string
  onBack: () => void
  children: React.ReactNode
}) {
  const entries = useRef<HTMLDivElement>(null)
  useEffect(() => {
    entries.current?.querySelector('[aria-current="true"]')?.scrollIntoView({ block: 'nearest' })
  }, [selected])
  return (
    <div className={c.split}>
      <div ref={entries} className={isOpen ? c.onlyWide : undefined}>
        {list}
      </div>
      {selected !== undefined && (
        <div className={isOpen ? undefined : c.onlyWide}>
          <div className={c.onlyNarrow} style={{ marginBottom: '0.6rem' }}>
            <Button onClick={onBack}>← {back}</Button>
          </div>
          {children}
        </div>
      )}
    </div>
  )
}

/** An entry of the list of a `Split`. */
export function Entry({
  isSelected,
  severity,
  onOpen,
  children,
}: {
  isSelected: boolean
  severity?: string | undefined
  onOpen: () => void
  children: React.ReactNode
}) {
  return (
    <button type="button" className={c.item} data-severity={severity} aria-current={isSelected} onClick={onOpen}>
      {children}
    </button>
  )
}
