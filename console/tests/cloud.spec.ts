import type { Page } from '@playwright/test'
import { Cloud, fileFor } from './cloud'
import { expect, expectAccessible, test as base } from './fixture'

/** A console that is logged in to a deployment in AWS. */
const test = base.extend<{ cloud: Cloud; cloudPage: Page }>({
  cloud: async ({ server, page }, use) => {
    const cloud = await Cloud.start(page, server)
    await use(cloud)
    // A test may end while the page still reads. Playwright then disposes of the answers.
    await page.unrouteAll({ behavior: 'ignoreErrors' })
    expect(cloud.unexpected, 'requests that a deployment cannot answer').toEqual([])
  },
  cloudPage: async ({ cloud, page }, use) => {
    const violations: string[] = []
    page.on('console', (message) => {
      if (/Content Security Policy|Trusted Type/i.test(message.text())) violations.push(message.text())
    })
    page.on('pageerror', (error) => violations.push(error.message))
    await page.goto(cloud.link('/'))
    await expect(page.getByRole('main').getByText('0 waiting')).toBeVisible()
    await use(page)
    expect(violations, 'neither policy violations nor errors').toEqual([])
  },
})

test('addresses of the application get the page, and files themselves', { tag: '@quick' }, () => {
  for (const address of ['/', '/login', '/sessions', '/sessions/019a0000-0000-7000-8000-000000000000', '/projects/x/map']) {
    expect(fileFor(address), address).toBe('/index.html')
  }
  for (const file of ['/assets/index-CGx7_cpH.js', '/push-worker.js', '/icon.svg', '/console.webmanifest', '/index.html']) {
    expect(fileFor(file)).toBe(file)
  }
})

test('in aws, a link with a token logs in until the page is reloaded', { tag: '@quick' }, async ({ cloud, page }) => {
  await page.goto(cloud.link('/settings'))
  await expect(page.getByText('You act as local')).toBeVisible()
  await expect(page.getByText('The token ends')).toBeVisible()
  await expect(page.getByRole('list', { name: 'Logins' })).toHaveCount(0)
  await expectAccessible(page)
  expect(new URL(page.url())).toMatchObject({ pathname: '/settings', hash: '' })
  const stored = await page.evaluate(() =>
    JSON.stringify([Object.entries(localStorage), Object.entries(sessionStorage), document.cookie, location.href, history.state]),
  )
  expect(stored).not.toContain(cloud.token)
  expect(await page.context().cookies()).toEqual([])

  await page.reload()
  const field = page.getByLabel('Token or link')
  await expect(field).toBeVisible()
  await expectAccessible(page)
  await field.fill(cloud.token)
  await page.getByRole('button', { name: 'Log in' }).click()
  // Back on the page that was reloaded.
  await expect(page.getByText('You act as local')).toBeVisible()
  await page.getByRole('button', { name: 'Log out' }).click()
  await expect(field).toBeVisible()
})

test('in aws, a token that is not accepted logs nobody in', { tag: '@quick' }, async ({ cloud, page }) => {
  await page.goto(cloud.address('/'))
  const field = page.getByLabel('Token or link')
  for (const [text, problem] of [
    ['no token', 'This is not a token.'],
    ['a.b.c', 'The token is not accepted: it has expired, or it is not for this deployment.'],
  ] as const) {
    await field.fill(text)
    await page.getByRole('button', { name: 'Log in' }).click()
    await expect(page.getByRole('alert')).toHaveText(problem)
  }
})

test('in aws, the page of a link stays after a refused token', { tag: '@quick' }, async ({ cloud, page }) => {
  await page.goto(cloud.address('/login#token=a.b.c&to=/settings'))
  await expect(page.getByRole('alert')).toBeVisible()
  expect(page.url()).not.toContain('a.b.c')
  await page.getByLabel('Token or link').fill(cloud.token)
  await page.getByRole('button', { name: 'Log in' }).click()
  await expect(page.getByText('You act as local')).toBeVisible()
})

test('in aws, a pasted link leads to its page', { tag: '@quick' }, async ({ cloud, page }) => {
  await page.goto(cloud.address('/'))
  await page.getByLabel('Token or link').fill(cloud.link('/settings'))
  await page.getByRole('button', { name: 'Log in' }).click()
  await expect(page.getByText('You act as local')).toBeVisible()
})

