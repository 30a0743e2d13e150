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
}

/** The change of a file by a tool call. `undefined` if the input does not describe one. */
export function changeOf(input: unknown): Change | undefined {
  const fields = fieldsOf(input)
  const path = text(fields.file_path) ?? text(fields.path)
  const before = text(fields.old_string) ?? text(fields.old_text)
  const after = text(fields.new_string) ?? text(fields.new_text)
  if (before !== undefined && after !== undefined) return { path, before, after }
  const content = text(fields.content)
  return content === undefined || path === undefined ? undefined : { path, before: '', after: content }
}

/** The input of a tool call: a command, a diff, or its fields. It is text of an agent and is never shown as HTML. */
export function ToolInput({ tool, input }: { tool: string; input: unknown }) {
  const change = changeOf(input)
  if (change !== undefined) {
    const { path, before, after } = change
    return (
      <figure className={s.stack}>
        {path !== undefined && <figcaption className={s.muted}>{path}</figcaption>}
        <Diff before={before} after={after} label={`Change of ${path ?? 'a file'}`} />
      </figure>
    )
  }
  const command = text(fieldsOf(input).command)
  if (command !== undefined) return <Code label={`Command of ${tool}`}>{command}</Code>
  return <Code label={`Input of ${tool}`}>{JSON.stringify(input, null, 2)}</Code>
}
