import createClient from 'openapi-fetch'
import { authenticate } from './credentials'
import type { paths, ProblemDocument } from './types'

/** A refusal or failure of the server, or a lost connection (status 0). The message is a sentence that the console shows. */
export class ApiProblem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly problem?: ProblemDocument,
  ) {
    super(message)
  }
}

let loggedOut: () => void = () => undefined

/** Registers a listener that runs when the server no longer accepts the login. */
export function onLoggedOut(listener: () => void): void {
  loggedOut = listener
}

const changeListeners = new Set<() => void>()

/** Registers a listener that runs after the server has carried out a change of this page. */
export function onChangeCarriedOut(listener: () => void): () => void {
  changeListeners.add(listener)
  return () => changeListeners.delete(listener)
}

/** A problem document, or what API Gateway answers itself in `aws`. */
type Refusal = Partial<ProblemDocument> & { message?: string }

function sentence(problem: Refusal, status: number): string {
  const violations = (problem.violations ?? []).map(({ field, message }) => `${field} ${message}`)
  const reason = problem.message === undefined ? '' : `: ${problem.message}`
  const detail = problem.detail ?? `The server answered with status ${String(status)}${reason}.`
  return violations.length > 0 ? `${detail} ${violations.join('; ')}.` : detail
}

const REQUEST_KEY = 'Idempotency-Key'

/** The waits before a change is sent again after its connection broke, in milliseconds. */
const SEND_AGAIN_MS = [500, 1_000, 2_000]

/** A new `Idempotency-Key`. `crypto.randomUUID` would need HTTPS. */
export function newRequestKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

function isChange(request: Request): boolean {
  return request.method !== 'GET' && new URL(request.url).pathname.startsWith('/api/')
}

/**
 * Sends a request. The server may have carried out a change although the connection broke before its response. The change is sent again
 * with the same key, so that the server carries it out once.
 */
async function fetchAgain(request: Request): Promise<Response> {
  if (!isChange(request)) return fetch(request)
  if (!request.headers.has(REQUEST_KEY)) request.headers.set(REQUEST_KEY, newRequestKey())
  for (const wait of SEND_AGAIN_MS) {
    try {
      return await fetch(request.clone())
    } catch (error) {
      if (request.signal.aborted) throw error
    }
    await new Promise((done) => setTimeout(done, wait))
  }
  return fetch(request)
}

async function send(request: Request): Promise<Response> {
  authenticate(request.headers)
  let response: Response
  try {
    response = await fetchAgain(request)
  } catch {
    throw new ApiProblem(0, 'unreachable', 'The server cannot be reached.')
  }
  if (response.ok) {
    if (isChange(request)) for (const listener of changeListeners) listener()
    return response
  }
  const problem = (await response.json().catch(() => ({}))) as Refusal
  if (response.status === 401) loggedOut()
  throw new ApiProblem(
    response.status,
    problem.code ?? 'unknown',
    sentence(problem, response.status),
    problem.code === undefined ? undefined : (problem as ProblemDocument),
  )
}

export const api = createClient<paths>({ baseUrl: location.origin, fetch: send })

/** The data of a response. Failures were thrown before. */
export async function data<T>(call: Promise<{ data?: T }>): Promise<T> {
  const { data } = await call
  return data as T
}

export function etag(version: number): string {
  return `"${String(version)}"`
}

/** Requests below `/console`, which only the embedded server has. The OpenAPI document does not describe them. */
export async function consoleRequest<T>(path: string, body?: unknown, method?: 'DELETE'): Promise<T> {
  const response = await send(
    new Request(`${location.origin}/console/${path}`, {
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      ...(body === undefined
        ? {}
        : { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } }),
    }),
  )
  return (response.status === 204 ? undefined : await response.json()) as T
}

/**
 * Violations by their whole paths, and by the names of their fields. The text for a field has all violations within it, each with the rest
 * of its path.
 */
export function violationsByField(violations: Iterable<readonly [path: string, message: string]>): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  for (const [path, message] of violations) {
    const [name = ''] = path.split(/[.[]/)
    const sentence = path === name ? message : `${path.slice(name.length)} ${message}`
    found.set(name, [found.get(name), sentence].filter((part) => part !== undefined).join('; '))
    if (path !== name) found.set(path, message)
  }
  return found
}

/** The violations of a request, by field. A `prefix` of their paths is omitted. */
export function violationsOf(error: unknown, prefix = ''): ReadonlyMap<string, string> {
  const violations = error instanceof ApiProblem ? (error.problem?.violations ?? []) : []
  return violationsByField(
    violations.map(({ field, message }) => [field.startsWith(prefix) ? field.slice(prefix.length) : field, message] as const),
  )
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : 'Something went wrong.'
}
