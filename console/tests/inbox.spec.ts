import { expect, expectAccessible, isPhone, openDecision, press, test } from './fixture'

test('decisions are answered by pointer', { tag: '@quick' }, async ({ server, console: page }) => {
  await server.shop()
  const main = page.getByRole('main')
  await expect(main.getByText('3 waiting')).toBeVisible()

  await openDecision(page, /left-pad/)
  const card = page.getByRole('article')
  await expect(card).toContainText('Low confidence and a blast radius that is not small')
  await card.getByRole('button', { name: /Change the input/ }).click()
  await card.getByRole('textbox', { name: 'Input of the call' }).fill('{"command": "npm ci"}')
  await card.getByRole('button', { name: 'Approve with this input' }).click()
  await expect(card.getByRole('status')).toContainText('local approved with another input')

  if (isPhone(page)) await page.getByRole('button', { name: 'All decisions' }).click()
  await openDecision(page, /Which guide/)
  await page.getByRole('button', { name: /How to order/ }).click()
  await expect(page.getByRole('article').getByRole('status')).toContainText('local chose orders')

  if (isPhone(page)) await page.getByRole('button', { name: 'All decisions' }).click()
  await openDecision(page, /rm -rf build/)
  await page.getByRole('button', { name: /^Reject/ }).click()
  await page.getByRole('textbox', { name: /Why/ }).fill('Keep it')
  await page.getByRole('button', { name: 'Reject', exact: true }).click()
  await expect(page.getByRole('article').getByRole('status')).toContainText('local rejected: Keep it')
  await expect(main.getByText('0 waiting')).toBeVisible()

  const log = await server.cli('project', 'log', 'Shop')
  for (const decided of ['modify', 'choose option', 'reject']) expect(log).toContain(decided)
})

test('decisions are answered by keyboard', { tag: '@quick' }, async ({ server, console: page }) => {
  test.skip(isPhone(page), 'a phone has no keyboard')
  await server.shop()
  const main = page.getByRole('main')
  await expect(main.getByText('3 waiting')).toBeVisible()
  const card = page.getByRole('article')
  const keys: Record<string, string[]> = { 'left-pad': ['a'], 'Which guide': ['2'], 'rm -rf': ['r'] }
  for (let turn = 0; turn < 3; turn++) {
    const text = await card.innerText()
    const [name, [key]] = Object.entries(keys).find(([part]) => text.includes(part)) ?? ['', ['']]
    await page.keyboard.press(key ?? '')
    if (name === 'rm -rf') {
      await page.keyboard.type('No')
      await page.keyboard.press('Control+Enter')
    }
    await expect(card.getByRole('status')).toContainText(/^local (approved|chose setup|rejected: No)/)
    await page.keyboard.press('j')
  }
  await expect(main.getByText('0 waiting')).toBeVisible()
})

test('a decision that ends elsewhere shows its outcome', async ({ server, console: page }) => {
  await server.shop()
  await expect(page.getByRole('main').getByText('3 waiting')).toBeVisible()
  await openDecision(page, /rm -rf build/)
  const decisions = await server.json<{ items: { id: string; input?: string }[] }>('inbox')
  const id = decisions.items.find(({ input }) => input?.includes('rm -rf') === true)?.id ?? ''
  await server.cli('resolve', id, 'reject', '--rationale', 'Use the trash')
  // It stays on the screen with its outcome, and leaves the list of waiting decisions.
  const card = page.getByRole('article')
  await expect(card.getByRole('status')).toContainText('local rejected: Use the trash')
  await expect(card.getByRole('button', { name: /Approve/ })).toHaveCount(0)
  if (isPhone(page)) await page.getByRole('button', { name: 'All decisions' }).click()
  await expect(page.getByRole('main').getByText('2 waiting')).toBeVisible()
  await expect(page.getByRole('region', { name: 'Decided while this page was open' })).toContainText('rm -rf build')
})

test('of two tabs, the first answer counts and both show it', async ({ server, console: page }) => {
  await server.shop()
  await expect(page.getByRole('main').getByText('3 waiting')).toBeVisible()
  const second = await page.context().newPage()
  // The second tab does not receive the first answer, as if its network were slow.
  await second.routeWebSocket(/ws\/decisions/, (socket) => {
    socket.connectToServer().onMessage((message) => {
      if (message.toString().includes('caught_up')) socket.send(message)
    })
  })
  await second.goto(server.url)
  for (const tab of [page, second]) {
    await expect(tab.getByRole('main').getByText('3 waiting')).toBeVisible()
    await openDecision(tab, /left-pad/)
  }
  await page.getByRole('button', { name: /^Approve( a)?$/ }).click()
  await expect(page.getByRole('article').getByRole('status')).toContainText('local approved')
  await second.getByRole('button', { name: /^Reject/ }).click()
  await second.getByRole('button', { name: 'Reject', exact: true }).click()
  await expect(second.getByRole('alert')).toContainText(/resolved by local/)
  await expect(second.getByRole('article').getByRole('status')).toContainText('local approved')
})

