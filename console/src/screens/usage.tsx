import type { MetricsView, TokenUsage } from '../api/types'
import { s } from '../ui'
import { add, compareAmounts, dollars } from '../ui/money'

/** The usage of a session, in its list or in its view. */
export type Metered = Partial<Pick<MetricsView, 'tokenUsageByModel' | 'costUsdByModel' | 'unattributedCostUsd'>>

export interface ModelUsage {
  model: string
  tokens: TokenUsage
  /** `undefined` if the server recorded the cost without its model. */
  cost: string | undefined
}

export interface Usage {
  /** Those with the highest cost first. */
  models: ModelUsage[]
  /** The cost that was recorded without its model. With the costs of the models it adds up to the total. */
  unattributed: string
}

const ZERO = '0'

/** Adds up what sessions used of each model. */
export function usageByModel(sessions: readonly Metered[]): Usage {
  const models = new Map<string, ModelUsage>()
  for (const { tokenUsageByModel = {}, costUsdByModel = {}, unattributedCostUsd } of sessions) {
    for (const [model, tokens] of Object.entries(tokenUsageByModel)) {
      const cost = costUsdByModel[model] ?? (unattributedCostUsd == null ? ZERO : undefined)
      const known = models.get(model)
      models.set(model, known === undefined ? { model, tokens, cost } : {
        model,
        tokens: {
          inputTokens: known.tokens.inputTokens + tokens.inputTokens,
          outputTokens: known.tokens.outputTokens + tokens.outputTokens,
          cacheReadTokens: known.tokens.cacheReadTokens + tokens.cacheReadTokens,
          cacheWriteTokens: known.tokens.cacheWriteTokens + tokens.cacheWriteTokens,
        },
        cost: cost === undefined ? known.cost : add([known.cost ?? ZERO, cost]),
      })
    }
  }
  return {
    models: [...models.values()].sort((a, b) => compareAmounts(b.cost ?? ZERO, a.cost ?? ZERO)),
    unattributed: add(sessions.map(({ unattributedCostUsd }) => unattributedCostUsd ?? ZERO)),
  }
}

/** Cost and tokens by model. The costs add up to the total. */
export function UsageTable({ usage: { models, unattributed } }: { usage: Usage }) {
  return (
    <table className={s.table} aria-label="Usage by model">
      <thead>
        <tr>
          <th>Model</th>
          <th className={s.number}>Spent</th>
        </tr>
      </thead>
      <tbody>
        {models.map(({ model, tokens, cost }) => (
          <tr key={model}>
            <td>
              {model}
              {/* Lines of their own, so that growing numbers move nothing. */}
              <div className={`${s.muted ?? ''} ${s.small ?? ''}`}>
                {tokens.inputTokens.toLocaleString()} in, {tokens.outputTokens.toLocaleString()} out,
              </div>
              <div className={`${s.muted ?? ''} ${s.small ?? ''}`}>{tokens.cacheReadTokens.toLocaleString()} read from cache,</div>
              <div className={`${s.muted ?? ''} ${s.small ?? ''}`}>{tokens.cacheWriteTokens.toLocaleString()} written to cache</div>
            </td>
            <td className={s.number}>{cost === undefined ? 'not recorded' : dollars(cost)}</td>
          </tr>
        ))}
        {unattributed !== ZERO && (
          <tr>
            <td>Not recorded by model</td>
            <td className={s.number}>{dollars(unattributed)}</td>
          </tr>
        )}
      </tbody>
    </table>
  )
}
