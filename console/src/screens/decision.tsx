import { useMutation } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useId, useState } from 'react'
import { api, ApiProblem, data } from '../api/client'
import type { DecisionView } from '../api/types'
import { useActions } from '../app/keyboard'
import { refresh, take } from '../live/inbox'
import { Button, Field, Problem, s, TextForm } from '../ui'
import { Badge } from '../ui/status'
import { Ago, Clock } from '../ui/time'
import { Call, type CallInput, ModifyForm, useCallInput } from './decisionApproval'
import { OtherFacts } from './decisionOther'
import { answerOptions, Answers, Options, type Option } from './decisionQuestion'
import { OutputFacts, Plan } from './decisionResult'
import { headline, isDecidable, KIND, orphanText, outcomeText, SEVERITY, whyText } from './decisionText'

export { headline, isDecidable, KIND, outcomeText, SEVERITY }

type Resolve = Record<string, unknown> & { resolutionType: string }

const REASON: Partial<Record<DecisionView['kind'], string>> = {
  plan: 'What should change? (required)',
  brake_release: 'Why? (optional)',
  autonomy: 'Why? (optional)',
}

export function DecisionFacts({ decision }: { decision: DecisionView }) {
  return (
    <span className={s.row}>
      <Badge tone="info">{KIND[decision.kind]}</Badge>
      {decision.severity != null && (
        <Badge tone={SEVERITY[decision.severity] ?? 'plain'}>{decision.severity} severity</Badge>
      )}
      {decision.state !== 'pending' && <Badge>{decision.state.replaceAll('_', ' ')}</Badge>}
      {decision.badges?.includes('agentKilled') === true && <Badge tone="warn">agent has ended</Badge>}
      {decision.badges?.includes('timedOut') === true && <Badge tone="warn">timed out before</Badge>}
    </span>
  )
}

