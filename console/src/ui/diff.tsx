import { diffLines } from 'diff'
import s from './ui.module.css'

/** How many unchanged lines are shown around a change. */
const CONTEXT = 3

export interface Line {
  kind: 'same' | 'added' | 'removed' | 'gap'
  text: string
}

function lines(before: string, after: string): Line[] {
  const parts = diffLines(before, after)
  return parts.flatMap((part, at): Line[] => {
    const texts = part.value.replace(/\n$/, '').split('\n')
    if (part.added) return texts.map((text) => ({ kind: 'added', text }))
    if (part.removed) return texts.map((text) => ({ kind: 'removed', text }))
    const head = at === 0 ? 0 : CONTEXT
    const tail = at === parts.length - 1 ? 0 : CONTEXT
    const same = texts.map((text): Line => ({ kind: 'same', text }))
    if (same.length <= head + tail + 1) return same
    const left = same.length - head - tail
    const gap: Line = { kind: 'gap', text: `… ${String(left)} unchanged lines` }
    return [...same.slice(0, head), gap, ...same.slice(same.length - tail)]
  })
}

export const SIGN = { same: '  ', added: '+ ', removed: '- ', gap: '' }

/** The difference of two texts, line by line. `beside` renders an addition to a line. */
export function Diff({
  before,
  after,
  label,
  beside,
}: {
  before: string
  after: string
  label: string
  beside?: (line: Line, at: number) => React.ReactNode
}) {
  return (
    // A region with overflow must be reachable for the keyboard.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className={s.diff} role="group" aria-label={label} tabIndex={0}>
      {lines(before, after).map((line, at) => (
        <div key={at} className={line.kind === 'added' ? s.added : line.kind === 'removed' ? s.removed : s.muted}>
          {SIGN[line.kind]}
          {line.text}
          {beside?.(line, at)}
        </div>
      ))}
    </div>
  )
}
