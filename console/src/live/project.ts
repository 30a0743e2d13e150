import { api, data } from '../api/client'
import type { ProjectMessage, ProjectState, RoutedEvent } from '../api/types'
import { readUntilDone, useFollower } from './follow'
import { LiveSocket } from './socket'
import { Store } from './store'
import { FLUSH_MS, throttled } from './throttle'

export interface LiveProject {
  /** The state of the last `state_sync`. */
  state: ProjectState | undefined
  /** Events of agents that arrived while the page was open, latest first. */
  events: readonly RoutedEvent[]
  /** The latest score of each agent. */
  trust: Readonly<Record<string, number>>
  /**
   * Counts messages after which the list of agents, the decision log, the artifacts or the coherence issues are read again.
   * `undefined` until the first `state_sync`.
   */
  changes: { agents: number; log: number; artifacts: number; issues: number } | undefined
}

const KEPT = 200

const NONE = { agents: 0, log: 0, artifacts: 0, issues: 0 }

/** Types of events that are not in the decision log. */
const UNLOGGED = ['status', 'progress', 'artifact', 'raw_provider']

/** Follows a project. A new connection continues after the last message. */
export class ProjectFollower {
  readonly state = new Store<LiveProject>({ state: undefined, events: [], trust: {}, changes: undefined })
  private socket: LiveSocket<ProjectMessage> | undefined
  private cursor: string | undefined
  private incoming: ProjectMessage[] = []
  private taken = Promise.resolve()

  constructor(private readonly id: string) {}

  open(): void {
    this.socket ??= new LiveSocket<ProjectMessage>(
      `project ${this.id}`,
      () => ({ path: `/ws/projects/${this.id}`, followed: { projectId: this.id }, after: this.cursor }),
      (message) => {
        this.cursor = message.cursor
        this.taken = this.taken.then(() => this.take(message)).catch(reportError)
      },
    )
  }

  /** Takes a message. A state that was too large for a message of the WebSocket API is read; later messages wait for it. */
  private async take(message: ProjectMessage): Promise<void> {
    if (message.type === 'state_sync' && !('project' in message)) {
      const read = async () => {
        const state = await data(api.GET('/api/projects/{id}/state', { params: { path: { id: this.id } } }))
        this.incoming.push({ type: 'state_sync', ...state })
      }
      await readUntilDone(`project ${this.id}`, read, () => this.socket === undefined)
    } else {
      this.incoming.push(message)
    }
    this.flush()
  }

  close(): void {
    this.socket?.close()
    this.socket = undefined
  }

  /** Shows all messages that arrived since the last call at once. */
  private readonly flush = throttled(FLUSH_MS, () => {
    const { incoming } = this
    this.incoming = []
    this.state.update((state) => incoming.reduce(apply, state))
  })
}

/** The project after a message. */
function apply(live: LiveProject, message: ProjectMessage): LiveProject {
  const known = live.changes ?? NONE
  const { agents, log, artifacts, issues } = known
  switch (message.type) {
    case 'state_sync': {
      if (!('project' in message)) return live
      const scores = message.trustScores.map(({ agentId, score }) => [agentId, score] as const)
      // The lists are read after the first message, and again after each new connection.
      const changes = live.changes === undefined ? NONE : { agents: agents + 1, log: log + 1, artifacts: artifacts + 1, issues: issues + 1 }
      return { ...live, state: message, trust: Object.fromEntries(scores), changes }
    }
    case 'event': {
      const { event, sourceEventId } = message.envelope
      // The WebSocket API in `aws` repeats messages.
      if (live.events.some(({ envelope }) => envelope.sourceEventId === sourceEventId)) return live
      const isLogged = !UNLOGGED.includes(event.type)
      const events = message.workspace == null ? live.events : [message, ...live.events].slice(0, KEPT)
      const changes = {
        agents: agents + 1,
        log: isLogged ? log + 1 : log,
        artifacts: event.type === 'artifact' ? artifacts + 1 : artifacts,
        issues: event.type === 'coherence' ? issues + 1 : issues,
      }
      return { ...live, events, changes }
    }
    case 'trust_update': {
      const trust = { ...live.trust, [message.agentId]: Math.round(message.newScore) }
      return { ...live, trust, changes: { ...known, log: log + 1 } }
    }
    case 'brake':
    case 'decision_resolved':
      return { ...live, changes: { ...known, agents: agents + 1, log: log + 1 } }
  }
}

/** Give the component the id as its key. */
export function useProjectFollower(id: string): ProjectFollower {
  return useFollower(() => new ProjectFollower(id))
}
