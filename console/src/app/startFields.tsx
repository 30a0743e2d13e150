import { Field, s } from '../ui'

/** The properties of the text inputs of a form, by the names of its fields. */
export function textInputs<K extends string>(
  values: Readonly<Record<K, string>>,
  violations: ReadonlyMap<string, string>,
  onChange: (name: K, value: string) => void,
) {
  return (name: K) => ({
    className: s.input,
    value: values[name],
    'aria-invalid': violations.has(name),
    onChange: ({ target }: { target: { value: string } }) => {
      onChange(name, target.value)
    },
  })
}

type StartInputs = ReturnType<typeof textInputs<'objective' | 'workingDirectory'>>

/** The required fields of each start of an agent. */
export function StartFields({ input }: { input: StartInputs }) {
  return (
    <>
      <Field label="What to do">
        <textarea {...input('objective')} rows={3} required />
      </Field>
      <Field label="Directory" hint="An absolute path on the machine that runs the agent.">
        <input {...input('workingDirectory')} required placeholder="/home/me/project" autoCapitalize="none" />
      </Field>
    </>
  )
}
