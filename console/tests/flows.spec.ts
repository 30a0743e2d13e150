import type { Locator, Page } from '@playwright/test'
import { activate, expect, test, type Input } from './fixture'
import type { Server, Steps } from './server'

const LONG = { wait: 600_000 }
const turn = (...steps: Steps) => ({ turn: { steps } })
const BUSY = [turn({ say: 'Busy' }, LONG)]
const DONE = [turn({ say: 'Done' })]
const OUTPUT = [{ turn: { steps: [{ say: 'Written' }], output: { filesChanged: 2, allTestsPassing: true } } }]
const PLAN = [turn({ plan: { id: 'p1', text: 'First this', revisions: ['First that'] } }, LONG)]
const BROKEN = [turn({ say: 'Begun' }, { end: { error: true, reason: 'gave_up' } })]

interface Place {
  server: Server
  page: Page
  input: Input
  /** The session. */
  id: string
}

interface Flow {
  name: string
  /** Prepares the session, and returns its id. */
  prepare: (server: Server) => Promise<string>
  /** The screen on which the person begins. By default it is that of the session. */
  path?: string
  /** What the person does, and what follows. */
  act: (place: Place) => Promise<void>
}

const main = (page: Page) => page.getByRole('main')
const timeline = (page: Page) => page.getByRole('region', { name: 'Timeline' })
const card = (page: Page) => page.getByRole('article')
const button = (page: Page, name: string) => main(page).getByRole('button', { name, exact: true })

/** Starts a session, and returns its id when it has a status. */
async function started(server: Server, steps: Steps, status: string, ...options: string[]): Promise<string> {
  const id = await server.session('tea', steps, ...options)
  await until({ server, id }, status)
  return id
}

const until = ({ server, id }: Pick<Place, 'server' | 'id'>, status: string) =>
  expect.poll(() => server.statusOf(id)).toBe(status)

const retriesOf = async (server: Server, id: string) =>
  (await server.api<{ retryCount: number }>('GET', `agents/sessions/${id}`)).retryCount

/** Uses a button. A person at a keyboard presses its key, or chooses its command in the palette, if it has one. */
async function use({ page, input }: Place, target: Locator, shortcut: { key?: string; command?: string } = {}): Promise<void> {
  const { key, command } = shortcut
  await expect(target).toBeEnabled()
  if (input !== 'keyboard' || (key === undefined && command === undefined)) await activate(target, input)
  else if (key !== undefined) await page.keyboard.press(key)
  else if (command !== undefined) {
    await page.keyboard.press('Control+k')
    await page.getByRole('dialog', { name: 'Find' }).getByRole('combobox').fill(command)
    await expect(page.getByRole('option', { name: command, selected: true })).toBeVisible()
    await page.keyboard.press('Enter')
  }
}

/** Writes into a field, and submits it with keys or with a button. */
async function write({ page, input }: Place, field: Locator, text: string, keys: string, submit: Locator): Promise<void> {
  if (input === 'touch') await field.tap()
  await field.fill(text)
  if (input === 'keyboard') await page.keyboard.press(keys)
  else await activate(submit, input)
}

/** Selects a decision in the inbox. The first one is selected. */
async function choose({ page, input }: Place, text: string): Promise<void> {
  const entry = page.getByRole('list', { name: 'Waiting decisions' }).getByRole('button', { name: text })
  await expect(entry).toBeVisible()
  if (input === 'keyboard') await expect(card(page)).toContainText(text)
  else await activate(entry, input)
}

const approve = async (place: Place, decision: string) => {
  await choose(place, decision)
  await use(place, card(place.page).getByRole('button', { name: /^Approve/ }), { key: 'a' })
  await expect(card(place.page).getByRole('status')).toContainText('local approved')
}

const reject = async (place: Place, decision: string, field: RegExp) => {
  const { page } = place
  await choose(place, decision)
  await use(place, card(page).getByRole('button', { name: /^Reject/ }), { key: 'r' })
  const submit = card(page).getByRole('button', { name: 'Reject', exact: true })
  await write(place, card(page).getByRole('textbox', { name: field }), 'The other way', 'Control+Enter', submit)
  await expect(card(page).getByRole('status')).toContainText('local rejected: The other way')
}

