import { useId, useState } from 'react'
import { violationsByField } from '../api/client'
import { Button, Checkboxes, s } from '.'

/** The keywords of JSON Schema that a form needs. */
export interface Schema {
  type?: string | readonly string[]
  enum?: readonly unknown[]
  const?: unknown
  oneOf?: readonly Schema[]
  anyOf?: readonly Schema[]
  $ref?: string
  items?: Schema
  properties?: Readonly<Record<string, Schema>>
  additionalProperties?: Schema | boolean
  required?: readonly string[]
  description?: string
  maxLength?: number
  pattern?: string
  format?: string
}

export type Values = Readonly<Record<string, unknown>>
export type Options = readonly (readonly [value: string, text: string])[]

/** The fields that have a value. An empty list or object counts as no value. */
export function withValues(values: Values): Values {
  const isEmpty = (value: unknown) => value == null || (typeof value === 'object' && Object.keys(value).length === 0)
  return Object.fromEntries(Object.entries(values).filter(([, value]) => !isEmpty(value)))
}

/** The fields that differ, with their new values; `null` for a field that was cleared. */
export function changesOf(before: Values, after: Values): Values {
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  const changed = [...names].filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
  return Object.fromEntries(changed.map((name) => [name, after[name] ?? null]))
}

/** A text longer than this is edited in several lines. */
const LONG = 300

/** The part of a document that a reference like `#/$defs/Name` names. */
function partOf(root: unknown, reference: string): Schema | undefined {
  const names = reference.split('/').slice(1)
  return names.reduce<unknown>((part, name) => (part as Record<string, unknown> | undefined)?.[name], root) as Schema | undefined
}

/** The schema behind references and `null`, with the description that is nearest to the field. */
function resolved(schema: Schema, root: unknown): Schema {
  const { description } = schema
  const parts = schema.anyOf?.filter(({ type }) => type !== 'null')
  const inner =
    schema.$ref !== undefined ? partOf(root, schema.$ref) : parts?.length === 1 ? parts[0] : undefined
  return inner === undefined ? schema : { ...resolved(inner, root), ...(description === undefined ? {} : { description }) }
}

function has({ type }: Schema, wanted: string): boolean {
  return type === wanted || (Array.isArray(type) && type.includes(wanted))
}

type Input =
  | { kind: 'text' | 'long' | 'number' | 'boolean' | 'lines' | 'pairs' | 'json' }
  | { kind: 'choice' | 'choices'; options: Options }
  | { kind: 'entries'; entry: Schema }

/** How a field is edited. `options` are the values that the page knows for it. */
function inputOf(schema: Schema, root: unknown, options: Options | undefined): Input {
  const constants = schema.enum ?? schema.oneOf?.map((one) => one.const)
  if (constants?.every((one) => typeof one === 'string') === true) {
    return { kind: 'choice', options: constants.map((one) => [one, one]) }
  }
  if (has(schema, 'string')) {
    if (options !== undefined) return { kind: 'choice', options }
    // The patterns of the API that have no line breaks exclude all control characters.
    const isLine = schema.format === 'uri' || schema.pattern?.includes('\\u001f') === true
    return { kind: !isLine && (schema.maxLength ?? 0) > LONG ? 'long' : 'text' }
  }
  if (has(schema, 'integer') || has(schema, 'number')) return { kind: 'number' }
  if (has(schema, 'boolean')) return { kind: 'boolean' }
  if (has(schema, 'array') && schema.items !== undefined) {
    const entry = resolved(schema.items, root)
    if (has(entry, 'string')) return options === undefined ? { kind: 'lines' } : { kind: 'choices', options }
    // The fields of the variants of a union are not in its properties.
    if (entry.properties !== undefined && entry.oneOf === undefined && entry.anyOf === undefined) return { kind: 'entries', entry }
  }
  if (typeof schema.additionalProperties === 'object' && has(schema.additionalProperties, 'string')) return { kind: 'pairs' }
  return { kind: 'json' }
}

/** The fields of an object from lines like `team=web`. */
function pairsOf(text: string): Record<string, string> {
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  return Object.fromEntries(
    lines.map((line) => {
      const [name = '', ...value] = line.split('=')
      return [name.trim(), value.join('=').trim()]
    }),
  )
}

