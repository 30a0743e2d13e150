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

type Fields = Readonly<Record<string, unknown>>

function fieldsOf(input: unknown): Fields {
  return typeof input === 'object' && input !== null ? (input as Fields) : {}
}

/** The first of the named fields that has a text. */
function find(fields: Fields, ...names: readonly string[]): { name: string; value: string } | undefined {
  return names.flatMap((name) => {
    const value = text(fields[name])
    return value === undefined ? [] : [{ name, value }]
  })[0]
}

function without(fields: Fields, names: readonly string[]): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !names.includes(name)))
}

/** A passage and what replaces it, with the other fields. */
function replacementOf(input: unknown): { before: string; after: string; others: Fields } | undefined {
  const fields = fieldsOf(input)
  const before = find(fields, 'old_string', 'old_text')
  const after = find(fields, 'new_string', 'new_text')
  if (before === undefined || after === undefined) return undefined
  return { before: before.value, after: after.value, others: without(fields, [before.name, after.name]) }
}

export interface Change {
  path: string | undefined
  before: string
  after: string
}

/** The changes of a file that the input of a call describes, in order, and the fields that they do not show. */
export function changesOf(input: unknown): { changes: readonly Change[]; others: Fields } {
  const fields = fieldsOf(input)
  const path = find(fields, 'file_path', 'path')
  const change = (before: string, after: string): Change => ({ path: path?.value, before, after })
  const replacement = replacementOf(fields)
  const content = path === undefined || replacement !== undefined ? undefined : find(fields, 'content')
  const edits: readonly unknown[] = Array.isArray(fields.edits) ? fields.edits : []
  const replacements = edits.map(replacementOf)
  const changes = [replacement, ...replacements].flatMap((found) =>
    found === undefined ? [] : [change(found.before, found.after)],
  )
  if (content !== undefined) changes.unshift(change('', content.value))
  if (changes.length === 0) return { changes, others: fields }
  // What an edit has besides its passage, in the order of the edits.
  const rest = edits.map((edit, at) => replacements[at]?.others ?? edit)
  const isShown = rest.every((part) => JSON.stringify(part) === '{}')
  const shown = [path?.name, content?.name, isShown ? 'edits' : undefined].filter((name) => name !== undefined)
  const others = without(replacement?.others ?? fields, shown)
  return { changes, others: isShown ? others : { ...others, edits: rest } }
}

/** The name of a change for screen readers. */
export function changeLabel({ path }: Change, at: number, count: number): string {
  return `Change ${count === 1 ? '' : `${String(at + 1)} `}of ${path ?? 'a file'}`
}

/**
 * The whole input of a tool call: a command or else the changes of a file, and all other fields. It is text of an agent and is never shown
 * as HTML.
 */
export function ToolInput({ tool, input }: { tool: string; input: unknown }) {
  const fields = fieldsOf(input)
  const command = text(fields.command)
  const { changes, others } = command === undefined ? changesOf(input) : { changes: [], others: without(fields, ['command']) }
  if (command === undefined && changes.length === 0) {
    return <Code label={`Input of ${tool}`}>{JSON.stringify(input, null, 2)}</Code>
  }
  return (
    <>
      {command !== undefined && <Code label={`Command of ${tool}`}>{command}</Code>}
      {changes.length > 0 && (
        <figure className={s.stack}>
          {changes[0]?.path !== undefined && <figcaption className={s.muted}>{changes[0].path}</figcaption>}
          {changes.map((change, at) => (
            <Diff key={at} before={change.before} after={change.after} label={changeLabel(change, at, changes.length)} />
          ))}
        </figure>
      )}
      {Object.keys(others).length > 0 && (
        <figure className={s.stack}>
          <figcaption className={s.muted}>Other input</figcaption>
          <Code label={`Other input of ${tool}`}>{JSON.stringify(others, null, 2)}</Code>
        </figure>
      )}
    </>
  )
}
