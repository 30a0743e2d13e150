/**
 * The key that each request carries besides the cookie. Cookies are shared by all ports of a host, storage is not, so another
 * program on this machine that receives the cookie can do nothing with it.
 */
const NAME = 'pilothouse-key'

/** Read for each request, because another tab may have logged in meanwhile. */
export function consoleKey(): string | null {
  return localStorage.getItem(NAME)
}

export function storeConsoleKey(key: string | null): void {
  if (key === null) localStorage.removeItem(NAME)
  else localStorage.setItem(NAME, key)
}
