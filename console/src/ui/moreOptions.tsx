import { useState } from 'react'
import { s } from '.'

/** The fields of a form that are hidden at first. They exist from the time when they are shown. */
export function MoreOptions({ isOpen, children }: { isOpen: boolean; children: React.ReactNode }) {
  const [wasOpened, setOpened] = useState(false)
  const isShown = isOpen || wasOpened
  return (
    <details
      open={isShown}
      onToggle={({ currentTarget }) => {
        setOpened((now) => now || currentTarget.open)
      }}
      // The browser shows the error of a field only while the field is visible.
      onInvalidCapture={({ currentTarget }) => {
        currentTarget.open = true
      }}
    >
      <summary>More options</summary>
      {isShown && <div className={s.stack}>{children}</div>}
    </details>
  )
}