/** A request to two sessions of the roster at once. */
const bulk = (label: string, prepare: (server: Server) => Promise<string>, after: (server: Server) => Promise<void>): Flow => ({
  name: `${label.toLowerCase()} several sessions`,
  path: '/sessions',
  prepare: async (server) => {
    await prepare(server)
    return prepare(server)
  },
  act: async (place) => {
    const { page, input, server } = place
    await use(place, button(page, `${label} 2`), { command: `${label} 2 sessions` })
    const dialog = page.getByRole('dialog', { name: `${label} 2 sessions` })
    if (label === 'Cancel') {
      const isSure = dialog.getByRole('checkbox', { name: 'Their work ends, and cannot be resumed' })
      if (input === 'keyboard') await isSure.press('Space')
      else await activate(isSure, input)
    }
    await use(place, dialog.getByRole('button', { name: `${label} 2`, exact: true }))
    await expect(dialog.getByRole('status')).toHaveText('2 of 2 requested')
    await use(place, dialog.getByRole('button', { name: 'Close' }))
    await expect(page.getByRole('dialog')).toHaveCount(0)
    await after(server)
  },
})

const allAre = (status: string) => async (server: Server) => {
  await expect.poll(async () => (await server.sessions()).map((session) => session.status)).toEqual([status, status])
}

const HANDOFF = { handoff: { summary: 'The tea is brewed.', remainingWork: 'Pour it.' } }

/** A session whose work another one continues. Returns the id of the continuation. */
async function continued(server: Server): Promise<string> {
  const id = await server.play('tea', {
    steps: [turn({ say: 'I brew' }, { contextExhausted: {} }, HANDOFF)],
    continuations: [[turn({ say: 'I have: {{handoff}}' })]],
  })
  const next = async () => (await server.api<{ continuation?: string }>('GET', `agents/sessions/${id}`)).continuation ?? ''
  await expect.poll(next).not.toBe('')
  const continuation = await next()
  await until({ server, id: continuation }, 'Idle')
  return continuation
}

