import type { DecisionView, FailureReason } from '../api/types'
import { s } from '../ui'
import { Ago } from '../ui/time'
import { Code } from '../ui/toolInput'

const FAILURE: Record<FailureReason, string> = {
  AgentError: 'the agent ended with an error',
  BudgetExhausted: 'the budget is used up',
  InfrastructureError: 'its process or its machine failed',
  ManualCancellation: 'a person cancelled it',
  Timeout: 'a question or plan was not answered in time',
  VerificationFailed: 'its output was rejected',
}

type Other = Extract<
  DecisionView,
  { kind: 'brake_release' | 'crash_recovery' | 'handoff_failed' | 'autonomy' | 'coherence_review' }
>

/** The subject of a decision that no call, question or result of an agent asks for. */
export function OtherFacts({ decision }: { decision: Other }) {
  switch (decision.kind) {
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
  }
}
