/**
 * The token with which the page acts in `aws`. It is in memory only, so that nothing else that reads the storage of the browser finds it.
 * It ends with the page.
 */
let token: string | undefined

export function bearerToken(): string | undefined {
  return token
}

export function storeToken(value: string | undefined): void {
  token = value
}

/** What a token says about itself. The HTTP API verifies it, the page only shows it. */
export interface TokenClaims {
  owner: string | undefined
  expiresAt: string | undefined
}

export function claimsOf(text: string): TokenClaims {
  try {
    const payload = (text.split('.')[1] ?? '').replaceAll('-', '+').replaceAll('_', '/')
    const bytes = Uint8Array.from(atob(payload), (character) => character.charCodeAt(0))
    const { sub, exp } = JSON.parse(new TextDecoder().decode(bytes)) as { sub?: unknown; exp?: unknown }
    return {
      owner: typeof sub === 'string' ? sub : undefined,
      expiresAt: typeof exp === 'number' ? new Date(exp * 1000).toISOString() : undefined,
    }
  } catch {
    return { owner: undefined, expiresAt: undefined }
  }
}