test('in aws, the end of a token leads to the login', { tag: '@quick' }, async ({ cloud, cloudPage: page }) => {
  cloud.isRefusing = true
  await expect(page.getByLabel('Token or link')).toBeVisible()
})

test('in aws, the inbox is followed by a subscription', { tag: '@quick' }, async ({ server, cloud, cloudPage: page }) => {
  const steps = [{ turn: { steps: [{ question: { id: 'q', questions: [{ question: 'Which one?' }] } }] } }]
  await server.session('asks', steps)
  const decisions = async () => (await server.api<{ items: unknown[] }>('GET', 'decisions')).items
  await expect.poll(async () => (await decisions()).length).toBe(1)
  const [decision] = await decisions()
  expect(cloud.subscriptions[0]?.request).toEqual({ action: 'subscribe', topic: 'decisions' })
  cloud.send(({ topic }) => topic === 'decisions', { type: 'decision', data: decision })
  await expect(page.getByRole('list', { name: 'Waiting decisions' })).toContainText('Which one?')
})

test('in aws, the list of sessions is read again', async ({ server, cloudPage: page }) => {
  await page.getByRole('navigation').getByRole('link', { name: 'Sessions', exact: true }).click()
  await server.session('started elsewhere', [{ turn: { steps: [{ say: 'Hello' }] } }])
  await expect(page.getByRole('main').getByText('started elsewhere')).toBeVisible({ timeout: 45_000 })
})

test('in aws, a hidden page does not repeat reads that fail', async ({ cloudPage: page }) => {
  await page.route(/\/api\/notifications\?/, (route) => route.fulfill({ status: 503 }))
  const banner = page.getByText('The server has not sent a list since')
  await expect(banner).toBeVisible({ timeout: 45_000 })
  await page.evaluate(() => {
    Object.defineProperty(document, 'visibilityState', { value: 'hidden' })
    document.dispatchEvent(new Event('visibilitychange'))
  })
  // The banner is shown while reads are repeated.
  await expect(banner).toBeHidden()
})

test('in aws, a lost connection continues after the last message', { tag: '@quick' }, async ({ server, cloud, page }) => {
  const id = await server.session('report', [{ turn: { steps: [{ say: 'Hello' }] } }])
  const isSubscription = ({ sessionId }: { sessionId?: string }) => sessionId === id
  const requests = () => cloud.subscriptions.map(({ request }) => request).filter(isSubscription)
  await page.goto(cloud.link(`/sessions/${id}`))
  await expect.poll(() => requests().length).toBe(1)
  cloud.send(isSubscription, { cursor: 'j1.1', type: 'queue', data: { event: 'MessageEnqueuedEvent' } })
  await cloud.disconnect(isSubscription)
  await expect.poll(() => requests().at(-1)?.after).toBe('j1.1')
})

test('in aws, a session is followed by a subscription', { tag: '@quick' }, async ({ server, cloud, page }) => {
  const id = await server.session('report', [{ turn: { steps: [{ say: 'Hello' }] } }])
  const activity = async () =>
    (await server.api<{ items: { id: string }[] }>('GET', `agents/sessions/${id}/activity?limit=200`)).items
  await expect.poll(async () => JSON.stringify(await activity())).toContain('Hello')
  const isSubscription = ({ sessionId }: { sessionId?: string }) => sessionId === id
  await page.goto(cloud.link(`/sessions/${id}`))
  await expect.poll(() => cloud.subscriptions.some(({ request }) => isSubscription(request))).toBe(true)
  for (const data of await activity()) {
    const [entry, line] = data.id.split('.').map(Number)
    cloud.send(isSubscription, { cursor: `j${String((entry ?? 0) - 1)}.${String((line ?? 0) + 1)}`, type: 'activity', data })
  }
  const { cursor } = await server.api<{ cursor: string }>('GET', `agents/sessions/${id}`)
  cloud.send(isSubscription, { cursor, type: 'caught_up', data: {} })
  await expect(page.getByRole('region', { name: 'Timeline' })).toContainText('Hello')
})