/** The name of a field in words. */
function label(name: string): string {
  const words = name.replaceAll(/([A-Z])/g, ' $1').toLowerCase()
  return words.charAt(0).toUpperCase() + words.slice(1)
}

/**
 * The fields of a JSON Schema, each with its description and the violations of the server. The entries of a list of objects have fields,
 * too. Other nested objects are edited as JSON, which the browser checks before it submits the form. A field without a value is absent from
 * `values`. The component needs another key if `values` change other than by `onChange`.
 */
export function SchemaForm({
  schema,
  root = schema,
  values,
  options,
  violations,
  fixed,
  onChange,
}: {
  schema: Schema
  /** The document that references of the schema lead into. */
  root?: unknown
  values: Values
  options: Readonly<Record<string, Options>>
  violations: ReadonlyMap<string, string>
  /** Fields that cannot be changed. */
  fixed: readonly string[]
  onChange: (values: Values) => void
}) {
  return Object.entries(schema.properties ?? {}).map(([name, field]) => {
    const shape = resolved(field, root)
    const input = inputOf(shape, root, options[name])
    const change = (value: unknown) => {
      const others = Object.entries(values).filter(([other]) => other !== name)
      onChange(Object.fromEntries(value === undefined ? others : [...others, [name, value]]))
    }
    if (input.kind === 'entries') {
      return (
        <Entries
          key={name}
          name={name}
          hint={shape.description}
          entry={input.entry}
          root={root}
          entries={(values[name] ?? []) as Values[]}
          violations={violations}
          onChange={change}
        />
      )
    }
    return (
      <SchemaField
        key={name}
        label={label(name)}
        hint={shape.description}
        input={input}
        maxLength={shape.maxLength}
        isRequired={schema.required?.includes(name) === true}
        isFixed={fixed.includes(name)}
        violation={violations.get(name)}
        value={values[name]}
        onChange={change}
      />
    )
  })
}

/** The entries of a list of objects. Without any, the field has no value. */
function Entries({
  name,
  hint,
  entry,
  root,
  entries,
  violations,
  onChange,
}: {
  name: string
  hint: string | undefined
  entry: Schema
  root: unknown
  entries: readonly Values[]
  violations: ReadonlyMap<string, string>
  onChange: (entries: Values[] | undefined) => void
}) {
  // Inputs keep their own text, so that each entry needs a key that stays when another one is removed.
  const [keys, setKeys] = useState(() => entries.map((_, at) => at))
  const title = label(name)
  const within = keys.map((_, at) => {
    const prefix = `${name}[${String(at)}].`
    const inEntry = [...violations].filter(([path]) => path.startsWith(prefix))
    return violationsByField(inEntry.map(([path, message]) => [path.slice(prefix.length), message] as const))
  })
  const violation = within.some(({ size }) => size > 0) ? undefined : violations.get(name)
  return (
    <fieldset className={s.field}>
      <legend>{title}</legend>
      {violation !== undefined && <p className={s.problem}>{violation}</p>}
      {hint !== undefined && <small className={s.muted}>{hint}</small>}
      {keys.map((key, at) => (
        <fieldset key={key} className={s.comment}>
          <legend className={s.visuallyHidden}>{`${title} ${String(at + 1)}`}</legend>
          <div className={s.stack}>
            <SchemaForm
              schema={entry}
              root={root}
              values={entries[at] ?? {}}
              options={{}}
              violations={within[at] ?? new Map<string, string>()}
              fixed={[]}
              onChange={(values) => {
                onChange(entries.map((other, index) => (index === at ? values : other)))
              }}
            />
            <div>
              <Button
                aria-label={`Remove ${title} ${String(at + 1)}`}
                onClick={() => {
                  const others = entries.filter((_, index) => index !== at)
                  setKeys(keys.filter((other) => other !== key))
                  onChange(others.length === 0 ? undefined : others)
                }}
              >
                Remove
              </Button>
            </div>
          </div>
        </fieldset>
      ))}
      <div>
        <Button
          aria-label={`Add to ${title}`}
          onClick={() => {
            setKeys([...keys, Math.max(-1, ...keys) + 1])
            onChange([...entries, {}])
          }}
        >
          Add
        </Button>
      </div>
    </fieldset>
  )
}