/** The flows of S0 8.10 that a person takes part in. */
const FLOWS: readonly Flow[] = [
  {
    name: 'start a session',
    path: '/',
    prepare: () => Promise.resolve(''),
    act: async (place) => {
      const { page, server } = place
      await use(place, page.getByRole('button', { name: 'New session' }), { key: 'c' })
      const form = page.getByRole('dialog', { name: 'New session' })
      await form.getByRole('textbox', { name: 'What to do' }).fill('Add up the invoices')
      const folder = form.getByRole('textbox', { name: 'Directory' })
      await write(place, folder, server.work, 'Enter', form.getByRole('button', { name: 'Start' }))
      await expect(page).toHaveURL(/\/sessions\/[0-9a-f-]+$/)
      await expect(timeline(page)).toContainText('Created: Add up the invoices')
    },
  },
  {
    name: 'send a message into the turn',
    prepare: (server) => started(server, BUSY, 'Running'),
    act: async (place) => {
      const { page } = place
      const form = page.getByRole('form', { name: 'Message to the agent' })
      const field = form.getByRole('textbox', { name: 'Message to the agent' })
      await expect(timeline(page)).toContainText('Busy')
      if (place.input === 'keyboard') {
        await page.keyboard.press('s')
        await expect(field).toBeFocused()
      }
      await write(place, field, 'Keep it small', 'Control+Enter', form.getByRole('button', { name: /^Send/ }))
      await expect(timeline(page)).toContainText('I take this into account: Keep it small')
    },
  },
  {
    name: 'send a queued message now',
    prepare: async (server) => {
      const id = await started(server, BUSY, 'Running')
      await server.cli('queue', 'add', id, 'Keep it small')
      return id
    },
    act: async (place) => {
      const item = place.page.getByRole('listitem').filter({ hasText: 'Keep it small' })
      await use(place, item.getByRole('button', { name: 'Send now' }))
      await expect(timeline(place.page)).toContainText('I take this into account: Keep it small')
    },
  },
  {
    name: 'answer a question',
    path: '/',
    prepare: (server) => {
      const question = { id: 'q1', questions: [{ question: 'Which colour?' }] }
      return started(server, [turn({ question }, { say: 'Painted' })], 'WaitingForInput')
    },
    act: async (place) => {
      await choose(place, 'Which colour?')
      const field = card(place.page).getByRole('textbox', { name: 'Which colour?' })
      await write(place, field, 'Blue', 'Enter', card(place.page).getByRole('button', { name: 'Answer', exact: true }))
      await expect(card(place.page).getByRole('status')).toContainText('local answered “Blue”')
      await until(place, 'Idle')
    },
  },
  {
    name: 'approve a plan',
    path: '/',
    prepare: (server) => started(server, PLAN, 'WaitingForApproval'),
    act: async (place) => {
      await approve(place, 'Plan, version 1')
      await until(place, 'Running')
    },
  },
  {
    name: 'reject a plan',
    path: '/',
    prepare: (server) => started(server, PLAN, 'WaitingForApproval'),
    act: async (place) => {
      await reject(place, 'Plan, version 1', /What should change/)
      await expect(place.page.getByRole('main').getByText('1 waiting')).toBeAttached()
    },
  },
  {
    name: 'approve an output',
    path: '/',
    prepare: (server) => started(server, OUTPUT, 'Idle'),
    act: async (place) => {
      await approve(place, 'Output: 2 files changed')
      await until(place, 'Completed')
    },
  },
  {
    name: 'reject an output',
    path: '/',
    prepare: (server) => started(server, OUTPUT, 'Idle'),
    act: async (place) => {
      await reject(place, 'Output: 2 files changed', /Why/)
      await until(place, 'Failed')
    },
  },
  {
    name: 'close a session without a review',
    prepare: (server) => started(server, DONE, 'Idle'),
    act: async (place) => {
      await use(place, button(place.page, 'Close'), { command: 'Close tea' })
      await until(place, 'Completed')
    },
  },
  {
    name: 'retry a failed session',
    prepare: (server) => started(server, BROKEN, 'Failed'),
    act: async (place) => {
      await use(place, button(place.page, 'Retry'), { command: 'Retry tea' })
      await expect.poll(() => retriesOf(place.server, place.id)).toBe(1)
      await expect(timeline(place.page)).toContainText('Queued: retry 1')
    },
  },
  {
    name: 'interrupt an agent',
    prepare: (server) => started(server, BUSY, 'Running'),
    act: async (place) => {
      await use(place, button(place.page, 'Interrupt'), { key: 'i' })
      await until(place, 'Interrupted')
      await expect(place.page.getByRole('status', { name: 'Control state' })).toContainText(/Interrupt: requested .*Interrupt: confirmed/)
    },
  },
  {
    name: 'pause and resume an agent',
    prepare: (server) => started(server, BUSY, 'Running'),
    act: async (place) => {
      await use(place, button(place.page, 'Pause'), { key: 'p' })
      await until(place, 'Paused')
      await use(place, button(place.page, 'Resume'), { key: 'p' })
      await until(place, 'Running')
    },
  },
  {
    name: 'cancel a session',
    prepare: (server) => started(server, BUSY, 'Running'),
    act: async (place) => {
      await use(place, button(place.page, 'Cancel'), { command: 'Cancel tea' })
      await use(place, place.page.getByRole('dialog').getByRole('button', { name: 'Cancel the session' }))
      await until(place, 'Cancelled')
    },
  },
  {
    name: 'raise the cap of a session that has spent its budget',
    prepare: (server) => {
      const spends = { usage: { costUsd: '1.5', tokens: { inputTokens: 1_000 } } }
      return started(server, [turn(spends, { wait: 3_000 }, { say: 'I go on' })], 'Paused', '--budget', '1')
    },
    act: async (place) => {
      const { page } = place
      await expect(main(page).getByText('budget exhausted', { exact: true })).toBeVisible()
      await expect(timeline(page)).toContainText('The budget is spent')
      await use(place, button(page, 'Change cap'), { command: 'Change the cap of the session' })
      const dialog = page.getByRole('dialog', { name: 'Cap of the session' })
      await write(place, dialog.getByRole('textbox'), '5', 'Enter', dialog.getByRole('button', { name: 'Set the cap' }))
      await expect(page.getByText('of $5.00')).toBeVisible()
      await use(place, button(page, 'Resume'), { key: 'p' })
      await expect(timeline(page)).toContainText('I go on')
    },
  },
  {
    name: 'open the session that continues the work of another',
    path: '/sessions',
    prepare: continued,
    act: async (place) => {
      const { page } = place
      const entry = main(page).locator(`a[data-session="${place.id}"]`)
      await expect(entry).toBeVisible()
      if (place.input === 'keyboard') {
        // It is the first one, because the session before it is over.
        await page.keyboard.press('j')
        await expect(entry).toHaveAttribute('data-selected', 'true')
        await page.keyboard.press('Enter')
      } else await activate(entry, place.input)
      await expect(timeline(page)).toContainText('I have: What was done:')
    },
  },
  {
    name: 'close the last session of a chain',
    prepare: continued,
    act: async (place) => {
      const { page } = place
      await use(place, button(page, 'Close'), { command: 'Close tea' })
      await until(place, 'Completed')
      await use(place, page.getByRole('button', { name: /^Notifications/ }))
      await expect(page.getByRole('menuitem', { name: /The chain is completed: 2 sessions/ })).toBeVisible()
    },
  },
  bulk('Cancel', (server) => started(server, BUSY, 'Running'), allAre('Cancelled')),
  bulk(
    'Resume',
    async (server) => {
      const id = await started(server, BUSY, 'Running')
      await server.api('POST', `agents/sessions/${id}/pause`)
      await until({ server, id }, 'Paused')
      return id
    },
    allAre('Running'),
  ),
  bulk(
    'Retry',
    (server) => started(server, BROKEN, 'Failed'),
    async (server) => {
      const sessions = await server.sessions()
      await expect.poll(() => Promise.all(sessions.map(({ id }) => retriesOf(server, id)))).toEqual([1, 1])
    },
  ),
]

