/** What a connection to the WebSocket API of a deployment in AWS follows. */
export type Followed = { sessionId: string } | { projectId: string } | { topic: 'decisions' }

/** A message of the WebSocket API that is not one of the stream: a refusal, or a failure of API Gateway. */
export class SubscriptionFailure extends Error {}

/** A message of a stream. */
export interface StreamFrame {
  type: string
  cursor?: string
}

/** A text of the WebSocket API. Failures of API Gateway have no type. */
type Received = Partial<StreamFrame> & { data?: { detail?: string }; message?: string }

/** A position in the journal of a session: the last entry, and how many messages of the next one were received. */
function placeOf(cursor: string): readonly [number, number] | undefined {
  const [, entry, within] = /^j(\d+)(?:\.(\d+))?$/.exec(cursor) ?? []
  return entry === undefined ? undefined : [Number(entry), Number(within ?? 0)]
}

function isAtMost([entry, within]: readonly [number, number], limit: readonly [number, number]): boolean {
  return entry < limit[0] || (entry === limit[0] && within <= limit[1])
}

/**
 * A subscription on one connection. All streams have one address there, so the page names on the connection what it follows. Messages
 * arrive in order and at least once. Those of a session that the page already has are dropped, so that it receives what the embedded
 * server sends. Events of a project have an id, by which the page recognises them.
 */
export class Subscription {
  private isCaughtUp = false

  constructor(
    private readonly followed: Followed,
    private after: string | undefined,
  ) {}

  /** The text that subscribes, and later keeps the connection open. */
  request(): string {
    return JSON.stringify({ action: 'subscribe', ...this.followed, after: this.after })
  }

  /** The message in a text; `undefined` for a confirmation or a repetition. */
  accept(text: string): StreamFrame | undefined {
    const received = JSON.parse(text) as Received
    const { type, cursor } = received
    if (type === undefined || type === 'problem') {
      throw new SubscriptionFailure(received.data?.detail ?? received.message ?? text)
    }
    const frame = { ...received, type }
    if (type === 'subscribed' || ('sessionId' in this.followed && this.isRepeated(frame))) return undefined
    // The list of decisions has no cursor.
    if (cursor !== undefined) this.after = cursor
    return frame
  }

  private isRepeated({ type, cursor }: StreamFrame): boolean {
    if (type === 'caught_up') {
      // Each subscription is answered by `caught_up`.
      const wasCaughtUp = this.isCaughtUp
      this.isCaughtUp = true
      return wasCaughtUp
    }
    const [known, place] = [placeOf(this.after ?? 'j0'), placeOf(cursor ?? '')]
    return known !== undefined && place !== undefined && isAtMost(place, known)
  }
}
