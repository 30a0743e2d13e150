import type { Page } from '@playwright/test'
import { expect, isPhone, open, test } from './fixture'
import type { Server } from './server'

const SESSIONS = 1_000
const ITEMS = Number(process.env.PILOTHOUSE_BENCH_ITEMS ?? 100_000)
const PARTS = 4
const FIRST_LOAD_KB = 300

/** The bytes that the page loaded, as they were sent, and the time of its first content. */
async function load(page: Page, path: string): Promise<{ kB: number; paintMs: number }> {
  await open(page, path)
  await expect(page.getByRole('main').getByRole('heading', { level: 1 })).toBeVisible()
  const { bytes, paint } = await page.evaluate(() => {
    const files = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
    const sizes = files
      .filter(({ name }) => !new URL(name).pathname.startsWith('/api/'))
      .map((entry) => (entry as PerformanceResourceTiming).encodedBodySize)
    const paint = performance.getEntriesByName('first-contentful-paint')[0]
    return { bytes: sizes.reduce((sum, size) => sum + size, 0), paint: paint?.startTime ?? NaN }
  })
  return { kB: Math.round(bytes / 1000), paintMs: Math.round(paint) }
}

/** The longest time from an input to the next paint while `interact` runs, in milliseconds. */
async function nextPaint(page: Page, interact: () => Promise<void>): Promise<number> {
  await page.evaluate(() => {
    const seen: number[] = []
    Object.assign(window, { inputs: seen })
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) seen.push(duration)
    }).observe({ type: 'event', durationThreshold: 16, buffered: false } as PerformanceObserverInit)
  })
  await interact()
  // The browser reports an input after the frame that follows it.
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 200))))
  return page.evaluate(() => Math.max(0, ...(window as unknown as { inputs: number[] }).inputs))
}

/** Starts a session that plays a script. */
async function start(server: Server, name: string, script: unknown): Promise<string> {
  const { session } = await server.api<{ session: { id: string } }>('POST', 'agents/sessions', {
    ...{ objective: `Do the work of ${name}`, name, workingDirectory: server.work, adapter: 'script', budgetCapUsd: '5' },
    adapterOptions: { script },
  })
  return session.id
}

const goOn = (server: Server, id: string) =>
  server.api('POST', `agents/sessions/${id}/messages/queue`, { content: 'Go on', priority: 'Queued' })

async function fill(server: Server): Promise<string> {
  // A script has a largest size, so messages start all parts but the first.
  const part = [{ repeat: { times: ITEMS / PARTS, steps: [{ say: 'line' }] } }, { say: 'the last line' }]
  const id = await start(server, 'long', { steps: [{ turn: { steps: part } }], onMessage: part })
  const isIdle = () => expect.poll(() => server.statusOf(id), { timeout: 1_200_000, intervals: [2_000] }).toBe('Idle')
  await isIdle()
  for (let part = 1; part < PARTS; part++) {
    await goOn(server, id)
    await expect.poll(() => server.statusOf(id)).toBe('Running')
    await isIdle()
  }
  for (let at = 1; at < SESSIONS; at++) await start(server, `session ${String(at)}`, { steps: [{ say: 'Done' }] })
  return id
}

test('the first load is small', { tag: '@quick' }, async ({ console: page }) => {
  test.skip(isPhone(page), 'both widths load the same files')
  expect((await load(page, '/')).kB).toBeLessThan(FIRST_LOAD_KB)
})

test('the console can be installed', { tag: '@quick' }, async ({ console: page }) => {
  const session = await page.context().newCDPSession(page)
  const { installabilityErrors } = await session.send('Page.getInstallabilityErrors')
  // Each test has a private window, in which nothing can be installed.
  expect(installabilityErrors.filter(({ errorId }) => errorId !== 'in-incognito')).toEqual([])
})

test('a device without a network says so at once', async ({ server, console: page }) => {
  await expect(page.getByText(/Not connected since/)).toHaveCount(0)
  await page.context().setOffline(true)
  await expect(page.getByText(/Not connected since .*: this page may be out of date/)).toBeVisible({ timeout: 3_000 })
  const name = 'started meanwhile'
  await server.session(name, [{ turn: { steps: [{ question: { id: 'q', questions: [{ question: 'Which one?' }] } }] } }])
  await page.context().setOffline(false)
  await expect(page.getByText(/Not connected since/)).toHaveCount(0)
  await expect(page.getByRole('list', { name: 'Waiting decisions' })).toContainText('Which one?')
})

