// Shows notifications while no page of the console is visible. It keeps no files, and the page's requests do not pass it.

const TITLES = {
  'session-completed': 'Completed',
  'session-failed': 'Failed',
  'output-ready': 'An output waits for your review',
  'waiting-for-input': 'An agent asks',
  'waiting-for-approval': 'A plan waits for your approval',
  'budget-exhausted': 'A budget is used up',
  'quota-exceeded': 'A quota is used up',
  'context-exhausted': 'A context window is full',
  'chain-completed': 'Completed',
}

async function show({ sequence, kind, text, sessionId, at }) {
  const pages = await self.clients.matchAll({ type: 'window', includeUncontrolled: true })
  if (pages.some(({ visibilityState }) => visibilityState === 'visible')) return
  await self.registration.showNotification(TITLES[kind] ?? 'Pilothouse', {
    body: text,
    // A later notification about a session replaces the earlier one.
    tag: sessionId ?? `notification-${sequence}`,
    renotify: true,
    timestamp: Date.parse(at),
    icon: '/icon-192.png',
    data: { path: sessionId == null ? '/' : `/sessions/${sessionId}` },
  })
}

async function openPage(path) {
  const [page] = await self.clients.matchAll({ type: 'window', includeUncontrolled: true })
  if (page === undefined) await self.clients.openWindow(path)
  else {
    await page.focus()
    // The page navigates itself, so that it keeps its state.
    page.postMessage({ open: path })
  }
}

self.addEventListener('install', () => self.skipWaiting())
self.addEventListener('push', (event) => {
  if (event.data !== null) event.waitUntil(show(event.data.json()))
})
self.addEventListener('notificationclick', (event) => {
  event.notification.close()
  event.waitUntil(openPage(event.notification.data.path))
})