for (const input of ['mouse', 'keyboard', 'touch'] as const) {
  test.describe(`by ${input}`, () => {
    test.skip(({ hasTouch }) => hasTouch !== (input === 'touch'), 'the other width has this input')
    for (const { name, prepare, path, act } of FLOWS) {
      const isQuick = name === 'interrupt an agent' && input !== 'mouse'
      test(name, { tag: isQuick ? ['@quick'] : [] }, async ({ server, console: page }) => {
        const id = await prepare(server)
        await page.goto(`${server.url}${path ?? `/sessions/${id}`}`)
        await act({ server, page, input, id })
      })
    }
  })
}

test('a window that fills is shown, and so is the work of its session that another continues', async ({ server, console: page }) => {
  const usage = { costUsd: '0.1', tokens: { inputTokens: 1_000 }, context: { tokens: 180_000, limit: 200_000 } }
  const id = await server.play('tea', {
    steps: [turn({ say: 'I brew' }, { usage }, { waitForMessage: {} }, { contextExhausted: {} }, HANDOFF)],
    continuations: [DONE],
  })
  await page.goto(`${server.url}/sessions/${id}`)
  await expect(page.getByRole('meter', { name: 'Context window' })).toHaveAttribute('aria-valuenow', '90')
  await expect(timeline(page)).toContainText(/The context window is 90(\.0+)?% full/)
  await server.cli('steer', id, 'Go on')
  await expect(main(page).getByText('Context full', { exact: true })).toBeVisible()
  await expect(timeline(page)).toContainText('The handoff document is recorded')
  await expect(timeline(page)).toContainText(/Session [0-9a-f-]+ continues the work/)
})

