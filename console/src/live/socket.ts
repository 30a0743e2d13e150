import { api, consoleRequest } from '../api/client'
import { consoleKey } from '../api/key'
import { isCloud } from '../api/profile'
import { bearerToken } from '../api/token'
import { lostStreams, mark } from './outdated'
import { Subscription, type Followed, type StreamFrame } from './subscription'
import { throttled } from './throttle'

/** The wait before the first repetition of a connection or read, in milliseconds; it doubles up to `LONGEST_DELAY`. */
export const FIRST_DELAY = 300
export const LONGEST_DELAY = 5_000

/** API Gateway closes a connection that is idle for ten minutes. A new subscription keeps it open. */
const RENEW_EVERY = 240_000
/** A connection is broken if a subscription is not answered in this time. */
const ANSWER_WITHIN = 45_000

/** A browser does not say why it could not connect. If the login has expired, the response to this request leads to the login. */
const checkLogin = throttled(LONGEST_DELAY, () => {
  const checked: Promise<unknown> = isCloud ? api.GET('/api/settings') : consoleRequest('session')
  checked.catch(() => undefined)
})

/** What a stream follows, and from where on. */
export interface StreamPlace {
  /** The address on the embedded server, without the cursor. */
  path: string
  /** The same for the WebSocket API in `aws`. Absent for a stream that only the embedded server has. */
  followed?: Followed
  /** The last cursor. */
  after?: string | undefined
}

const ORIGIN = `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}`

function socketOfServer({ path, after }: StreamPlace): WebSocket {
  const query = after === undefined ? '' : `${path.includes('?') ? '&' : '?'}after=${encodeURIComponent(after)}`
  return new WebSocket(`${ORIGIN}${path}${query}`, ['pilothouse', `pilothouse.${consoleKey() ?? ''}`])
}

/** Browsers cannot send a token in a header of this request. */
function socketOfCloud(): WebSocket {
  return new WebSocket(`${ORIGIN}/live?token=${encodeURIComponent(bearerToken() ?? '')}`)
}

/** A stream that reconnects until it is closed. `place` is called for each connection, so that it can contain the last cursor. */
export class LiveSocket<M> {
  private socket: WebSocket | undefined
  private timer: ReturnType<typeof setTimeout> | undefined
  private renewal: ReturnType<typeof setTimeout> | undefined
  private answer: ReturnType<typeof setTimeout> | undefined
  private delay = FIRST_DELAY
  private isClosed = false

  constructor(
    private readonly name: string,
    private readonly place: () => StreamPlace,
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
    this.forget()
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

  private forget(): void {
    this.socket = undefined
    clearTimeout(this.renewal)
    clearTimeout(this.answer)
  }

  private connect(): void {
    const place = this.place()
    const subscription =
      isCloud && place.followed !== undefined ? new Subscription(place.followed, place.after) : undefined
    const socket = subscription === undefined ? socketOfServer(place) : socketOfCloud()
    this.socket = socket
    let works = false
    const confirm = (): void => {
      works = true
      this.delay = FIRST_DELAY
      mark(lostStreams, this.name, false)
    }
    socket.onopen = () => {
      // The WebSocket API opens a connection before it knows what the connection follows.
      if (subscription === undefined) confirm()
      else this.subscribe(socket, subscription)
    }
    socket.onmessage = (event) => {
      const text = event.data as string
      if (subscription === undefined) {
        this.receive(JSON.parse(text) as M)
        return
      }
      let message: StreamFrame | undefined
      try {
        message = subscription.accept(text)
      } catch (error) {
        this.fail(error)
        return
      }
      clearTimeout(this.answer)
      confirm()
      if (message !== undefined) this.receive(message as unknown as M)
    }
    socket.onclose = () => {
      this.forget()
      if (!works) checkLogin()
      this.connectLater()
    }
  }

  private subscribe(socket: WebSocket, subscription: Subscription): void {
    socket.send(subscription.request())
    this.renewal = setTimeout(() => {
      this.subscribe(socket, subscription)
    }, RENEW_EVERY)
    clearTimeout(this.answer)
    this.answer = setTimeout(() => {
      this.fail(new Error('a subscription was not answered'))
    }, ANSWER_WITHIN)
  }

  /** Replaces a connection that cannot be used. */
  private fail(error: unknown): void {
    console.warn(`the stream ${this.name} failed`, error)
    this.abandon()
    checkLogin()
    this.connectLater()
  }
}
