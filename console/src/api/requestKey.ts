import { useState } from 'react'
import { newRequestKey } from './client'

/**
 * The `Idempotency-Key` of a form that creates something. It stays the same while the content does, until a request succeeded. So a second
 * click after a lost response, or during the first request, creates nothing twice.
 */
export class RequestKey {
  private content: string | undefined
  private key = ''

  header(content: unknown): { 'Idempotency-Key': string } {
    const text = JSON.stringify(content)
    if (text !== this.content) {
      this.content = text
      this.key = newRequestKey()
    }
    return { 'Idempotency-Key': this.key }
  }

  /** The same content is another request from now on. */
  renew(): void {
    this.content = undefined
  }
}

export function useRequestKey(): RequestKey {
  const [key] = useState(() => new RequestKey())
  return key
}