test('a voluntary handoff is shown with its reason', async ({ server, console: page }) => {
  const handOver = { reason: 'my context is polluted', summary: 'The tea is brewed.', remainingWork: 'Pour it.' }
  const id = await server.play('tea', { steps: [turn({ say: 'I brew' }, { handOver })], continuations: [DONE] })
  await page.goto(`${server.url}/sessions/${id}`)
  await expect(timeline(page)).toContainText('The agent hands over: my context is polluted')
  await expect(timeline(page)).toContainText(/Session [0-9a-f-]+ continues the work/)
})

test('a skill that is enabled between turns is in use at the next one', async ({ server, console: page }) => {
  const id = await server.play('tea', { steps: DONE, onMessage: [{ say: '{{configuration}}' }] })
  await until({ server, id }, 'Idle')
  await page.goto(`${server.url}/sessions/${id}`)
  await expect(timeline(page)).toContainText('Done')
  const skill = { name: 'brewing', description: 'How we brew', instructions: 'Warm the pot.' }
  const { id: skillId } = await server.api<{ id: string }>('POST', 'agents/skills', skill)
  await server.api('POST', `agents/sessions/${id}/skills/${skillId}/enable`, {})
  await expect(timeline(page)).toContainText(`Skill ${skillId} is enabled`)
  await server.api('POST', `agents/sessions/${id}/reload`, {})
  await expect(timeline(page)).toContainText('The new configuration is active')
  await server.cli('queue', 'add', id, 'What do you know?')
  await page.getByRole('tab', { name: 'Conversation' }).click()
  await expect(page.getByRole('tabpanel')).toContainText('Warm the pot.')
})

test('each automatic continuation is shown, and where they stop', async ({ server, console: page }) => {
  const id = await server.session('tea', DONE, '--criteria', 'tests=echo cold; false', '--max-continuations', '1')
  await page.goto(`${server.url}/sessions/${id}`)
  await expect(timeline(page)).toContainText(/Validation failed, continuing \(1 of 1\): .*cold/)
  await expect(timeline(page)).toContainText('Auto-continue stopped: it continued 1 times already')
  await expect(button(page, 'Close')).toBeEnabled()
})

test('a session that waits for a slot starts when one is free', async ({ server, console: page }) => {
  await server.api('PATCH', 'agents/pool', { maxConcurrentSessions: 1 })
  const first = await started(server, BUSY, 'Running')
  const second = await server.session('coffee', BUSY)
  await page.goto(`${server.url}/sessions/${second}`)
  const head = main(page).locator('[data-status]').first()
  await expect(head).toHaveText('Queued')
  await server.cli('cancel', first, '--force')
  await expect(head).toHaveText('Running')
})

// With a divisor of 20, a command is sent again after 1.5 seconds.
test.describe('a request that the agent does not acknowledge', () => {
  test.use({ environment: { PILOTHOUSE_DEADLINE_DIVISOR: '20' } })

  const STATES: readonly [name: string, ignored: Record<string, unknown>, label: string, states: readonly string[]][] = [
    ['is late', { command: 'pause', untilRepeated: true }, 'Pause', ['requested', 'late', 'confirmed']],
    ['is escalated', { command: 'interrupt' }, 'Interrupt', ['requested', 'late', 'escalated', 'confirmed']],
  ]
  for (const [name, ignore, label, states] of STATES) {
    test(name, async ({ server, console: page }) => {
      const id = await server.session('deaf', [turn({ ignore }, { say: 'Working' }, LONG)])
      await page.goto(`${server.url}/sessions/${id}`)
      await expect(timeline(page)).toContainText('Working')
      await button(page, label).click()
      const inOrder = new RegExp(states.map((state) => `${label}: ${state} `).join('.*'))
      await expect(page.getByRole('status', { name: 'Control state' })).toContainText(inOrder)
    })
  }
})
