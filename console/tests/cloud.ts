import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { runInNewContext } from 'node:vm'
import type { Page, Route, WebSocketRoute } from '@playwright/test'
import type { Server } from './server'

const ORIGIN = 'https://console.example'

interface RequestOfPage {
  uri: string
}

/** The function that a deployment runs in CloudFront. */
const pageFunction = runInNewContext(
  `${readFileSync(resolve(import.meta.dirname, '../../infra/console/page.js'), 'utf8')}\nhandler`,
) as (event: { request: RequestOfPage }) => RequestOfPage

/** The file that CloudFront requests for an address. */
export function fileFor(uri: string): string {
  return pageFunction({ request: { uri } }).uri
}

interface Subscription {
  request: { action: string; topic?: string; sessionId?: string; projectId?: string; after?: string }
  socket: WebSocketRoute
}

/**
 * What a browser reaches of a deployment in AWS: fakes of CloudFront, of the bucket with the files, and of API Gateway. The files and the
 * HTTP API behind them are those of a real server. A test sends the messages of the WebSocket API itself.
 */
export class Cloud {
  readonly subscriptions: Subscription[] = []
  /** Requests that a deployment cannot answer. */
  readonly unexpected: string[] = []
  /** Whether the HTTP API refuses every token, as after its end. */
  isRefusing = false

  private constructor(
    private readonly server: Server,
    readonly token: string,
  ) {}

  static async start(page: Page, server: Server): Promise<Cloud> {
    const cloud = new Cloud(server, (await server.cli('token')).trim())
    await page.route(`${ORIGIN}/**`, (route) => cloud.answer(route))
    await page.routeWebSocket(/^wss:\/\/console\.example\//, (socket) => {
      cloud.connect(socket)
    })
    return cloud
  }

  /** The link that `pilothouse --profile aws open` prints. */
  link(to: string): string {
    return `${ORIGIN}/login#token=${this.token}&to=${to}`
  }

  address(path: string): string {
    return ORIGIN + path
  }

  /** Sends a message to each connection that follows something. */
  send(isFollowing: (request: Subscription['request']) => boolean, message: unknown): void {
    for (const { request, socket } of this.subscriptions) {
      if (isFollowing(request)) socket.send(JSON.stringify(message))
    }
  }

  /** Closes each connection that follows something, as API Gateway does after two hours. */
  async disconnect(isFollowing: (request: Subscription['request']) => boolean): Promise<void> {
    const closed = this.subscriptions.filter(({ request }) => isFollowing(request))
    await Promise.all(closed.map(({ socket }) => socket.close({ code: 1001, reason: 'Going away' })))
  }

  private connect(socket: WebSocketRoute): void {
    const { pathname, searchParams } = new URL(socket.url())
    if (pathname !== '/live' || searchParams.get('token') !== this.token) this.unexpected.push(socket.url())
    socket.onMessage((text) => {
      const request = JSON.parse(String(text)) as Subscription['request']
      this.subscriptions.push({ request, socket })
      if (request.topic !== undefined) socket.send(JSON.stringify({ type: 'caught_up', data: {} }))
    })
  }

  private async answer(route: Route): Promise<void> {
    const { pathname, search } = new URL(route.request().url())
    if (pathname.startsWith('/api/')) return this.answerApi(route, pathname + search)
    const file = fileFor(pathname)
    const isPage = file === '/index.html'
    if (pathname.startsWith('/console/') || pathname.startsWith('/ws/')) this.unexpected.push(pathname)
    const response = await route.fetch({
      url: this.server.url + (isPage ? '/' : file),
      headers: { accept: isPage ? 'text/html' : '*/*' },
    })
    const headers = response.headers()
    const policy = headers['content-security-policy']
    const body = await response.body()
    return route.fulfill({
      status: response.status(),
      headers: {
        'content-type': headers['content-type'] ?? '',
        ...(policy === undefined ? {} : { 'content-security-policy': policy }),
      },
      // As `pilothouse-infra` writes the page.
      body: isPage ? body.toString().replace('content="embedded"', 'content="aws"') : body,
    })
  }

  /** API Gateway verifies the token itself, and has its own text for a refusal. It ignores the origin of a request. */
  private async answerApi(route: Route, path: string): Promise<void> {
    const headers = route.request().headers()
    delete headers.origin
    delete headers.referer
    const response = await route.fetch({ url: this.server.url + path, headers })
    if (this.isRefusing || response.status() === 401) {
      return route.fulfill({ status: 401, json: { message: 'Unauthorized' } })
    }
    const { 'content-type': type, etag } = response.headers()
    return route.fulfill({
      status: response.status(),
      headers: { ...(type === undefined ? {} : { 'content-type': type }), ...(etag === undefined ? {} : { etag }) },
      body: await response.body(),
    })
  }
}