function SchemaField({
  label,
  hint,
  input,
  maxLength,
  isRequired,
  isFixed,
  violation,
  value,
  onChange,
}: {
  label: string
  hint: string | undefined
  input: Exclude<Input, { kind: 'entries' }>
  maxLength: number | undefined
  isRequired: boolean
  isFixed: boolean
  violation: string | undefined
  value: unknown
  onChange: (value: unknown) => void
}) {
  const id = useId()
  const describedBy = [hint === undefined ? '' : `${id}-hint`, violation === undefined ? '' : `${id}-violation`].join(' ').trim()
  const notes = (
    <>
      {violation !== undefined && (
        <p className={s.problem} id={`${id}-violation`}>
          {violation}
        </p>
      )}
      {hint !== undefined && (
        <small className={s.muted} id={`${id}-hint`}>
          {hint}
        </small>
      )}
    </>
  )
  const common = {
    id,
    className: s.input,
    disabled: isFixed,
    required: isRequired,
    'aria-invalid': violation !== undefined,
    'aria-describedby': describedBy === '' ? undefined : describedBy,
  }
  const text = typeof value === 'string' ? value : ''
  const list = Array.isArray(value) ? (value as string[]) : []
  const withText = {
    ...common,
    value: text,
    maxLength,
    onChange: ({ target }: { target: { value: string } }) => {
      onChange(target.value === '' ? undefined : target.value)
    },
  }
  if (input.kind === 'choices') {
    return (
      <div className={s.field}>
        <Checkboxes legend={label} options={input.options} checked={list} onChange={onChange} />
        {notes}
      </div>
    )
  }
  return (
    <div className={s.field}>
      <label htmlFor={id}>{label}</label>
      {input.kind === 'text' && <input {...withText} />}
      {input.kind === 'long' && <textarea {...withText} rows={3} />}
      {input.kind === 'choice' && (
        <select {...common} value={text} onChange={withText.onChange}>
          {(!isRequired || text === '') && <option value="">{isRequired ? 'Choose …' : 'Default'}</option>}
          {input.options.map(([value, name]) => (
            <option key={value} value={value}>
              {name}
            </option>
          ))}
        </select>
      )}
      {input.kind === 'number' && (
        <input
          {...common}
          type="number"
          value={typeof value === 'number' ? value : ''}
          onChange={({ target }) => {
            onChange(target.value === '' ? undefined : Number(target.value))
          }}
        />
      )}
      {input.kind === 'boolean' && (
        <select
          {...common}
          value={typeof value === 'boolean' ? String(value) : ''}
          onChange={({ target }) => {
            onChange(target.value === '' ? undefined : target.value === 'true')
          }}
        >
          <option value="">Default</option>
          <option value="true">yes</option>
          <option value="false">no</option>
        </select>
      )}
      {input.kind === 'lines' && (
        <textarea
          {...common}
          rows={3}
          placeholder="One in each line"
          defaultValue={list.join('\n')}
          onChange={({ target }) => {
            const lines = target.value.split('\n').filter((line) => line.trim() !== '')
            onChange(lines.length === 0 ? undefined : lines)
          }}
        />
      )}
      {input.kind === 'pairs' && (
        <textarea
          {...common}
          rows={2}
          placeholder="name=value, one in each line"
          defaultValue={Object.entries((value ?? {}) as Record<string, string>)
            .map((pair) => pair.join('='))
            .join('\n')}
          onChange={({ target }) => {
            const pairs = pairsOf(target.value)
            onChange(Object.keys(pairs).length === 0 ? undefined : pairs)
          }}
        />
      )}
      {input.kind === 'json' && (
        <textarea
          {...common}
          rows={value === undefined ? 1 : 5}
          placeholder="JSON"
          spellCheck={false}
          defaultValue={value === undefined ? '' : JSON.stringify(value, null, 2)}
          onChange={({ target }) => {
            try {
              onChange(target.value.trim() === '' ? undefined : JSON.parse(target.value))
              target.setCustomValidity('')
            } catch {
              target.setCustomValidity('This is not JSON.')
            }
          }}
        />
      )}
      {notes}
    </div>
  )
}
