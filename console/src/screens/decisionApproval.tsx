import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { DecisionView } from '../api/types'
import { blobText, referencedInput } from '../api/whole'
import { Button, Field, Problem, s } from '../ui'
import { Badge } from '../ui/status'
import { Code, ToolInput } from '../ui/toolInput'

type Approval = Extract<DecisionView, { kind: 'tool_approval' }>

/** The input of a call. */
export type CallInput =
  | { isWhole: true; value: unknown }
  /** Only the beginning is known. The rest is being read, could not be read, or is not stored. */
  | { isWhole: false; state: 'reading' | 'failed' | 'missing'; error: unknown }

/** The blob with a long input. Decisions that are older than this field have none. */
function blobOf(decision: DecisionView): string | undefined {
  const blob = 'inputBlob' in decision ? decision.inputBlob : undefined
  return typeof blob === 'string' ? blob : undefined
}

/** The input of the call that a decision is about; `undefined` for other decisions. A decision has only the beginning of a long input. */
export function useCallInput(decision: DecisionView): CallInput | undefined {
  const isApproval = decision.kind === 'tool_approval'
  const given = isApproval ? parsed(decision.input) : undefined
  const [{ sessionId }, blob] = [decision, blobOf(decision)]
  const isStored = sessionId !== undefined && blob !== undefined
  const whole = useQuery({
    queryKey: ['call-input', sessionId, blob],
    queryFn: async (): Promise<{ value: unknown }> => {
      const input: unknown = isStored ? JSON.parse(await blobText(sessionId, blob)) : undefined
      return { value: isStored ? await referencedInput(sessionId, input) : undefined }
    },
    enabled: isApproval && given === undefined && isStored,
    staleTime: Infinity,
  })
  if (!isApproval) return undefined
  const known = given ?? whole.data
  if (known !== undefined) return { isWhole: true, value: known.value }
  if (!isStored) return { isWhole: false, state: 'missing', error: undefined }
  return { isWhole: false, state: whole.isError ? 'failed' : 'reading', error: whole.error }
}

/** The value of JSON; `undefined` if the text is not JSON, because its end is cut off. */
function parsed(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) }
  } catch {
    return undefined
  }
}

const SHORTENED = {
  reading: 'Reading the whole input …',
  failed: 'The whole input could not be read. This is its beginning.',
  missing: 'This decision has only the beginning of the input. The tool calls of its session have the rest.',
}

export function Call({ decision, input }: { decision: Approval; input: CallInput }) {
  const tool = decision.toolName
  if (input.isWhole) return <ToolInput tool={tool} input={input.value} />
  return (
    <>
      <p className={s.row}>
        <Badge tone="warn">shortened</Badge>
        <span className={s.muted}>{SHORTENED[input.state]}</span>
      </p>
      {input.state === 'failed' && <Problem error={input.error} />}
      <Code label={`Beginning of the input of ${tool}`}>{decision.input}</Code>
    </>
  )
}

/** Another input for a call. */
export function ModifyForm({
  input,
  isDisabled,
  onSubmit,
  onCancel,
}: {
  input: unknown
  isDisabled: boolean
  onSubmit: (input: unknown) => void
  onCancel: () => void
}) {
  const [text, setText] = useState(() => JSON.stringify(input, null, 2))
  const [error, setError] = useState<string>()
  return (
    <form
      className={s.stack}
      onSubmit={(event) => {
        event.preventDefault()
        try {
          onSubmit(JSON.parse(text))
        } catch {
          setError('The input is not JSON.')
        }
      }}
    >
      {error !== undefined && <Problem error={new Error(error)} />}
      <Field label="Input of the call">
        <textarea
          className={s.input}
          rows={6}
          spellCheck={false}
          value={text}
          disabled={isDisabled}
          // eslint-disable-next-line jsx-a11y/no-autofocus
          autoFocus
          onChange={({ target }) => {
            setText(target.value)
          }}
        />
      </Field>
      <div className={s.row}>
        <Button type="submit" look="primary" disabled={isDisabled}>
          Approve with this input
        </Button>
        <Button onClick={onCancel}>Cancel</Button>
      </div>
    </form>
  )
}
