/** Words in the text that browsers send, the most special first: Android is also a Linux, and Edge also calls itself Chrome and Safari. */
const SYSTEMS = ['iPhone', 'iPad', 'Android', 'Windows', 'Mac', 'Linux']
const BROWSERS = { Edg: 'Edge', Firefox: 'Firefox', Chrome: 'Chrome', Safari: 'Safari' }

/** A name for this browser that its owner recognises. */
export function deviceName(): string {
  const agent = navigator.userAgent
  const browser = Object.entries(BROWSERS).find(([word]) => agent.includes(word))?.[1] ?? 'Browser'
  const system = SYSTEMS.find((word) => agent.includes(word))
  return system === undefined ? browser : `${browser} on ${system}`
}
