import { useMutation, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { lazy, Suspense, useId, useState } from 'react'
import { api, ApiProblem, data } from '../api/client'
import type { DecidingRule, DecisionView, FailureReason, OrphanAction, Resolution, ResolvedBy } from '../api/types'
import { refresh, take } from '../live/inbox'
import { scopeText } from '../app/brake'
import { useActions } from '../app/keyboard'
import { Button, Field, Problem, s, TextForm } from '../ui'
import { Badge, type Tone } from '../ui/status'
import { Ago, Clock } from '../ui/time'
import { Code, ToolInput } from '../ui/toolInput'
import c from './screens.module.css'

const Review = lazy(() => import('./review'))

type Resolve = Record<string, unknown> & { resolutionType: string }

export const KIND: Record<DecisionView['kind'], string> = {
  tool_approval: 'Permission',
  option: 'Choice',
  question: 'Question',
  plan: 'Plan',
  output_review: 'Output',
  brake_release: 'Brake',
  crash_recovery: 'Crash',
  handoff_failed: 'Chain',
  autonomy: 'Autonomy',
  coherence_review: 'Coherence',
}

const FAILURE: Record<FailureReason, string> = {
  AgentError: 'the agent ended with an error',
  BudgetExhausted: 'the budget is used up',
  InfrastructureError: 'its process or its machine failed',
  ManualCancellation: 'a person cancelled it',
  Timeout: 'a question or plan was not answered in time',
  VerificationFailed: 'its output was rejected',
}

const ORPHAN: Record<OrphanAction, string> = {
  cancel: 'it is rejected or expires',
  reassign: 'another agent takes it over',
  triage: 'it waits for you',
}

const REASON: Partial<Record<DecisionView['kind'], string>> = {
  plan: 'What should change? (required)',
  brake_release: 'Why? (optional)',
  autonomy: 'Why? (optional)',
}

export const SEVERITY: Record<string, Tone> = { critical: 'bad', high: 'bad', medium: 'warn', low: 'info', warning: 'plain' }

/** The command that a call runs, or else its whole input. */
function callText(input: string): string {
  const value = parsed(input)
  const command = typeof value === 'object' && value !== null && 'command' in value ? value.command : undefined
  return typeof command === 'string' ? command : input
}

/** One line that names a decision. */
export function headline(decision: DecisionView): string {
  switch (decision.kind) {
    case 'tool_approval':
      return `${decision.toolName}: ${callText(decision.input)}`
    case 'option':
      return decision.question
    case 'question':
      return decision.questions.map(({ question }) => question).join(' · ')
    case 'plan':
      return `Plan, version ${String(decision.version)}`
    case 'output_review':
      return `Output: ${String(decision.output.filesChanged)} files changed`
    case 'brake_release':
      return `Release the brake on ${scopeText(decision.scope)}?`
    case 'crash_recovery':
      return `How should ${decision.sessionName ?? 'the agent'} continue after its failure?`
    case 'handoff_failed':
      return `What should happen to the chain of ${decision.sessionName ?? 'the session'}?`
    case 'autonomy':
      return `May the agent do this without asking: ${decision.actionKind}?`
    case 'coherence_review':
      return decision.issueTitle
  }
}

/** Whether a person can decide now. */
export function isDecidable({ state }: DecisionView): boolean {
  return state === 'pending' || state === 'orphaned'
}

/** Why a person decides, and not a policy. */
function whyText(decision: DecisionView): string {
  switch (decision.kind) {
    case 'tool_approval':
      return decision.verdict == null ? 'the agent itself asks for permission' : ruleText(decision.verdict.rule)
    case 'option':
      return 'the agent proposes options and waits for your choice'
    case 'question':
      return 'the agent waits for your answer'
    case 'plan':
      return 'the agent waits until its plan is approved'
    case 'output_review':
      return 'the session does not end before its output is approved'
    case 'brake_release':
      return 'this brake is in force until its release is approved'
    case 'crash_recovery':
      return decision.automatic == null
        ? 'no policy lets the agent continue automatically'
        : `its policy decides unless you decide before: ${decision.automatic.recovery}`
    case 'handoff_failed':
      return 'the chain has no continuation, so no agent can decide'
    case 'autonomy':
      return 'an agent gets autonomy only from a person'
    case 'coherence_review':
      return 'a model confirmed that results of agents do not fit together'
  }
}

/** The next step of a decision whose agent has ended. */
function orphanText(decision: Extract<DecisionView, { state: 'orphaned' }>): string {
  switch (decision.stage) {
    case 'new':
      return 'the policy of the project applies soon, unless you decide before'
    case 'grace':
      return `when the grace period is over, ${ORPHAN[decision.then]}`
    case 'triage':
      return 'it waits for you'
    case 'reassigned':
      return 'another agent took it over, and receives your answer'
  }
}

function ruleText(rule: DecidingRule): string {
  switch (rule.type) {
    case 'notAllowed':
      return `the agent may not use ${rule.tool}`
    case 'guardrail':
      return `the guardrail ${rule.name}`
    case 'alwaysEscalate':
      return `${rule.entry} always needs a person`
    case 'escalateWhen':
      return rule.description
    case 'approvalRate':
      return `too few approvals of ${rule.actionKind} so far`
    case 'modeDefault':
      return `default of the mode ${rule.mode}`
    case 'alwaysApprove':
    case 'grant':
      return 'an earlier approval'
    case 'neverEscalate':
      return `${rule.entry} needs nobody`
    case 'autonomy':
      return `autonomy for ${rule.actionKind}`
  }
}

function by(resolvedBy: ResolvedBy): string {
  switch (resolvedBy.type) {
    case 'owner':
      return resolvedBy.id
    case 'default_answer':
      return 'the default answer of the session'
    case 'timeout':
      return 'the timeout policy of the project'
    case 'orphan_policy':
      return 'the policy of the project for agents that have ended'
    case 'recovery_policy':
      return 'the policy for crash recovery'
  }
}

function resolutionText(resolution: Resolution): string {
  switch (resolution.resolutionType) {
    case 'answer':
      return `answered ${resolution.answers.map(({ answer }) => `“${answer}”`).join(', ')}`
    case 'choose_option':
      return `chose ${resolution.chosenOptionId}`
    case 'approve': {
      const approved = resolution.alwaysApprove === true ? 'approved this and all like it' : 'approved'
      return resolution.rationale == null ? approved : `${approved}: ${resolution.rationale}`
    }
    case 'modify':
      return resolution.rationale == null ? 'approved with another input' : `approved with another input: ${resolution.rationale}`
    case 'reject':
      return resolution.rationale == null ? 'rejected' : `rejected: ${resolution.rationale}`
    case 'dismiss':
      return 'dismissed it'
  }
}

/** The state of a decision, or its resolution with the person or policy that decided. */
export function outcomeText(decision: DecisionView): string {
  switch (decision.state) {
    case 'pending':
      return 'waits for you'
    case 'suspended':
      return 'a brake stops the agent; it waits for you again after the release'
    case 'orphaned':
      return 'its agent has ended; it waits for you'
    case 'resolving':
      return `${by(decision.resolvedBy)} ${resolutionText(decision.resolution)}; the agent has not received it yet`
    case 'resolved':
    case 'auto_resolved':
      return `${by(decision.resolvedBy)} ${resolutionText(decision.resolution)}`
    case 'expired':
      return 'expired: nobody decided in time'
    case 'cancelled':
      return `cancelled: ${decision.reason.replaceAll('_', ' ')}`
  }
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
  const options = 'options' in decision ? decision.options : []
  const needsReason =
    (decision.kind === 'option' && decision.assessment?.requiresRationale === true) ||
    (decision.kind === 'tool_approval' && decision.verdict?.requiresRationale === true)
  const [reason, setReason] = useState('')
  const lacksReason = needsReason && reason.trim() === ''
  const rationale = reason.trim() === '' ? {} : { rationale: reason.trim() }
  const canChoose = can('choose_option') && !lacksReason
  const choose = (chosenOptionId: string) => {
    decide({ resolutionType: 'choose_option', chosenOptionId, ...rationale })
  }
  const approve = (always: boolean) => {
    decide({ resolutionType: 'approve', ...(always ? { alwaysApprove: true } : {}), ...rationale })
  }
  // The approval of a call of an agent that has ended creates no grant for later calls.
  const canAlways = decision.state === 'pending' && can('approve') && decision.kind === 'tool_approval' && decision.project != null
  const actions = [
    { can: can('approve') && !lacksReason, label: 'Approve', key: 'a', run: () => { approve(false) } },
    { can: canAlways && !lacksReason, label: 'Approve all like it', key: 'A', run: () => { approve(true) } },
    { can: can('reject'), label: 'Reject', key: 'r', run: () => { setMode('reject') } },
    { can: can('modify') && !lacksReason, label: 'Change the input', key: 'm', run: () => { setMode('modify') } },
    { can: can('dismiss'), label: 'Dismiss', key: 'd', run: () => { decide({ resolutionType: 'dismiss' }) } },
    { can: can('answer'), label: 'Answer in your own words', key: 't', run: () => { setMode('answer') } },
    ...options.slice(0, 9).map(({ id, label }, at) => ({
      can: canChoose,
      label: `Choose ${label}`,
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
        <Subject decision={decision} />
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
        {can('choose_option') && (
          <ul className={c.options}>
              {options.map(({ id, label, description, tradeoffs }, at) => (
                <li key={id}>
                  <button
                    type="button"
                    className={c.option}
                    disabled={resolve.isPending || !canChoose}
                    onClick={() => {
                      choose(id)
                    }}
                  >
                    {hasKeys && at < 9 && <kbd>{at + 1}</kbd>}
                    <span>
                      <strong>{label}</strong>{' '}
                      {decision.kind === 'option' && decision.assessment?.recommendedOptionId === id && <Badge tone="good">recommended</Badge>}
                    </span>
                    {description != null && <span>{description}</span>}
                    {tradeoffs != null && <span className={s.muted}>{tradeoffs}</span>}
                  </button>
                </li>
              ))}
            </ul>
        )}
        {decision.kind === 'question' && isWritable && fits('answer') && (
          <Answers decision={decision} isDisabled={isSuspended} decide={decide} />
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
            onSubmit={(answer) => {
              decide({ resolutionType: 'answer', answers: [{ question: decision.question, answer }] })
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
            {can('modify') && (
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
        {mode === 'modify' && isWritable && decision.kind === 'tool_approval' && (
          <ModifyForm
            isDisabled={isSuspended}
            input={decision.input}
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

function parsed(input: string): unknown {
  try {
    return JSON.parse(input)
  } catch {
    return input
  }
}

/** The call, plan or output that the decision is about. */
function Subject({ decision }: { decision: DecisionView }) {
  switch (decision.kind) {
    case 'tool_approval':
      return <ToolInput tool={decision.toolName} input={parsed(decision.input)} />
    case 'plan':
      return decision.sessionId === undefined ? null : <Plan sessionId={decision.sessionId} version={decision.version} />
    case 'output_review': {
      const { filesChanged, testsAdded, allTestsPassing, commitSha, violations, guardrails } = decision.output
      return (
        <>
          <p>
            {filesChanged} files changed, {testsAdded} tests added,{' '}
            {allTestsPassing ? 'all tests pass' : 'not all tests pass'}
            {commitSha != null && (
              <>
                , commit <code>{commitSha}</code>
              </>
            )}
          </p>
          {violations?.map((violation) => (
            <p key={JSON.stringify(violation)} className={s.problem}>
              {violation.path} {violation.message}
            </p>
          ))}
          {guardrails?.map(({ name, action, description }) => (
            <p key={name} className={s.problem}>
              Guardrail {name} ({action}){description == null ? '' : `: ${description}`}
            </p>
          ))}
          {decision.sessionId !== undefined && <Changes decision={decision} sessionId={decision.sessionId} />}
        </>
      )
    }
    case 'brake_release':
      return <p>{decision.brakeReason}</p>
    case 'crash_recovery':
      return (
        <>
          <p>
            {FAILURE[decision.failureReason]}
            {decision.consecutiveCrashes > 1 && `, ${String(decision.consecutiveCrashes)} times in a row`}
          </p>
          {decision.failureMessage != null && <Code label="Message of the failure">{decision.failureMessage}</Code>}
          {decision.automatic != null && (
            <p>
              Without you: {decision.automatic.recovery} <Ago at={decision.automatic.at} />
            </p>
          )}
        </>
      )
    case 'handoff_failed':
      return <p>{decision.obstacle}</p>
    case 'autonomy':
      return (
        <p>
          {decision.verdicts.approved} of {decision.verdicts.decided} such actions were approved.
        </p>
      )
    case 'coherence_review':
      return (
        <>
          <p>
            {decision.category.replace('_', ' ')}: {decision.explanation}
          </p>
          {decision.suggestedResolution != null && <p>Suggested: {decision.suggestedResolution}</p>}
          <p className={s.muted}>Workstreams: {decision.affectedWorkstreams.join(', ')}</p>
        </>
      )
    case 'option':
    case 'question':
      return null
  }
}

/** The changes of an output. They are read when a person opens them. */
function Changes({ decision, sessionId }: { decision: Extract<DecisionView, { kind: 'output_review' }>; sessionId: string }) {
  const [isOpen, setOpen] = useState(false)
  const [wasOpened, setOpened] = useState(false)
  return (
    <>
      <div>
        <Button
          aria-expanded={isOpen}
          onClick={() => {
            setOpen((now) => !now)
            setOpened(true)
          }}
        >
          Review the changes
        </Button>
      </div>
      {/* Hidden changes keep the comments that are not sent yet. */}
      {wasOpened && (
        <div hidden={!isOpen}>
          <Suspense fallback={<p>Loading …</p>}>
            <Review decision={decision} sessionId={sessionId} />
          </Suspense>
        </div>
      )}
    </>
  )
}

function Plan({ sessionId, version }: { sessionId: string; version: number }) {
  const plan = useQuery({
    queryKey: ['plan', sessionId, version],
    queryFn: () => data(api.GET('/api/agents/sessions/{id}/plan', { params: { path: { id: sessionId } } })),
  })
  if (plan.isLoadingError) return <Problem error={plan.error} />
  const text = plan.data?.content
  return <Code label="Plan">{text == null ? 'Loading …' : text}</Code>
}

function ModifyForm({
  input,
  isDisabled,
  onSubmit,
  onCancel,
}: {
  input: string
  isDisabled: boolean
  onSubmit: (input: unknown) => void
  onCancel: () => void
}) {
  const value = parsed(input)
  const [text, setText] = useState(() => JSON.stringify(value, null, 2))
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

function Answers({
  decision,
  isDisabled,
  decide,
}: {
  decision: Extract<DecisionView, { kind: 'question' }>
  isDisabled: boolean
  decide: (resolution: Resolve) => void
}) {
  const [answers, setAnswers] = useState<Record<string, string>>({})
  return (
    <form
      className={s.stack}
      onSubmit={(event) => {
        event.preventDefault()
        decide({
          resolutionType: 'answer',
          answers: decision.questions.map(({ question }) => ({ question, answer: (answers[question] ?? '').trim() })),
        })
      }}
    >
      {decision.questions.map(({ question, options }) => (
        <div key={question} className={s.stack}>
          <Field label={question}>
            <input
              className={s.input}
              value={answers[question] ?? ''}
              required
              disabled={isDisabled}
              onChange={({ target }) => {
                setAnswers((now) => ({ ...now, [question]: target.value }))
              }}
            />
          </Field>
          {(options?.length ?? 0) > 0 && (
            <div className={s.row}>
              {options?.map(({ label, description }) => (
                <Button
                  key={label}
                  title={description ?? undefined}
                  aria-pressed={answers[question] === label}
                  disabled={isDisabled}
                  onClick={() => {
                    setAnswers((now) => ({ ...now, [question]: label }))
                  }}
                >
                  {label}
                </Button>
              ))}
            </div>
          )}
        </div>
      ))}
      <div>
        <Button type="submit" look="primary" disabled={isDisabled}>
          Answer
        </Button>
      </div>
    </form>
  )
}