test('a lost network is shown although nothing answers', async ({ console: page }) => {
  // Without a network, no attempt to connect ends, and no close of a connection is answered.
  let isOffline = false
  await page.routeWebSocket(/\/ws\//, async (socket) => {
    if (isOffline) await new Promise(() => undefined)
    socket.onClose(() => undefined)
    socket.connectToServer()
  })
  await page.reload()
  await expect(page.getByRole('main').getByText('0 waiting')).toBeVisible()
  isOffline = true
  await page.context().setOffline(true)
  await expect(page.getByText(/Not connected since/)).toBeVisible({ timeout: 3_000 })
  isOffline = false
  await page.context().setOffline(false)
  await expect(page.getByText(/Not connected since/)).toHaveCount(0, { timeout: 3_000 })
})

/** The number of entries in the timeline. */
async function entries(page: Page): Promise<number> {
  const text = await page.getByRole('status').filter({ hasText: 'entries, live' }).innerText()
  return Number(text.split(' ')[0])
}

const LINES = 6_000

/** Opens a session before it streams `LINES` lines. Each message streams them again. */
async function openStream(server: Server, page: Page): Promise<string> {
  const stream = [{ repeat: { times: LINES - 2, steps: [{ say: 'a line' }] } }, { say: 'the last line' }]
  const id = await start(server, 'long', { steps: [{ turn: { steps: [{ say: 'the first line' }] } }], onMessage: stream })
  await open(page, `/sessions/${id}`)
  const timeline = page.getByRole('region', { name: 'Timeline' })
  await expect(timeline).toContainText('the first line')
  await expect(page.getByRole('button', { name: 'Load earlier' })).toHaveCount(0)
  await goOn(server, id)
  await expect(timeline).toContainText('the last line', { timeout: 60_000 })
  return id
}

/** Loads all earlier entries. Returns the number of entries. */
async function loadAll(page: Page): Promise<number> {
  const loadEarlier = page.getByRole('button', { name: 'Load earlier' })
  await expect(loadEarlier).toBeVisible()
  while (await loadEarlier.isVisible()) {
    const before = await entries(page)
    await loadEarlier.click()
    await expect.poll(() => entries(page)).toBeGreaterThan(before)
  }
  return entries(page)
}

test('the first entries of a long stream leave memory and can be loaded again', { tag: '@quick' }, async ({ server, console: page }) => {
  test.skip(isPhone(page), 'the width makes no difference')
  test.slow()
  await openStream(server, page)
  expect(await entries(page)).toBeLessThanOrEqual(5_000)
  expect(await loadAll(page)).toBeGreaterThanOrEqual(LINES)
})

test('no entry is missed that leaves memory while earlier ones load', async ({ server, console: page }) => {
  test.skip(isPhone(page), 'the width makes no difference')
  test.slow()
  const id = await openStream(server, page)
  await page.reload()
  const loadEarlier = page.getByRole('button', { name: 'Load earlier' })
  let answer = (): void => undefined
  const isAnswered = new Promise<void>((done) => {
    answer = done
  })
  await page.route(/\/activity\?/, async (route) => {
    await isAnswered
    await route.continue()
  })
  await loadEarlier.click()
  await goOn(server, id)
  await expect.poll(() => entries(page), { timeout: 60_000 }).toBeGreaterThan(LINES)
  await expect.poll(() => server.statusOf(id), { timeout: 60_000 }).toBe('Idle')
  answer()
  await expect(loadEarlier).toBeEnabled()
  const loaded = await loadAll(page)
  await page.reload()
  expect(await loadAll(page), 'each entry was there once').toBe(loaded)
})

