import { useEffect, useState } from 'react'
import type { ProjectMessage, ProjectState, RoutedEvent } from '../api/types'
import { LiveSocket } from './socket'
import { Store } from './store'

export interface LiveProject {
  /** The state of the last `state_sync`. */
  state: ProjectState | undefined
  /** What agents did while the page was open, latest first. */
  events: readonly RoutedEvent[]
  /** The latest score of each agent. */
  trust: Readonly<Record<string, number>>
  /** Counts messages that change what agents show, and those that change the decision log. */
  changes: { agents: number; log: number }
}

const KEPT = 200

/** Events that the decision log does not have. */
const UNLOGGED = ['status', 'progress', 'raw_provider']

/** Follows a project. A new connection continues after the last message. */
export class ProjectFollower {
  readonly state = new Store<LiveProject>({ state: undefined, events: [], trust: {}, changes: { agents: 0, log: 0 } })
  private socket: LiveSocket<ProjectMessage> | undefined
  private cursor: string | undefined
  private incoming: ProjectMessage[] = []
  private frame: number | undefined

  constructor(private readonly id: string) {}

  open(): void {
    const path = `/ws/projects/${this.id}`
    this.socket ??= new LiveSocket<ProjectMessage>(
      `project ${this.id}`,
      () => (this.cursor === undefined ? path : `${path}?after=${encodeURIComponent(this.cursor)}`),
      (message) => {
        this.cursor = message.cursor
        this.incoming.push(message)
        this.frame ??= requestAnimationFrame(this.flush)
      },
    )
  }

  close(): void {
    this.socket?.close()
    this.socket = undefined
  }

  /** Takes everything that arrived since the last frame at once. */
  private readonly flush = (): void => {
    this.frame = undefined
    const { incoming } = this
    this.incoming = []
    this.state.update((state) => incoming.reduce(take, state))
  }
}

function take(live: LiveProject, message: ProjectMessage): LiveProject {
  const { agents, log } = live.changes
  switch (message.type) {
    case 'state_sync': {
      if (!('project' in message)) return live
      const scores = message.trustScores.map(({ agentId, score }) => [agentId, score] as const)
      return { ...live, state: message, trust: Object.fromEntries(scores), changes: { agents: agents + 1, log: log + 1 } }
    }
    case 'event': {
      const isLogged = !UNLOGGED.includes(message.envelope.event.type)
      const events = message.workspace == null ? live.events : [message, ...live.events].slice(0, KEPT)
      return { ...live, events, changes: { agents: agents + 1, log: isLogged ? log + 1 : log } }
    }
    case 'trust_update': {
      const trust = { ...live.trust, [message.agentId]: Math.round(message.newScore) }
      return { ...live, trust, changes: { agents, log: log + 1 } }
    }
    case 'brake':
    case 'decision_resolved':
      return { ...live, changes: { agents: agents + 1, log: log + 1 } }
  }
}

/** Follows a project while a component shows it. Give the component the id as its key. */
export function useProjectFollower(id: string): ProjectFollower {
  const [follower] = useState(() => new ProjectFollower(id))
  useEffect(() => {
    follower.open()
    return () => {
      follower.close()
    }
  }, [follower])
  return follower
}
