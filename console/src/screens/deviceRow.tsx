import { s } from '../ui'

/** A device in a list of devices, with a button that ends what the list is about. */
export function DeviceRow({
  name,
  isThis,
  details,
  children,
}: {
  name: string
  isThis: boolean
  details: React.ReactNode
  children: React.ReactNode
}) {
  return (
    <li className={s.row}>
      <span>
        <strong>{name}</strong>
        {isThis && ' (this one)'}
        <br />
        <small className={s.muted}>{details}</small>
      </span>
      {children}
    </li>
  )
}