test('rows keep their heights when the first entries leave memory', async ({ server, console: page }) => {
  test.skip(isPhone(page), 'the width makes no difference')
  test.slow()
  const first = { turn: { steps: [{ say: 'the first line' }] } }
  const many = { turn: { steps: [{ repeat: { times: 4_900, steps: [{ say: 'a line' }] } }, { say: 'the last line' }] } }
  const tall = [{ say: 'a text that needs several rows '.repeat(40) }]
  const id = await start(server, 'tall', { steps: [first, { waitForMessage: {} }, many], onMessage: tall })
  await open(page, `/sessions/${id}`)
  const timeline = page.getByRole('region', { name: 'Timeline' })
  const loadEarlier = page.getByRole('button', { name: 'Load earlier' })
  await expect(timeline).toContainText('the first line')
  await goOn(server, id)
  await expect(timeline).toContainText('the last line', { timeout: 60_000 })
  // A few entries at a time, so that the rows that are shown stay when the first entries leave.
  for (let more = 0; more < 100 && !(await loadEarlier.isVisible()); more++) {
    const before = await entries(page)
    await goOn(server, id)
    await expect.poll(() => entries(page)).not.toBe(before)
  }
  await expect(loadEarlier).toBeVisible()
  const overlaps = () =>
    timeline.locator('[data-index]').evaluateAll((rows) => {
      const boxes = rows.map((row) => row.getBoundingClientRect()).sort((a, b) => a.top - b.top)
      return boxes.filter(({ top }, at) => top < (boxes[at - 1]?.bottom ?? -Infinity) - 1).length
    })
  await expect.poll(overlaps).toBe(0)
})

/** An element that moved, and how far it moved down, in pixels. */
interface Move {
  node: string
  down: number
}

interface Source {
  node: Node | null
  previousRect: DOMRectReadOnly
  currentRect: DOMRectReadOnly
}

/** Records the layout shifts that move something up or down from now on. A text that becomes longer may move its end to the right. */
async function observeMoves(page: Page): Promise<() => Promise<Move[]>> {
  await page.evaluate(() => {
    const seen: Move[] = []
    Object.assign(window, { moves: seen })
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) {
        for (const { node, previousRect, currentRect } of (entry as PerformanceEntry & { sources: Source[] }).sources) {
          const down = currentRect.top - previousRect.top
          if (down !== 0) seen.push({ node: node === null ? '' : new XMLSerializer().serializeToString(node).slice(0, 160), down })
        }
      }
    }).observe({ type: 'layout-shift', buffered: false })
  })
  return () => page.evaluate(() => (window as unknown as { moves: Move[] }).moves)
}

test('nothing on a session moves while events stream', async ({ server, console: page }) => {
  const usage = { costUsd: '0.01', tokens: { inputTokens: 900, outputTokens: 80 }, context: { tokens: 9_000, limit: 200_000 } }
  const tool = { name: 'Bash', input: { command: 'ls' }, result: 'src' }
  const events = [{ say: 'a line' }, { tool }, { usage }, { wait: 40 }]
  // The turn lasts longer than the measurement, because its end changes the buttons again.
  const stream = [{ repeat: { times: 120, steps: events } }, { say: 'the last line' }, { wait: 600_000 }]
  // Before the measurement, each part of the page is there and the timeline is full.
  const first = [{ repeat: { times: 30, steps: events } }, { say: 'the first line' }]
  const id = await start(server, 'steady', { steps: [{ turn: { steps: first } }], onMessage: stream })
  await open(page, `/sessions/${id}`)
  const timeline = page.getByRole('region', { name: 'Timeline' })
  await expect(timeline).toContainText('the first line')
  await expect.poll(() => server.statusOf(id)).toBe('Idle')
  await page.waitForLoadState('networkidle')
  const moves = await observeMoves(page)
  // The observer sees a move, so an empty list means that there was none.
  await page.evaluate(() => {
    document.querySelector('main')?.prepend(Object.assign(document.createElement('p'), { id: 'wedge', textContent: 'wedge' }))
  })
  await expect.poll(async () => (await moves()).length).toBeGreaterThan(0)
  await page.evaluate(() => document.querySelector('#wedge')?.remove())
  // Moves are reported with the frame that follows them.
  const reported = () => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))
  await reported()
  await goOn(server, id)
  await expect.poll(() => server.statusOf(id)).toBe('Running')
  // The status of the session changes its buttons, once. Afterwards only the events change the page.
  await expect(page.getByRole('main').getByRole('button', { name: 'Interrupt' })).toBeVisible()
  await reported()
  const before = (await moves()).length
  await expect(timeline).toContainText('the last line', { timeout: 30_000 })
  expect((await moves()).slice(before)).toEqual([])
})

const TABS = 10

