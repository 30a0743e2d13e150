import { consoleRequest } from '../api/client'
import { consoleKey } from '../api/key'
import { lostStreams, mark } from './outdated'
import { throttled } from './throttle'

/** The wait before the first repetition of a connection or read, in milliseconds; it doubles up to `LONGEST_DELAY`. */
export const FIRST_DELAY = 300
export const LONGEST_DELAY = 5_000

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
    this.abandon()
    window.removeEventListener('online', this.reconnectNow)
    window.removeEventListener('offline', this.disconnect)
    document.removeEventListener('visibilitychange', this.reconnectNow)
    mark(lostStreams, this.name, false)
  }

  /**
   * Forgets the socket. Without a network, a browser reports the end of a socket only after a minute, when the other side has not answered
   * the closing handshake.
   */
  private abandon(): void {
    const { socket } = this
    if (socket === undefined) return
    this.socket = undefined
    socket.onopen = null
    socket.onmessage = null
    socket.onclose = null
    socket.close()
  }

  /** A device without a network notices a lost connection only minutes later. The page shows at once that it may be out of date. */
  private readonly disconnect = (): void => {
    if (this.socket === undefined) return
    this.abandon()
    this.connectLater()
  }

  /** Connects at once. An attempt that began without a network could hang. */
  private readonly reconnectNow = (): void => {
    if (this.socket?.readyState === WebSocket.OPEN || this.isClosed || document.visibilityState === 'hidden') return
    clearTimeout(this.timer)
    this.abandon()
    this.connect()
  }

  private connectLater(): void {
    mark(lostStreams, this.name, true)
    this.timer = setTimeout(() => {
      this.connect()
    }, this.delay * (0.75 + Math.random() / 2))
    this.delay = Math.min(this.delay * 2, LONGEST_DELAY)
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
      mark(lostStreams, this.name, false)
    }
    socket.onmessage = (event) => {
      this.receive(JSON.parse(event.data as string) as M)
    }
    socket.onclose = () => {
      this.socket = undefined
      if (!wasOpen) checkLogin()
      this.connectLater()
    }
  }
}
