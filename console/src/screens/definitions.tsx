import type { Schema, Values } from '../ui/schemaForm'
import { RequestButton } from '../app/requestButton'
import { s } from '../ui'
import { ConfirmButton } from '../ui/confirm'

export interface Definition {
  id: string
  name: string
  details: string
}

/** A tool, as an entry of a list. */
export function toolDefinition({ name, description, serverUri }: { name: string; description: string; serverUri: string }): Definition {
  return { id: name, name, details: `${description} (${serverUri})` }
}

/** The parts of a skill or a template that are added and removed one by one. */
export function Definitions({
  title,
  add,
  entries,
  remove,
  reload,
  children,
}: {
  title: string
  /** The button that adds one, its schema and the fields that it shows. */
  add?: { text: string; schema: string; first: readonly string[]; send: (values: Values, header: never) => Promise<unknown> }
  entries: readonly Definition[]
  remove: (id: string) => Promise<unknown>
  reload: () => void
  children?: React.ReactNode
}) {
  return (
    <div role="group" aria-label={title} className={s.stack}>
      <div className={s.cardHead}>
        <h3>{title}</h3>
        {add !== undefined && (
          <RequestButton
            title={add.text}
            submit="Add"
            schema={(named: (name: string) => Schema) => named(add.schema)}
            first={add.first}
            send={add.send}
            done={reload}
          >
            {add.text}
          </RequestButton>
        )}
        {children}
      </div>
      {entries.length === 0 && <p className={s.muted}>None.</p>}
      <ul className={s.stack}>
        {entries.map(({ id, name, details }) => (
          <li key={id} className={s.cardHead}>
            <span>
              <strong>{name}</strong>
              <br />
              <span className={s.muted}>{details}</span>
            </span>
            <ConfirmButton
              label={`Remove ${name}`}
              question={`Remove ${name}?`}
              consequence="New sessions no longer have it."
              action={() => remove(id)}
              reload={reload}
            >
              Remove
            </ConfirmButton>
          </li>
        ))}
      </ul>
    </div>
  )
}
