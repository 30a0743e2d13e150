import { api, data } from './client'
import { isCloud } from './profile'
import type { ToolCallView } from './types'

/** In `aws`, the server answers with the address of a larger content, from which the policy of the page allows no request. */
const MAX_CLOUD_BYTES = 2_900_000

type Fields = Readonly<Record<string, unknown>>

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A text that a sidecar moved to a blob. */
interface Reference {
  sha256: string
  size: number
}

function isReference(value: unknown): value is Fields & Reference {
  return isFields(value) && typeof value.sha256 === 'string' && typeof value.size === 'number'
}

/** The blob with the whole input, which a sidecar names in an input that it shortens. */
function referenceOf(input: unknown): Reference | undefined {
  return isFields(input) && input.truncated === true && isReference(input.blob) ? input.blob : undefined
}

/** Whether the input of a call is shortened. */
export function isShortened({ input, truncated }: Pick<ToolCallView, 'input' | 'truncated'>): boolean {
  return truncated || referenceOf(input) !== undefined
}

/** The place of a blob. Records name it by its hash, or by its key, which ends with the hash. */
export function blobPath(sessionId: string, name: string): { id: string; sha256: string } {
  return { id: sessionId, sha256: name.split('/').at(-1) ?? name }
}

export async function blobText(sessionId: string, name: string): Promise<string> {
  const params = { path: blobPath(sessionId, name) }
  const text: unknown = await data(
    api.GET('/api/agents/sessions/{id}/blobs/{sha256}', { params, parseAs: 'text' }),
  )
  return text as string
}

async function referencedText(sessionId: string, { sha256, size }: Reference): Promise<string> {
  if (isCloud && size > MAX_CLOUD_BYTES) throw new Error('The whole text is too large for the console.')
  return blobText(sessionId, sha256)
}

/** Whether a value is another one with shortened texts. */
function isShortenedFrom(value: unknown, whole: unknown): boolean {
  if (typeof value === 'string' && typeof whole === 'string') {
    return value === whole || (value.endsWith('…') && whole.startsWith(value.slice(0, -1)))
  }
  if (Array.isArray(value)) {
    const parts: readonly unknown[] = value
    return Array.isArray(whole) && parts.length === whole.length && parts.every((part, at) => isShortenedFrom(part, whole[at]))
  }
  if (!isFields(value)) return value === whole
  const entries = Object.entries(value)
  return (
    isFields(whole) &&
    entries.length === Object.keys(whole).length &&
    entries.every(([name, field]) => isShortenedFrom(field, whole[name]))
  )
}

/**
 * The whole input that a sidecar may have shortened. An agent writes inputs, so it may write the fields of a sidecar itself: the blob counts
 * only if it has the shown texts.
 */
export async function referencedInput(sessionId: string, input: unknown): Promise<unknown> {
  const reference = referenceOf(input)
  if (reference === undefined || !isFields(input)) return input
  const whole: unknown = JSON.parse(await referencedText(sessionId, reference))
  const shown = Object.fromEntries(Object.entries(input).filter(([name]) => name !== 'truncated' && name !== 'blob'))
  return Object.keys(shown).length === 0 || isShortenedFrom(shown, whole) ? whole : input
}

/** The content of a recorded event. */
async function contentOf(sessionId: string, blob: string): Promise<unknown> {
  const event: unknown = JSON.parse(await blobText(sessionId, blob))
  return isFields(event) ? event.content : undefined
}

/** The whole input of a recorded call. The control plane and the sidecar may both have shortened it. */
export async function wholeInput(
  sessionId: string,
  { input, truncated, blob }: Pick<ToolCallView, 'input' | 'truncated' | 'blob'>,
): Promise<unknown> {
  if (!truncated || blob == null) return referencedInput(sessionId, input)
  const call = await contentOf(sessionId, blob)
  return referencedInput(sessionId, isFields(call) ? call.input : undefined)
}

/** The whole text of a message or result: of a blob with the text, which has no key, or with the event. */
export async function wholeText(sessionId: string, blob: string): Promise<string> {
  if (!blob.includes('/')) return blobText(sessionId, blob)
  const content = await contentOf(sessionId, blob)
  const isMessage = isFields(content) && (content.kind === 'text' || content.kind === 'thinking')
  const text = isMessage ? content.text : content
  if (isReference(text)) return referencedText(sessionId, text)
  return typeof text === 'string' ? text : JSON.stringify(text)
}
