import { Diff } from './diff'
import s from './ui.module.css'

function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

export function Code({ children, label }: { children: string; label: string }) {
  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <pre className={s.code} role="group" aria-label={label} tabIndex={0}>
      {children}
    </pre>
  )
}

function fieldsOf(input: unknown): Record<string, unknown> {
  return typeof input === 'object' && input !== null ? (input as Record<string, unknown>) : {}
}

export interface Change {
  path: string | undefined
  before: string
  after: string
  /** The names of the fields of the input that describe the change. */
  fields: readonly string[]
}

/** The change of a file by a tool call. `undefined` if the input does not describe one. */
export function changeOf(input: unknown): Change | undefined {
  const values = fieldsOf(input)
  const find = (...names: readonly string[]) =>
    names.flatMap((name) => {
      const value = text(values[name])
      return value === undefined ? [] : [{ name, value }]
    })[0]
  const path = find('file_path', 'path')
  const before = find('old_string', 'old_text')
  const after = find('new_string', 'new_text')
  const fields = path === undefined ? [] : [path.name]
  if (before !== undefined && after !== undefined) {
    return { path: path?.value, before: before.value, after: after.value, fields: [...fields, before.name, after.name] }
  }
  const content = find('content')
  if (content === undefined || path === undefined) return undefined
  return { path: path.value, before: '', after: content.value, fields: [...fields, content.name] }
}

/**
 * The whole input of a tool call: a command or else the change of a file, and all other fields. It is text of an agent and is never shown
 * as HTML.
 */
export function ToolInput({ tool, input }: { tool: string; input: unknown }) {
  const fields = fieldsOf(input)
  const command = text(fields.command)
  const change = command === undefined ? changeOf(input) : undefined
  if (command === undefined && change === undefined) {
    return <Code label={`Input of ${tool}`}>{JSON.stringify(input, null, 2)}</Code>
  }
  const shown = change === undefined ? ['command'] : change.fields
  const others = Object.entries(fields).filter(([name]) => !shown.includes(name))
  return (
    <>
      {command !== undefined && <Code label={`Command of ${tool}`}>{command}</Code>}
      {change !== undefined && (
        <figure className={s.stack}>
          {change.path !== undefined && <figcaption className={s.muted}>{change.path}</figcaption>}
          <Diff before={change.before} after={change.after} label={`Change of ${change.path ?? 'a file'}`} />
        </figure>
      )}
      {others.length > 0 && (
        <figure className={s.stack}>
          <figcaption className={s.muted}>Other input</figcaption>
          <Code label={`Other input of ${tool}`}>{JSON.stringify(Object.fromEntries(others), null, 2)}</Code>
        </figure>
      )}
    </>
  )
}
