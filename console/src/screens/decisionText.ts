import type { DecidingRule, DecisionView, OrphanAction, Resolution, ResolvedBy } from '../api/types'
import { isFields } from '../api/whole'
import { scopeText } from '../app/brake'
import type { Tone } from '../ui/status'

// What the console says about decisions in words.

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

const ORPHAN: Record<OrphanAction, string> = {
  cancel: 'it is rejected or expires',
  reassign: 'another agent takes it over',
  triage: 'it waits for you',
}

export const SEVERITY: Record<string, Tone> = { critical: 'bad', high: 'bad', medium: 'warn', low: 'info', warning: 'plain' }

/** The command that a call runs, or else its whole input. */
function callText(input: string): string {
  try {
    const value: unknown = JSON.parse(input)
    const command = isFields(value) ? value.command : undefined
    return typeof command === 'string' ? command : input
  } catch {
    // It is shortened.
    return input
  }
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
export function whyText(decision: DecisionView): string {
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
export function orphanText(decision: Extract<DecisionView, { state: 'orphaned' }>): string {
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
