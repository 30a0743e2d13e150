import { ActionButton, s } from '.'
import { Badge } from './status'

/** Says that a text is shortened. With `read`, a person can read the whole. */
export function Shortened({ what, read }: { what: string; read?: () => Promise<void> }) {
  return (
    <div className={s.row}>
      <Badge tone="warn">shortened</Badge>
      {read !== undefined && <ActionButton action={read}>Show the whole {what}</ActionButton>}
    </div>
  )
}