test('questions and plans of sessions are answered', async ({ server, console: page }) => {
  await server.session('tour', [
    {
      turn: {
        steps: [
          { question: { id: 'q1', questions: [{ question: 'Which colour?', options: [{ label: 'Blue' }] }] } },
          { plan: { id: 'p1', text: 'First this', revisions: ['First that'] } },
          { say: 'I carry it out' },
          { wait: 60_000 },
        ],
      },
    },
  ])
  const main = page.getByRole('main')
  await openDecision(page, /Which colour/)
  await press(page.getByRole('article').getByRole('button', { name: /Blue/ }))
  await expect(page.getByRole('article').getByRole('status')).toContainText('local answered “Blue”')
  if (isPhone(page)) await page.getByRole('button', { name: 'All decisions' }).click()

  await openDecision(page, /Plan, version 1/)
  await expect(page.getByRole('group', { name: 'Plan' })).toHaveText('First this')
  await page.getByRole('button', { name: /^Reject/ }).click()
  await page.getByRole('textbox', { name: /What should change/ }).fill('The other way')
  await page.getByRole('button', { name: 'Reject', exact: true }).click()
  await expect(page.getByRole('article').getByRole('status')).toContainText('rejected: The other way')
  if (isPhone(page)) await page.getByRole('button', { name: 'All decisions' }).click()

  await openDecision(page, /Plan, version 2/)
  await expect(page.getByRole('group', { name: 'Plan' })).toHaveText('First that')
  await page.getByRole('button', { name: /^Approve/ }).click()
  await expect(page.getByRole('article').getByRole('status')).toContainText('local approved')
  await expect(main.getByText('0 waiting')).toBeAttached()
})

test('a question is answered by one key, or in own words', { tag: '@quick' }, async ({ server, console: page }) => {
  test.skip(isPhone(page), 'a phone has no keyboard')
  const question = (id: string, question: string) => ({
    question: { id, questions: [{ question, options: [{ label: 'Blue', description: 'Like the sky' }] }] },
  })
  const steps = [question('q1', 'Which colour?'), question('q2', 'Which other colour?'), { wait: 60_000 }]
  await server.session('painter', [{ turn: { steps } }])
  const card = page.getByRole('article')
  await openDecision(page, /Which colour/)
  await page.keyboard.press('1')
  await expect(card.getByRole('status')).toContainText('local answered “Blue”')

  await openDecision(page, /Which other colour/)
  const field = card.getByRole('textbox', { name: 'Which other colour?' })
  await page.getByRole('heading', { name: 'Inbox', level: 1 }).click()
  await page.keyboard.press('t')
  await expect(field).toBeFocused()
  await expect(field).toHaveValue('')
  await field.blur()
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox').fill('own words')
  await page.keyboard.press('Enter')
  await expect(field).toBeFocused()
  await page.keyboard.type('Green')
  await page.keyboard.press('Enter')
  await expect(card.getByRole('status')).toContainText('local answered “Green”')
})

test('several options are one answer', { tag: '@quick' }, async ({ server, console: page }) => {
  const options = ['SQLite', 'Postgres', 'Redis'].map((label) => ({ label }))
  const question = { id: 'q1', questions: [{ question: 'Which stores?', options, multiSelect: true }] }
  await server.session('storage', [{ turn: { steps: [{ question }, { wait: 60_000 }] } }])
  await openDecision(page, /Which stores/)
  const card = page.getByRole('article')
  const choices = card.getByRole('group', { name: 'Which stores?' })
  for (const name of ['Redis', 'SQLite']) await choices.getByRole('checkbox', { name }).check()
  await card.getByRole('textbox', { name: 'In your own words' }).fill('and files')
  await expectAccessible(page)
  await card.getByRole('button', { name: 'Answer', exact: true }).click()
  await expect(card.getByRole('status')).toContainText('local answered “SQLite, Redis, and files”')
})

