import { consoleRequest } from '../api/client'
import { consoleKey } from '../api/key'
import { Store } from './store'
import { throttled } from './throttle'

const FIRST_DELAY = 300
const LONGEST_DELAY = 5_000

/** The time at which each disconnected stream lost its connection, by the name of the stream. */
export const lostStreams = new Store<ReadonlyMap<string, number>>(new Map())

function markLost(name: string, isLost: boolean): void {
  if (isLost === lostStreams.get().has(name)) return
  const changed = new Map(lostStreams.get())
  if (isLost) changed.set(name, Date.now())
  else changed.delete(name)
  lostStreams.set(changed)
}

/** A browser does not say why it could not connect. If the login has expired, the response to this request leads to the login. */
const checkLogin = throttled(LONGEST_DELAY, () => {
  consoleRequest('session').catch(() => undefined)
})

/** A stream that reconnects until it is closed. `path` is called for each connection, so that it can contain the last cursor. */
export class LiveSocket<M> {
  private socket: WebSocket | undefined
  private timer: ReturnType<typeof setTimeout> | undefined
  private delay = FIRST_DELAY
  private isClosed = false

  constructor(
    private readonly name: string,
    private readonly path: () => string,
    private readonly receive: (message: M) => void,
  ) {
    window.addEventListener('online', this.reconnectNow)
    window.addEventListener('offline', this.disconnect)
    document.addEventListener('visibilitychange', this.reconnectNow)
    this.connect()
  }

  close(): void {
    this.isClosed = true
    clearTimeout(this.timer)
    window.removeEventListener('online', this.reconnectNow)
    window.removeEventListener('offline', this.disconnect)
    document.removeEventListener('visibilitychange', this.reconnectNow)
    markLost(this.name, false)
    this.socket?.close()
  }

  /** A device without a network notices a lost connection only minutes later. The page shows at once that it may be out of date. */
  private readonly disconnect = (): void => {
    this.socket?.close()
  }

  private readonly reconnectNow = (): void => {
    if (this.socket !== undefined || this.isClosed || document.visibilityState === 'hidden') return
    clearTimeout(this.timer)
    this.connect()
  }

  private connect(): void {
    const scheme = location.protocol === 'https:' ? 'wss' : 'ws'
    const key = consoleKey() ?? ''
    const socket = new WebSocket(`${scheme}://${location.host}${this.path()}`, ['pilothouse', `pilothouse.${key}`])
    this.socket = socket
    let wasOpen = false
    socket.onopen = () => {
      wasOpen = true
      this.delay = FIRST_DELAY
      markLost(this.name, false)
    }
    socket.onmessage = (event) => {
      if (!this.isClosed) this.receive(JSON.parse(event.data as string) as M)
    }
    socket.onclose = () => {
      this.socket = undefined
      if (this.isClosed) return
      markLost(this.name, true)
      if (!wasOpen) checkLogin()
      this.timer = setTimeout(() => {
        this.connect()
      }, this.delay * (0.75 + Math.random() / 2))
      this.delay = Math.min(this.delay * 2, LONGEST_DELAY)
    }
  }
}