test('ten tabs follow the same agents', async ({ server, console: page }) => {
  test.skip(isPhone(page), 'the width makes no difference')
  test.slow()
  const question = { id: 'q1', questions: [{ question: 'Which colour?' }] }
  const steps = [{ say: 'the first line' }, { waitForMessage: {} }, { say: 'the second line' }, { question }, { say: 'the last line' }]
  const id = await start(server, 'shared', { steps: [{ turn: { steps } }] })
  const tabs = [page]
  while (tabs.length < TABS) tabs.push(await page.context().newPage())
  await Promise.all(
    tabs.map(async (tab) => {
      await tab.goto(`${server.url}/sessions/${id}`)
      await expect(tab.getByRole('region', { name: 'Timeline' })).toContainText('the first line')
    }),
  )
  const all = (check: (tab: Page) => Promise<void>) => Promise.all(tabs.map(check))
  await server.cli('steer', id, 'Go on')
  await all(async (tab) => {
    await expect(tab.getByRole('region', { name: 'Timeline' })).toContainText('the second line')
    await expect(tab).toHaveTitle('(1) Pilothouse')
  })
  // One of them answers.
  const card = tabs.at(-1)?.getByRole('article') ?? page.getByRole('article')
  await card.getByRole('textbox', { name: 'Which colour?' }).fill('Blue')
  await card.getByRole('button', { name: /^Answer/ }).click()
  await all(async (tab) => {
    await expect(tab.getByRole('region', { name: 'Timeline' })).toContainText('the last line')
    await expect(tab).toHaveTitle('Pilothouse')
    await expect(tab.getByRole('article')).toHaveCount(0)
    await expect(tab.getByText(/Not connected since|may be out of date/)).toHaveCount(0)
  })
  // A tab that was closed takes nothing from the others.
  await Promise.all(tabs.slice(1).map((tab) => tab.close()))
  await server.session('later', [{ turn: { steps: [{ question }] } }])
  await expect(page).toHaveTitle('(1) Pilothouse')
})

// Prints the figures of docs/benchmarks.md.
test('memory stays flat while events stream', async ({ server, console: page }) => {
  const minutes = Number(process.env.PILOTHOUSE_BENCH_MINUTES ?? 0)
  test.skip(minutes === 0 || isPhone(page), 'only as a benchmark')
  test.setTimeout((minutes + 5) * 60_000)
  const step = [{ say: 'line' }, { wait: 300 }]
  const id = await start(server, 'long', { steps: [{ turn: { steps: [{ repeat: { times: 12_000, steps: step } }] } }] })
  await open(page, `/sessions/${id}`)
  const cdp = await page.context().newCDPSession(page)
  for (let minute = 1; minute <= minutes; minute++) {
    // A time on purpose, without a condition to wait for.
    await page.waitForTimeout(60_000)
    await cdp.send('HeapProfiler.collectGarbage')
    const { usedSize } = await cdp.send('Runtime.getHeapUsage')
    const { nodes } = await cdp.send('Memory.getDOMCounters')
    const [memory, shown] = [(usedSize / 1e6).toFixed(1), await entries(page)]
    process.stdout.write(`${String(minute)} min: ${memory} MB, ${String(nodes)} nodes, ${String(shown)} entries\n`)
  }
})

// Prints the figures of docs/benchmarks.md.
test('large lists answer inputs at once', async ({ server, console: page }) => {
  test.skip(process.env.PILOTHOUSE_BENCH === undefined || isPhone(page), 'only as a benchmark')
  test.setTimeout(3_600_000)
  const { kB, paintMs } = await load(page, '/')
  const long = await fill(server)
  const roster = await load(page, '/sessions')
  await expect(page.getByRole('status').filter({ hasText: ` of ${String(SESSIONS)}` })).toBeVisible()
  const filter = await nextPaint(page, async () => {
    await page.getByRole('searchbox').pressSequentially('session 99', { delay: 60 })
    await page.keyboard.press('Escape')
  })
  const session = await load(page, `/sessions/${long}`)
  const timeline = page.getByRole('region', { name: 'Timeline' })
  await expect(timeline).toContainText('the last line')
  const keys = await nextPaint(page, async () => {
    await page.getByRole('textbox', { name: 'Message to the agent' }).pressSequentially('Keep the public API', { delay: 60 })
    await page.getByRole('slider').focus()
    for (let at = 0; at < 20; at++) await page.keyboard.press('PageDown', { delay: 30 })
  })
  const figures = {
    ...{ 'first load of the inbox, kB': kB, 'first paint of the inbox, ms': paintMs },
    ...{ 'first paint of 1,000 sessions, ms': roster.paintMs, 'input to next paint, 1,000 sessions, ms': filter },
    ...{ 'first paint of the long session, ms': session.paintMs, 'input to next paint, long session, ms': keys },
  }
  process.stdout.write(`${JSON.stringify({ items: ITEMS, ...figures }, null, 2)}\n`)
})