/** A decision with its subject, its facts and the possible answers. With `hasKeys`, single keys answer it. */
export function DecisionCard({
  decision,
  hasKeys = false,
  hasLink = true,
  children,
}: {
  decision: DecisionView
  hasKeys?: boolean
  hasLink?: boolean
  children?: React.ReactNode
}) {
  const id = useId()
  const [mode, setMode] = useState<'reject' | 'modify' | 'answer'>()
  const resolve = useMutation({
    mutationFn: (resolution: Resolve) =>
      data(api.POST('/api/decisions/{id}/resolve', { params: { path: { id: decision.id } }, body: resolution as never })),
    onSuccess: take,
    onError: (error) => {
      // It has changed: somebody else was faster, or a brake suspends it.
      if (error instanceof ApiProblem && error.status === 409) refresh(decision.id)
    },
  })
  const isOpen = isDecidable(decision)
  const fits = (resolution: string) => decision.resolutions.some((allowed) => allowed === resolution)
  const can = (resolution: string) => isOpen && fits(resolution)
  // What the person has written stays while a brake suspends the decision.
  const isSuspended = decision.state === 'suspended'
  const isWritable = isOpen || isSuspended
  const decide = (resolution: Resolve) => {
    if (isOpen && !resolve.isPending) resolve.mutate(resolution)
  }
  const input = useCallInput(decision)
  const needsReason =
    (decision.kind === 'option' && decision.assessment?.requiresRationale === true) ||
    (decision.kind === 'tool_approval' && decision.verdict?.requiresRationale === true)
  const [reason, setReason] = useState('')
  const lacksReason = needsReason && reason.trim() === ''
  const rationale = reason.trim() === '' ? {} : { rationale: reason.trim() }
  const canChoose = can('choose_option') && !lacksReason
  const answer = (answers: { question: string; answer: string }[]) => {
    decide({ resolutionType: 'answer', answers })
  }
  const fieldId = useId()
  const isQuestion = decision.kind === 'question'
  const options = optionsOf(decision)
  const canTake = isQuestion ? can('answer') : canChoose
  const choose = (id: string) => {
    if (!isQuestion) decide({ resolutionType: 'choose_option', chosenOptionId: id, ...rationale })
    else answer(decision.questions.map(({ question }) => ({ question, answer: id })))
  }
  const approve = (always: boolean) => {
    decide({ resolutionType: 'approve', ...(always ? { alwaysApprove: true } : {}), ...rationale })
  }
  // The approval of a call of an agent that has ended creates no grant for later calls.
  const canAlways = decision.state === 'pending' && can('approve') && decision.kind === 'tool_approval' && decision.project != null
  // Only a whole input can be changed.
  const canModify = can('modify') && input?.isWhole === true
  const actions = [
    { can: can('approve') && !lacksReason, label: 'Approve', key: 'a', run: () => { approve(false) } },
    { can: canAlways && !lacksReason, label: 'Approve all like it', key: 'A', run: () => { approve(true) } },
    { can: can('reject'), label: 'Reject', key: 'r', run: () => { setMode('reject') } },
    { can: canModify && !lacksReason, label: 'Change the input', key: 'm', run: () => { setMode('modify') } },
    { can: can('dismiss'), label: 'Dismiss', key: 'd', run: () => { decide({ resolutionType: 'dismiss' }) } },
    {
      can: can('answer'),
      label: 'Answer in your own words',
      key: 't',
      run: () => {
        // The field of a question is always open.
        if (isQuestion) document.getElementById(fieldId)?.focus()
        else setMode('answer')
      },
    },
    ...options.slice(0, 9).map(({ id, label }, at) => ({
      can: canTake,
      label: `${isQuestion ? 'Answer' : 'Choose'} ${label}`,
      key: String(at + 1),
      run: () => { choose(id) },
    })),
  ]
  useActions(hasKeys && isOpen ? actions.filter(({ can }) => can) : [])
  return (
    <article className={s.card} aria-labelledby={id} data-decision={decision.id}>
      <div className={s.stack}>
        <div className={s.cardHead}>
          <DecisionFacts decision={decision} />
          <small className={s.muted}>
            asked <Ago at={decision.createdAt} />
          </small>
        </div>
        <h2 id={id}>
          {decision.kind === 'tool_approval'
            ? decision.question || `May the agent use ${decision.toolName}?`
            : headline(decision)}
        </h2>
        {hasLink && decision.sessionId !== undefined && (
          <p>
            <Link to="/sessions/$id" params={{ id: decision.sessionId }}>
              {decision.sessionName}
            </Link>
          </p>
        )}
        <Subject decision={decision} input={input} />
        <dl className={s.facts}>
          <dt>Why you are asked</dt>
          <dd>{whyText(decision)}</dd>
          {decision.kind === 'tool_approval' && decision.verdict != null && (
            <>
              <dt>Effects</dt>
              <dd>
                {decision.verdict.effects
                  .map(({ actionKind, severity, blastRadius }) => `${actionKind} (${severity}, reach ${blastRadius})`)
                  .join(', ')}
              </dd>
            </>
          )}
          {decision.state === 'orphaned' && (
            <>
              <dt>Agent has ended</dt>
              <dd>
                {decision.reason.replaceAll('_', ' ')} <Ago at={decision.since} />; {orphanText(decision)}
                {decision.stage === 'grace' && (
                  <>
                    {' '}
                    (<Ago at={decision.endsAt} />)
                  </>
                )}
              </dd>
            </>
          )}
          {decision.dueAt != null && (
            <>
              <dt>Due</dt>
              <dd>
                <Ago at={decision.dueAt} />
                {decision.onTimeout != null && `, then ${decision.onTimeout.replaceAll('_', ' ')}`}
              </dd>
            </>
          )}
          {decision.expiresAt != null && (
            <>
              <dt>Expires</dt>
              <dd>
                <Ago at={decision.expiresAt} />
              </dd>
            </>
          )}
        </dl>
        {resolve.isError && <Problem error={resolve.error} />}
        {!isOpen && (
          <p role="status">
            <strong>{outcomeText(decision)}</strong>
            {'resolvedAt' in decision && (
              <>
                {' '}
                at <Clock at={decision.resolvedAt} />
              </>
            )}
          </p>
        )}
        {needsReason && isWritable && (
          <Field label={decision.kind === 'option' ? 'Your reason (required)' : 'Your reason (required to approve)'}>
            <input
              className={s.input}
              value={reason}
              disabled={isSuspended}
              onChange={({ target }) => {
                setReason(target.value)
              }}
            />
          </Field>
        )}
        {options.length > 0 && (isQuestion ? isWritable && fits('answer') : can('choose_option')) && (
          <Options options={options} hasKeys={hasKeys} isDisabled={resolve.isPending || !canTake} choose={choose} />
        )}
        {isQuestion && isWritable && fits('answer') && (
          <Answers decision={decision} isDisabled={isSuspended} fieldId={fieldId} decide={answer} />
        )}
        {decision.kind === 'option' && can('answer') && mode !== 'answer' && (
          <div>
            <Button
              onClick={() => {
                setMode('answer')
              }}
            >
              Answer in your own words {hasKeys && <kbd>t</kbd>}
            </Button>
          </div>
        )}
        {decision.kind === 'option' && mode === 'answer' && isWritable && (
          <TextForm
            isDisabled={isSuspended}
            label="Your answer"
            submit="Answer"
            onCancel={() => {
              setMode(undefined)
            }}
            onSubmit={(text) => {
              answer([{ question: decision.question, answer: text }])
            }}
          />
        )}
        {(can('approve') || can('reject') || can('dismiss')) && mode === undefined && (
          <div className={s.row}>
            {can('approve') && (
              <Button
                look="primary"
                disabled={resolve.isPending || lacksReason}
                onClick={() => {
                  approve(false)
                }}
              >
                {decision.kind === 'brake_release' ? 'Release the brake' : 'Approve'} {hasKeys && <kbd>a</kbd>}
              </Button>
            )}
            {canAlways && (
              <Button
                disabled={resolve.isPending || lacksReason}
                onClick={() => {
                  approve(true)
                }}
              >
                Approve all like it {hasKeys && <kbd>A</kbd>}
              </Button>
            )}
            {canModify && (
              <Button
                disabled={lacksReason}
                onClick={() => {
                  setMode('modify')
                }}
              >
                Change the input {hasKeys && <kbd>m</kbd>}
              </Button>
            )}
            {can('reject') && (
              <Button
                look="danger"
                onClick={() => {
                  setMode('reject')
                }}
              >
                {decision.kind === 'brake_release' ? 'Keep the brake' : 'Reject'} {hasKeys && <kbd>r</kbd>}
              </Button>
            )}
            {can('dismiss') && (
              <Button
                disabled={resolve.isPending}
                onClick={() => {
                  decide({ resolutionType: 'dismiss' })
                }}
              >
                Dismiss {hasKeys && <kbd>d</kbd>}
              </Button>
            )}
          </div>
        )}
        {mode === 'reject' && isWritable && (
          <TextForm
            isDisabled={isSuspended}
            label={REASON[decision.kind] ?? 'Why? The agent receives it. (optional)'}
            submit={decision.kind === 'brake_release' ? 'Keep the brake' : 'Reject'}
            isRequired={decision.kind === 'plan'}
            onCancel={() => {
              setMode(undefined)
            }}
            onSubmit={(rationale) => {
              decide({ resolutionType: 'reject', ...(rationale === '' ? {} : { rationale }) })
            }}
          />
        )}
        {mode === 'modify' && isWritable && input?.isWhole === true && (
          <ModifyForm
            isDisabled={isSuspended}
            input={input.value}
            onCancel={() => {
              setMode(undefined)
            }}
            onSubmit={(modifiedInput) => {
              decide({ resolutionType: 'modify', modifiedInput, ...rationale })
            }}
          />
        )}
        {children}
      </div>
    </article>
  )
}

/** The options that resolve a decision at once. */
function optionsOf(decision: DecisionView): readonly Option[] {
  if (decision.kind === 'question') return answerOptions(decision)
  if (!('options' in decision)) return []
  const recommended = decision.kind === 'option' ? decision.assessment?.recommendedOptionId : undefined
  return decision.options.map((option) => ({ ...option, isRecommended: option.id === recommended }))
}

/** The call, plan, output or event that the decision is about. */
function Subject({ decision, input }: { decision: DecisionView; input: CallInput | undefined }) {
  switch (decision.kind) {
    case 'tool_approval':
      return input === undefined ? null : <Call decision={decision} input={input} />
    case 'plan':
      return decision.sessionId === undefined ? null : <Plan sessionId={decision.sessionId} version={decision.version} />
    case 'output_review':
      return <OutputFacts decision={decision} />
    case 'option':
    case 'question':
      return null
    default:
      return <OtherFacts decision={decision} />
  }
}