test('a decision that changes while the list is read is current', async ({ server, console: page }) => {
  await server.shop()
  await expect(page.getByRole('main').getByText('3 waiting')).toBeVisible()
  const { items } = await server.json<{ items: { id: string; input?: string }[] }>('inbox')
  const id = items.find(({ input }) => input?.includes('rm -rf') === true)?.id ?? ''
  // The list is read before the decision is rejected, and arrives after the only message about it.
  let isReported = false
  let report: () => void = () => undefined
  const reported = new Promise<void>((done) => {
    report = done
  })
  const second = await page.context().newPage()
  await second.routeWebSocket(/ws\/decisions/, (socket) => {
    socket.connectToServer().onMessage((message) => {
      const isAbout = message.toString().includes(id)
      if (isAbout && isReported) return
      socket.send(message)
      if (!isAbout) return
      isReported = true
      report()
    })
  })
  await second.route('**/api/decisions?state=pending*', async (route) => {
    const response = await route.fetch()
    await server.cli('resolve', id, 'reject')
    await reported
    await route.fulfill({ response })
  })
  await second.goto(server.url)
  await expect(second.getByRole('main').getByText('2 waiting')).toBeVisible()
})

test('an answer stays while a brake suspends its decision', { tag: '@quick' }, async ({ server, console: page }) => {
  const question = { id: 'q1', questions: [{ question: 'Which colour?' }] }
  const id = await server.session('painter', [{ turn: { steps: [{ question }, { wait: 60_000 }] } }])
  await openDecision(page, /Which colour/)
  const card = page.getByRole('article')
  const answer = card.getByRole('textbox', { name: 'Which colour?' })
  await answer.fill('Blue')
  await server.cli('brake', '--all', '--reason', 'Look at the logs')
  await expect(card.getByRole('status')).toContainText('a brake stops the agent')
  await expect(answer).toBeDisabled()
  await expect(answer).toHaveValue('Blue')
  await page.getByRole('region', { name: 'Emergency brake' }).getByRole('button', { name: 'Release' }).click()
  await expect(answer).toBeEnabled()
  await expect(answer).toHaveValue('Blue')
  await expect.poll(() => server.statusOf(id)).toBe('WaitingForInput')
  await card.getByRole('button', { name: 'Answer', exact: true }).click()
  await expect(card.getByRole('status')).toContainText('local answered “Blue”')
})

test('a brake on an idle session is shown until its release', async ({ server, console: page }) => {
  const id = await server.session('quiet', [{ turn: { steps: [{ say: 'Done' }] } }])
  await expect.poll(() => server.statusOf(id)).toBe('Idle')
  const banner = page.getByRole('region', { name: 'Emergency brake' })
  await server.cli('brake', '--all', '--reason', 'Look at the logs')
  await expect(banner).toContainText(/Look at the logs\. (\d) of \1 confirmed/)
  await server.cli('brake', 'release')
  await expect(banner).toHaveCount(0)
})

test('the inbox is read again after a failure', { tag: '@quick' }, async ({ server, console: page }) => {
  await server.shop()
  const main = page.getByRole('main')
  await expect(main.getByText('3 waiting')).toBeVisible()
  let isBroken = true
  await page.route('**/api/decisions?state=pending*', (route) =>
    isBroken ? route.fulfill({ status: 503, json: {} }) : route.continue(),
  )
  await page.reload()
  await expect(main.getByText(/this page may be out of date. Trying again/)).toBeVisible()
  isBroken = false
  await expect(main.getByText('3 waiting')).toBeVisible()
  await expect(main.getByText(/out of date/)).toHaveCount(0)
})

test('a known decision stays while it cannot be read', async ({ server, console: page }) => {
  await server.shop()
  let disconnect = (): Promise<void> => Promise.resolve()
  await page.routeWebSocket(/ws\/decisions/, (socket) => {
    socket.connectToServer()
    disconnect = () => socket.close()
  })
  await page.reload()
  const main = page.getByRole('main')
  await expect(main.getByText('3 waiting')).toBeVisible()
  let isBroken = true
  // Between two reads, the decisions moved from one list to another, so they are in none.
  await page.route('**/api/decisions?state=pending*', (route) =>
    isBroken ? route.fulfill({ json: { items: [] } }) : route.continue(),
  )
  await page.route(/\/api\/decisions\/[0-9a-f-]+$/, (route) =>
    isBroken ? route.fulfill({ status: 503, json: {} }) : route.continue(),
  )
  await disconnect()
  await expect(main.getByText(/Trying again/)).toBeVisible()
  await expect(main.getByText('3 waiting')).toBeVisible()
  isBroken = false
  await expect(main.getByText(/Trying again/)).toHaveCount(0)
  await expect(main.getByText('3 waiting')).toBeVisible()
})
