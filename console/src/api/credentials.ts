import { consoleKey } from './key'
import { isCloud } from './profile'
import { bearerToken } from './token'

/** Whether the page has what its requests need. Only the server knows whether it accepts it. */
export function isLoggedIn(): boolean {
  return isCloud ? bearerToken() !== undefined : consoleKey() !== null
}

/** Adds a token to the headers of a request, or the key that belongs to the cookie. */
export function authenticate(headers: Headers): void {
  if (isCloud) {
    const token = bearerToken()
    if (token !== undefined) headers.set('Authorization', `Bearer ${token}`)
  } else {
    const key = consoleKey()
    if (key !== null) headers.set('X-Pilothouse-Console', key)
  }
}
