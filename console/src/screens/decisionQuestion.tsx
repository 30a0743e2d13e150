import { useState } from 'react'
import type { DecisionView } from '../api/types'
import { Button, Checkboxes, Field, s } from '../ui'
import { Badge } from '../ui/status'
import c from './screens.module.css'

type Question = Extract<DecisionView, { kind: 'question' }>

/** An option that resolves a decision when a person chooses it. */
export interface Option {
  id: string
  label: string
  description?: string | null
  tradeoffs?: string | null
  isRecommended?: boolean
}

/** The options of the only question of a request, if one of them is the answer. */
export function answerOptions({ questions }: Question): readonly Option[] {
  const [only] = questions
  if (only === undefined || questions.length > 1 || only.multiSelect) return []
  return (only.options ?? []).map((option) => ({ ...option, id: option.label }))
}

/** Options, of which the first nine have keys. */
export function Options({
  options,
  hasKeys,
  isDisabled,
  choose,
}: {
  options: readonly Option[]
  hasKeys: boolean
  isDisabled: boolean
  choose: (id: string) => void
}) {
  return (
    <ul className={c.options}>
      {options.map(({ id, label, description, tradeoffs, isRecommended }, at) => (
        <li key={id}>
          <button
            type="button"
            className={c.option}
            disabled={isDisabled}
            onClick={() => {
              choose(id)
            }}
          >
            {hasKeys && at < 9 && <kbd>{at + 1}</kbd>}
            <span>
              <strong>{label}</strong> {isRecommended === true && <Badge tone="good">recommended</Badge>}
            </span>
            {description != null && <span>{description}</span>}
            {tradeoffs != null && <span className={s.muted}>{tradeoffs}</span>}
          </button>
        </li>
      ))}
    </ul>
  )
}

/** What a person has chosen and written for a question. */
interface Draft {
  chosen: readonly string[]
  text: string
}

const NONE: Draft = { chosen: [], text: '' }

/** Several chosen options and the person's own words are one answer, separated by commas. */
function answerOf({ chosen, text }: Draft): string {
  return [...chosen, text.trim()].filter((part) => part !== '').join(', ')
}

/** Answers in a person's own words, and by the options of several questions. The options of an only question are separate. */
export function Answers({
  decision,
  isDisabled,
  fieldId,
  decide,
}: {
  decision: Question
  isDisabled: boolean
  /** The id of the field of the first question. */
  fieldId: string
  decide: (answers: { question: string; answer: string }[]) => void
}) {
  const [drafts, setDrafts] = useState<Readonly<Record<string, Draft>>>({})
  const change = (question: string, changed: Partial<Draft>) => {
    setDrafts((now) => ({ ...now, [question]: { ...NONE, ...now[question], ...changed } }))
  }
  const isSeparate = answerOptions(decision).length > 0
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        decide(decision.questions.map(({ question }) => ({ question, answer: answerOf(drafts[question] ?? NONE) })))
      }}
    >
      <fieldset className={s.stack} disabled={isDisabled}>
        {decision.questions.map(({ question, options = [], multiSelect }, at) => {
          const { chosen, text } = drafts[question] ?? NONE
          const isSeveral = multiSelect && options.length > 0
          return (
            <div key={question} className={s.stack}>
              {isSeveral && (
                <Checkboxes
                  legend={question}
                  options={options.map(({ label, description }) => [
                    label,
                    description == null ? label : `${label}: ${description}`,
                  ])}
                  checked={chosen}
                  onChange={(checked) => {
                    // In the order of the options.
                    change(question, { chosen: options.map(({ label }) => label).filter((label) => checked.includes(label)) })
                  }}
                />
              )}
              <Field label={isSeveral ? 'In your own words' : question}>
                <input
                  id={at === 0 ? fieldId : undefined}
                  className={s.input}
                  value={text}
                  required={chosen.length === 0}
                  onChange={({ target }) => {
                    change(question, { text: target.value })
                  }}
                />
              </Field>
              {!isSeveral && !isSeparate && options.length > 0 && (
                <div className={s.row}>
                  {options.map(({ label, description }) => (
                    <Button
                      key={label}
                      title={description ?? undefined}
                      aria-pressed={text === label}
                      onClick={() => {
                        change(question, { text: label })
                      }}
                    >
                      {label}
                    </Button>
                  ))}
                </div>
              )}
            </div>
          )
        })}
        <div>
          <Button type="submit" look="primary">
            Answer
          </Button>
        </div>
      </fieldset>
    </form>
  )
}
