import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from '@playwright/test'
import { expect, expectAccessible, isPhone, test } from './fixture'
import type { Server } from './server'

const LONG = { wait: 60_000 }

/** Opens a session that is busy, with a composer whose messages wait for the next turn. */
async function openBusy(server: Server, page: Page) {
  const id = await server.session('queue', [{ turn: { steps: [{ say: 'Busy' }, LONG] } }])
  await page.goto(`${server.url}/sessions/${id}`)
  await page.getByRole('group', { name: 'When the agent receives it' }).getByText('Queued').click()
  const queued = async () => {
    const { items } = await server.json<{ items: { content: string }[] }>('queue', 'list', id)
    return items.map(({ content }) => content)
  }
  return { id, message: page.getByRole('textbox', { name: 'Message to the agent' }), queued }
}

/** Lets `send` handle each POST to an address of the API. Returns the keys of the requests. */
async function onPost(page: Page, url: string, send: (sent: number, post: () => Promise<unknown>) => Promise<boolean>) {
  const keys: (string | null)[] = []
  await page.route(url, async (route) => {
    if (route.request().method() !== 'POST') return route.continue()
    keys.push(await route.request().headerValue('idempotency-key'))
    const isSent = await send(keys.length, () => route.fetch())
    return isSent ? route.continue() : route.abort()
  })
  return keys
}

test('a message whose response is lost is queued once', { tag: '@quick' }, async ({ server, console: page }) => {
  const { message, queued } = await openBusy(server, page)
  const keys = await onPost(page, '**/messages/queue', async (sent, post) => {
    if (sent === 1) await post()
    return sent > 1
  })
  await message.fill('only once')
  await message.press('Control+Enter')
  await expect(page.getByText('Queued for the next turn.')).toBeVisible()
  await expect(message).toHaveValue('')
  expect(await queued()).toEqual(['only once'])
  expect(keys).toHaveLength(2)
  expect(keys[0]).toMatch(/^[0-9a-f]{32}$/)
  expect(keys[1]).toBe(keys[0])
})

test('attached images are sent with their message', async ({ server, console: page }) => {
  const { id, message } = await openBusy(server, page)
  const image = (name: string) => ({ name, mimeType: 'image/gif', buffer: Buffer.from('GIF89a and so on') })
  await page.getByLabel('Attach images').setInputFiles([image('one.gif'), image('two.gif')])
  const attached = page.getByRole('list', { name: 'Images of the message' })
  await expect(attached.getByRole('listitem')).toHaveCount(2)
  await page.getByRole('button', { name: 'Remove one.gif' }).click()
  await expectAccessible(page)
  await message.fill('Look at this')
  await message.press('Control+Enter')
  await expect(attached).toHaveCount(0)
  const { items } = await server.json<{ items: { content: string; images: { sizeBytes: number }[] }[] }>('queue', 'list', id)
  expect(items.map(({ content, images }) => [content, images.map(({ sizeBytes }) => sizeBytes)])).toEqual([
    ['Look at this', [16]],
  ])
  await expect(page.getByRole('region', { name: 'Timeline' })).toContainText('Look at this [1 image]')
})

test('a message that is sent again after an outage is queued once', async ({ server, console: page }) => {
  const { message, queued } = await openBusy(server, page)
  let isBroken = true
  const keys = await onPost(page, '**/messages/queue', async (sent, post) => {
    if (sent === 1) await post()
    return !isBroken
  })
  await message.fill('only once')
  await message.press('Control+Enter')
  await expect(page.getByRole('alert')).toContainText('The server cannot be reached.')
  isBroken = false
  await message.press('Control+Enter')
  await expect(message).toHaveValue('')
  expect(await queued()).toEqual(['only once'])
  expect(new Set(keys).size).toBe(1)
  // The same text is another message after a success.
  await message.fill('only once')
  await message.press('Control+Enter')
  await expect(message).toHaveValue('')
  expect(await queued()).toEqual(['only once', 'only once'])
})

test('a message that is submitted twice is queued once', { tag: '@quick' }, async ({ server, console: page }) => {
  const { message, queued } = await openBusy(server, page)
  let release = (): void => undefined
  const released = new Promise<void>((done) => (release = done))
  const keys = await onPost(page, '**/messages/queue', async () => {
    await released
    return true
  })
  await message.fill('only once')
  await message.press('Control+Enter')
  await expect.poll(() => keys.length).toBe(1)
  await message.press('Control+Enter')
  // What the person types meanwhile stays.
  await message.pressSequentially(' and more')
  release()
  await expect(message).toHaveValue('and more')
  expect(await queued()).toEqual(['only once'])
  expect(keys).toHaveLength(1)
})

test('a session whose response is lost is started once', { tag: '@quick' }, async ({ server, console: page }) => {
  await page.getByRole('button', { name: 'New session' }).click()
  const form = page.getByRole('dialog', { name: 'New session' })
  await form.getByRole('textbox', { name: 'What to do' }).fill('Add up the invoices')
  await form.getByRole('textbox', { name: 'Directory' }).fill(server.work)
  await form.getByText('More options').click()
  const script = { steps: [{ turn: { steps: [LONG] } }] }
  await form.getByRole('textbox', { name: 'Adapter options' }).fill(JSON.stringify({ script }))
  const keys = await onPost(page, '**/api/agents/sessions', async (sent, post) => {
    if (sent === 1) await post()
    return sent > 1
  })
  await form.getByRole('button', { name: 'Start' }).click()
  await expect(page).toHaveURL(/\/sessions\/[0-9a-f-]+$/)
  expect(await server.sessions()).toHaveLength(1)
  expect(keys).toHaveLength(2)
})

test('a closed form for a new session keeps its text', { tag: '@quick' }, async ({ console: page }) => {
  const open = page.getByRole('button', { name: 'New session' })
  const form = page.getByRole('dialog', { name: 'New session' })
  const objective = form.getByRole('textbox', { name: 'What to do' })
  await open.click()
  await objective.fill('Add up the invoices')
  await page.keyboard.press('Escape')
  await expect(form).toHaveCount(0)
  await open.click()
  await expect(objective).toHaveValue('Add up the invoices')
  await form.getByRole('button', { name: 'Cancel' }).click()
  await open.click()
  await expect(objective).toHaveValue('')
})

test('an edit stays when the agent takes the message', { tag: '@quick' }, async ({ server, console: page }) => {
  const { id, queued } = await openBusy(server, page)
  await server.cli('queue', 'add', id, 'Check the prices')
  const item = page.getByRole('listitem').filter({ hasText: 'Check the prices' })
  await item.getByRole('button', { name: 'Edit' }).click()
  const text = page.getByRole('textbox', { name: 'Text of the message' })
  await text.fill('Check the prices twice')
  const { items } = await server.json<{ items: { messageId: string }[] }>('queue', 'list', id)
  await server.cli('queue', 'promote', id, items[0]?.messageId ?? '')
  const timeline = page.getByRole('region', { name: 'Timeline' })
  await expect(timeline).toContainText('I take this into account: Check the prices')
  await expect(page.getByRole('alert')).toContainText('sent or removed meanwhile')
  await expect(text).toHaveValue('Check the prices twice')
  await expect(text).toBeFocused()
  await page.getByRole('button', { name: 'Add as a new message' }).click()
  await expect(text).toHaveCount(0)
  await expect.poll(queued).toEqual(['Check the prices twice'])
})

test('Enter activates the focused link or button', { tag: '@quick' }, async ({ server, console: page }) => {
  test.skip(isPhone(page), 'a phone has no keyboard')
  for (const name of ['alpha', 'beta']) await server.session(name, [{ turn: { steps: [{ say: 'Busy' }, LONG] } }])
  await page.goto(`${server.url}/sessions`)
  const list = page.getByRole('region', { name: 'Sessions by state' })
  await expect(list.getByRole('heading', { name: 'Working (2)' })).toBeVisible()
  await page.keyboard.press('j')
  await expect(list.locator('[data-selected="true"]')).toContainText('beta')
  await page.getByRole('button', { name: 'Pause 2' }).focus()
  await page.keyboard.press('Enter')
  await expect(page.getByRole('dialog', { name: 'Pause 2 sessions' })).toBeVisible()
  await page.keyboard.press('Escape')
  await expect(page.getByRole('dialog')).toHaveCount(0)
  await list.getByRole('link', { name: /alpha/ }).focus()
  await page.keyboard.press('Enter')
  await expect(page.getByRole('heading', { name: 'alpha', level: 1 })).toBeVisible()
})

test('a session is started, steered and controlled', { tag: '@quick' }, async ({ server, console: page }) => {
  await page.getByRole('button', { name: 'New session' }).click()
  const form = page.getByRole('dialog', { name: 'New session' })
  await form.getByRole('textbox', { name: 'What to do' }).fill('Add up the invoices')
  await form.getByRole('textbox', { name: 'Directory' }).fill('relative')
  await form.getByRole('combobox', { name: 'Agent' }).selectOption('script')
  await form.getByRole('button', { name: 'Start' }).click()
  await expect(form.getByRole('alert')).toContainText('workingDirectory')
  await form.getByRole('textbox', { name: 'Directory' }).fill(server.work)
  await form.getByText('More options').click()
  await form.getByRole('textbox', { name: 'Name' }).fill('invoices')
  const script = { steps: [{ turn: { steps: [{ say: 'I begin' }, LONG, { say: 'I go on' }, LONG] } }] }
  await form.getByRole('textbox', { name: 'Adapter options' }).fill(JSON.stringify({ script }))
  await form.getByRole('textbox', { name: 'Labels' }).fill('team=web\ngoal=sums')
  const warning = form.getByRole('spinbutton', { name: 'Warn at percent', exact: true })
  await warning.fill('120')
  await form.getByRole('button', { name: 'Start' }).click()
  await expect(warning).toHaveAttribute('aria-invalid', 'true')
  await expect(form.getByRole('alert')).toContainText('warnAtPercent')
  await warning.fill('60')
  await form.getByRole('button', { name: 'Start' }).click()

  await expect(page.getByRole('heading', { name: 'invoices', level: 1 })).toBeVisible()
  const timeline = page.getByRole('region', { name: 'Timeline' })
  await expect(timeline).toContainText('I begin')
  const [started] = await server.api<{ items: { labels: unknown }[] }>('GET', 'agents/sessions').then(({ items }) => items)
  expect(started?.labels).toEqual({ team: 'web', goal: 'sums' })

  const message = page.getByRole('textbox', { name: 'Message to the agent' })
  if (isPhone(page)) await message.tap()
  else await page.keyboard.press('s')
  await expect(message).toBeFocused()
  await message.fill('Keep the public API')
  await message.press('Control+Enter')
  await expect(timeline).toContainText('User (Immediate): Keep the public API')

  const control = page.getByRole('status', { name: 'Control state' })
  const main = page.getByRole('main')
  await main.getByRole('button', { name: 'Pause' }).click()
  await expect(control).toContainText(/Pause: requested .*Pause: acknowledged .*Pause: confirmed/)
  await main.getByRole('button', { name: 'Resume' }).click()
  await expect(control).toContainText(/Resume: requested .*Resume: acknowledged .*Resume: confirmed/)
  await main.getByRole('button', { name: 'Cancel' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel the session' }).click()
  await expect(control).toContainText(/Cancel: requested .*Cancel: confirmed/)
  await expect(main.getByText('Cancelled').first()).toBeVisible()
})

test('the text that the agent is writing is shown until it is complete', async ({ server, console: page }) => {
  const writes = [{ draft: 'The teapot is ' }, { waitForMessage: {} }, { say: 'The teapot is in the cupboard.' }, LONG]
  const id = await server.session('draft', [{ turn: { steps: writes } }])
  await page.goto(`${server.url}/sessions/${id}`)
  const draft = page.getByRole('region', { name: 'Timeline' }).locator('[data-kind="Draft"]')
  await expect(draft).toHaveText(/The agent is writing: The teapot is $/)
  await page.reload()
  await expect(draft).toHaveText(/The agent is writing: The teapot is $/)
  await expectAccessible(page)
  await page.getByRole('textbox', { name: 'Message to the agent' }).fill('Go on')
  await page.getByRole('textbox', { name: 'Message to the agent' }).press('Control+Enter')
  await expect(page.getByRole('region', { name: 'Timeline' })).toContainText('in the cupboard.')
  await expect(draft).toHaveCount(0)
})

test('queued messages are edited, moved and promoted', async ({ server, console: page }) => {
  const id = await server.session('queue', [{ turn: { steps: [{ say: 'Busy' }, LONG] } }])
  await page.goto(`${server.url}/sessions/${id}`)
  await page.getByRole('group', { name: 'When the agent receives it' }).getByText('Queued').click()
  const message = page.getByRole('textbox', { name: 'Message to the agent' })
  for (const text of ['first', 'second']) {
    await message.fill(text)
    await message.press('Control+Enter')
    await expect(page.getByRole('listitem').filter({ hasText: text })).toBeVisible()
  }
  const item = (text: string) => page.getByRole('listitem').filter({ hasText: text })
  await item('second').getByRole('button', { name: 'Move up' }).click()
  await expect(page.getByRole('listitem').filter({ hasText: 'Queued' }).first()).toContainText('second')
  await item('first').getByRole('button', { name: 'Edit' }).click()

  // Somebody else edits the same message meanwhile: nothing is overwritten.
  const { items } = await server.json<{ items: { messageId: string; content: string }[] }>('queue', 'list', id)
  const { messageId } = items.find(({ content }) => content === 'first') ?? { messageId: '' }
  await page.getByRole('textbox', { name: 'Text of the message' }).fill('changed')
  await server.cli('queue', 'edit', id, messageId, 'first, by another')
  await server.cli('queue', 'add', id, 'third')
  await expect(page.getByRole('alert')).toContainText('changed since you read it')
  await expect(page.getByRole('button', { name: 'Save' })).toBeDisabled()
  await page.getByRole('button', { name: 'Cancel' }).last().click()
  await item('first').getByRole('button', { name: 'Edit' }).click()
  await page.getByRole('textbox', { name: 'Text of the message' }).fill('changed')
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(item('changed')).toBeVisible()
  await item('changed').getByRole('button', { name: 'Send now' }).click()
  await expect(page.getByRole('region', { name: 'Timeline' })).toContainText('I take this into account: changed')
  await item('third').getByRole('button', { name: 'Remove' }).click()
  await expect(item('third')).toHaveCount(0)
})

test('the queue is ordered by dragging and by keys', async ({ server, console: page }) => {
  const id = await server.session('queue', [{ turn: { steps: [{ say: 'Busy' }, LONG] } }])
  for (const text of ['first', 'second', 'third']) await server.cli('queue', 'add', id, text)
  await page.goto(`${server.url}/sessions/${id}`)
  const items = page.getByRole('listitem').filter({ hasText: 'Queued' })
  const order = async (...texts: string[]) => {
    await expect(items).toHaveText(texts.map((text) => new RegExp(text)))
    const { items: stored } = await server.json<{ items: { content: string }[] }>('queue', 'list', id)
    expect(stored.map(({ content }) => content)).toEqual(texts)
  }
  await order('first', 'second', 'third')
  const handle = (text: string) => items.filter({ hasText: text }).getByRole('button', { name: /^Move, place/ })
  await handle('third').focus()
  await page.keyboard.press('ArrowUp')
  await expect(handle('third')).toHaveAccessibleName('Move, place 2 of 3')
  await expect(handle('third')).toBeFocused()
  await page.keyboard.press('ArrowUp')
  await order('third', 'first', 'second')

  await handle('third').hover()
  await page.mouse.down()
  const end = await items.last().boundingBox()
  await page.mouse.move(end?.x ?? 0, (end?.y ?? 0) + (end?.height ?? 0) - 5, { steps: 5 })
  await expect(items.filter({ hasText: 'third' })).toContainText('Place 3 of 3')
  await page.mouse.up()
  await order('first', 'second', 'third')
  await expectAccessible(page)

  await items.filter({ hasText: 'third' }).getByRole('button', { name: 'Send now' }).press('Enter')
  await expect(page.getByRole('region', { name: 'Timeline' })).toContainText('I take this into account: third')
})

test('a timeline is replayed from any point', { tag: '@quick' }, async ({ server, console: page }) => {
  const helper = (objective: string, text: string) => ({ subagent: { objective, steps: [{ say: text }] } })
  const steps = [
    { say: 'the first line' },
    helper('Read the orders', 'orders are read'),
    helper('Check the prices', 'prices are checked'),
    { say: 'the last line' },
    LONG,
  ]
  const id = await server.session('tour', [{ turn: { steps } }])
  await page.goto(`${server.url}/sessions/${id}`)
  const timeline = page.getByRole('region', { name: 'Timeline' })
  await expect(timeline).toContainText('the last line')
  const lanes = page.getByRole('list', { name: 'Lanes' }).getByRole('listitem')
  await expect(lanes).toHaveText(['Agent', /Read the orders/, /Check the prices/])
  await expect(timeline.locator('[data-lane="1"]').filter({ hasText: 'orders are read' })).toBeVisible()
  await expect(timeline.locator('[data-lane="2"]').filter({ hasText: 'prices are checked' })).toBeVisible()
  await expectAccessible(page)

  const position = page.getByRole('slider', { name: 'Position in the timeline' })
  const entries = Number(await position.getAttribute('max')) + 1
  await page.getByRole('searchbox', { name: 'Find in the timeline' }).fill('PRICES are')
  await page.getByRole('searchbox', { name: 'Find in the timeline' }).press('Enter')
  await expect(page.getByText(`1 of ${String(entries)} loaded entries`)).toBeVisible()
  await expect(position).toHaveAttribute('aria-valuetext', /: .*prices are checked/)
  await position.focus()
  await page.keyboard.press('Home')
  for (let step = 0; step < 3; step++) await page.keyboard.press('ArrowRight')
  await expect(position).toHaveAttribute('aria-valuetext', new RegExp(`^entry 4 of ${String(entries)}: `))
  const controls = page.getByRole('group', { name: 'Replay' })
  await controls.getByRole('combobox', { name: 'Speed of the replay' }).selectOption('100')
  await controls.getByRole('button', { name: 'Replay' }).click()
  await expect(timeline).not.toContainText('the last line')
  await expect(timeline).toContainText('the last line')
  await page.getByRole('slider').press('Home')
  await expect(timeline.locator('[data-entry]')).toHaveCount(1)
  await controls.getByRole('button', { name: 'Back to live' }).click()
  await expect(timeline).toContainText('the last line')
  await expect(timeline.locator('[data-entry]')).toHaveCount(entries)
})

test('an output is reviewed and approved', async ({ server, console: page }) => {
  const id = await server.session('report', [
    { turn: { steps: [{ say: 'Written' }], output: { filesChanged: 3, testsAdded: 2, allTestsPassing: true } } },
  ])
  await page.goto(`${server.url}/sessions/${id}`)
  const card = page.getByRole('article').filter({ hasText: '3 files changed' }).first()
  await expect(card).toContainText('2 tests added, all tests pass')
  await card.getByRole('button', { name: /^Approve/ }).click()
  await expect(page.getByRole('main').getByText('Completed', { exact: true })).toBeVisible()
  expect(await server.statusOf(id)).toBe('Completed')
})

test('comments on lines of an output become one message', { tag: '@quick' }, async ({ server, console: page }) => {
  const edit = (file_path: string, old_string: string, new_string: string) => ({
    tool: { name: 'Edit', input: { file_path, old_string, new_string }, result: 'ok' },
  })
  const steps = [edit('src/orders.py', 'total = 0\n', 'total = sum(y)\n'), edit('src/tea.py', 'x\n', 'y\n'), { say: 'Written' }]
  const id = await server.session('report', [{ turn: { steps, output: { filesChanged: 2, allTestsPassing: true } } }])
  await page.goto(`${server.url}/sessions/${id}`)
  const card = page.getByRole('article').filter({ hasText: '2 files changed' })
  await card.getByRole('button', { name: 'Review the changes' }).click()
  await expectAccessible(page)
  const comment = async (line: string, text: string) => {
    const open = card.getByRole('button', { name: `Comment on ${line}` })
    if (isPhone(page)) await open.tap()
    else await open.press('Enter')
    await card.getByRole('textbox', { name: `Comment on ${line}` }).fill(text)
    await card.getByRole('textbox', { name: `Comment on ${line}` }).press('Control+Enter')
  }
  await comment('+ y', 'Say why')
  await comment('+ total = sum(y)', 'Use cents')
  await comment('- x', 'Not needed')
  await comment('- x', '')
  await expect(card.getByText('Use cents')).toBeVisible()
  await expect(card.getByText('Not needed')).toHaveCount(0)
  // Comments stay while the changes are hidden.
  await card.getByRole('button', { name: 'Review the changes' }).click()
  await expect(card.getByText('Use cents')).toBeHidden()
  await card.getByRole('button', { name: 'Review the changes' }).click()
  await card.getByRole('button', { name: 'Send 2 comments as one message' }).click()
  await expect(card.getByRole('button', { name: /as one message/ })).toHaveCount(0)
  const expected =
    'Comments on your output:\n\n1. src/orders.py, at `+ total = sum(y)`:\nUse cents\n\n2. src/tea.py, at `+ y`:\nSay why'
  await expect(page.getByRole('region', { name: 'Timeline' })).toContainText('Comments on your output')
  // Only messages that the agent has received are listed.
  const received = async () => {
    const path = `agents/sessions/${id}/messages`
    const { items } = await server.api<{ items: { source: string; content: string }[] }>('GET', path)
    return items.filter(({ source }) => source === 'User').map(({ content }) => content)
  }
  await expect.poll(received).toEqual([expected])
})

test('the cap is changed, and never over an unseen change', async ({ server, console: page }) => {
  const id = await server.session('money', [{ turn: { steps: [LONG] } }], '--budget', '1')
  await page.goto(`${server.url}/sessions/${id}`)
  await page.getByRole('button', { name: 'Change cap' }).click()
  const dialog = page.getByRole('dialog')
  await server.cli('budget', 'set', id, '3')
  await dialog.getByRole('textbox').fill('2')
  await dialog.getByRole('button', { name: 'Set the cap' }).click()
  await expect(dialog.getByRole('alert')).toContainText('changed since you read it')
  await page.keyboard.press('Escape')
  await expect(page.getByText('of $3.00')).toBeVisible()
  await page.getByRole('button', { name: 'Change cap' }).click()
  await dialog.getByRole('textbox').fill('2.5')
  await dialog.getByRole('textbox').press('Enter')
  await expect(page.getByText('of $2.50')).toBeVisible()
})

test('sessions are filtered, and paused together', async ({ server, console: page }) => {
  for (const name of ['alpha one', 'alpha two', 'beta']) {
    await server.session(name, [{ turn: { steps: [{ say: 'Busy' }, LONG] } }], '--label', `team=${name.slice(0, 4)}`)
  }
  await page.goto(`${server.url}/sessions`)
  const list = page.getByRole('region', { name: 'Sessions by state' })
  await expect(list.getByRole('heading', { name: 'Working (3)' })).toBeVisible()
  await page.getByRole('searchbox').fill('team=alph')
  await expect(list.getByRole('link')).toHaveCount(2)
  await page.getByRole('button', { name: 'Pause 2' }).click()
  const dialog = page.getByRole('dialog', { name: 'Pause 2 sessions' })
  await expect(dialog.getByRole('listitem')).toHaveCount(2)
  await dialog.getByRole('button', { name: 'Pause 2' }).click()
  await expect(dialog.getByRole('status')).toHaveText('2 of 2 requested')
  await dialog.getByRole('button', { name: 'Close' }).click()
  await expect(list.getByRole('heading', { name: 'Paused or idle (2)' })).toBeVisible()
  await page.getByRole('searchbox').fill('')
  await expect(list.getByRole('heading', { name: 'Working (1)' })).toBeVisible()
  // A session that is started elsewhere appears without a reload.
  await server.session('gamma', [{ turn: { steps: [LONG] } }])
  await expect(list.getByRole('link', { name: /gamma/ })).toBeVisible()
  if (isPhone(page)) return
  await page.keyboard.press('Escape')
  await list.click({ position: { x: 3, y: 3 } })
  await page.keyboard.press('j')
  await page.keyboard.press('Enter')
  await expect(page).toHaveURL(/\/sessions\/[0-9a-f-]+$/)
})

test('a stream resumes after a restart without gap or duplicate', { tag: '@quick' }, async ({ server, console: page }) => {
  const steps = [{ repeat: { times: 60, steps: [{ say: 'line' }, { wait: 150 }] } }, { say: 'the last line' }, LONG]
  const id = await server.session('lines', [{ turn: { steps } }])
  await page.goto(`${server.url}/sessions/${id}`)
  const timeline = page.getByRole('region', { name: 'Timeline' })
  await expect(timeline).toContainText('line')
  await server.kill()
  await expect(page.getByText(/Not connected since/)).toBeVisible()
  await server.up()
  await expect(page.getByText(/Not connected since/)).toHaveCount(0)
  await expect(timeline).toContainText('the last line', { timeout: 40_000 })
  // The entries are virtualised, so the whole list is read while scrolling.
  const seen = await timeline.evaluate(async (element) => {
    const found: string[] = []
    element.scrollTop = 0
    for (;;) {
      await new Promise((done) => setTimeout(done, 60))
      for (const entry of element.querySelectorAll<HTMLElement>('[data-entry]')) {
        const line = `${entry.dataset.entry ?? ''} ${entry.querySelector('p')?.textContent ?? ''}`
        if (!found.includes(line)) found.push(line)
      }
      if (element.scrollTop + element.clientHeight >= element.scrollHeight - 2) return found
      element.scrollTop += element.clientHeight / 2
    }
  })
  const numbers = seen.map((line) => line.split(' ')[0])
  expect(new Set(numbers).size).toBe(numbers.length)
  expect(seen.filter((line) => /^\S+ line$/.test(line))).toHaveLength(60)
  // The lists of the shell are live again, too.
  await server.session('later', [{ turn: { steps: [LONG] } }])
  await page.goto(`${server.url}/sessions`)
  await expect(page.getByRole('link', { name: /later/ })).toBeVisible()
})

test('a long session opens at its end and loads earlier entries', async ({ server, console: page }) => {
  test.setTimeout(120_000)
  const steps = [{ say: 'the first line 🦀' }, { log: { text: 'the first log' } }, { repeat: { times: 3000, steps: [{ say: 'line' }] } }, { say: 'the last line' }]
  const id = await server.session('long', [{ turn: { steps } }])
  await expect.poll(() => server.statusOf(id), { timeout: 90_000 }).toBe('Idle')
  await page.goto(`${server.url}/sessions/${id}`)
  const timeline = page.getByRole('region', { name: 'Timeline' })
  await expect(timeline).toContainText('the last line')
  // Few of the entries are in the document.
  expect(await timeline.locator('[data-entry]').count()).toBeLessThan(120)
  // The search of the whole session finds a line that is not loaded, and shows it with the lines around it.
  await page.getByRole('searchbox', { name: 'Find in the timeline' }).fill('🦀 FIRST')
  await expect(page.getByText(/^0 of \d+ loaded entries$/)).toBeVisible()
  await page.getByRole('button', { name: 'Search the whole session' }).press('Enter')
  const found = page.getByRole('list', { name: 'Matches in the whole session' }).getByRole('button')
  await expect(found).toHaveCount(1)
  await expect(found.locator('mark')).toHaveText(['first', '🦀'])
  await expect(page.getByText('1 entry has “🦀 FIRST”.')).toBeVisible()
  await expectAccessible(page)
  await found.press('Enter')
  await expect(timeline.locator('[data-chosen="true"]')).toContainText('the first line')
  await page.getByRole('button', { name: 'Close the search' }).press('Enter')
  await expect(found).toHaveCount(0)
  await expect(page.getByRole('searchbox', { name: 'Find in the timeline' })).toBeFocused()
  // Later entries are added below those that the reader sees.
  const toEnd = (element: Element) => element.scrollHeight - element.scrollTop - element.clientHeight
  await expect(async () => {
    await timeline.evaluate((element) => {
      element.scrollTop = element.scrollHeight
    })
    expect(await timeline.evaluate(toEnd)).toBeLessThan(5)
  }).toPass()
  const later = page.getByRole('button', { name: 'Load later' })
  await later.click()
  await page.getByRole('searchbox', { name: 'Find in the timeline' }).fill('')
  await expect(page.getByText(/^(19|20|21)\d entries, a part of the session$/)).toBeVisible()
  expect(await timeline.evaluate(toEnd)).toBeGreaterThan(1_000)
  await page.getByRole('button', { name: 'To the end' }).click()
  await expect(timeline).toContainText('the last line')
  await expect(later).toHaveCount(0)

  const earlier = page.getByRole('button', { name: 'Load earlier' })
  await expect(async () => {
    if ((await earlier.count()) > 0) await earlier.click({ timeout: 2_000 })
    await expect(earlier).toHaveCount(0, { timeout: 500 })
  }).toPass()
  await timeline.evaluate((element) => {
    element.scrollTop = 0
  })
  await expect(timeline).toContainText('the first line')
  await page.getByRole('button', { name: 'To the end' }).click()
  await expect(timeline).toContainText('the last line')

  await page.getByRole('tab', { name: 'Logs' }).click()
  const logs = page.getByRole('region', { name: 'Logs' })
  await expect(logs).toContainText('The last entries have no log.')
  await page.getByRole('button', { name: 'Load earlier' }).press('Enter')
  await expect(logs).toContainText('the first log')
  await expect(page.getByRole('button', { name: 'Load earlier' })).toHaveCount(0)
  await expectAccessible(page)
})

test('a log is followed live, and its earlier parts are loaded again', async ({ server, console: page }) => {
  const steps = [
    { log: { text: 'the first log <b>not bold</b>' } },
    { repeat: { times: 160, steps: [{ log: { stream: 'tests', text: 'x'.repeat(15_000) } }] } },
    { log: { stream: 'sidecar', text: 'y'.repeat(40_000) } },
  ]
  const second = { turn: { steps: [{ log: { text: 'a later log' } }, LONG] } }
  const id = await server.session('logs', [{ turn: { steps } }, { waitForMessage: {} }, second])
  await expect.poll(() => server.statusOf(id), { timeout: 30_000 }).toBe('Idle')
  await page.goto(`${server.url}/sessions/${id}`)
  await page.getByRole('tab', { name: 'Logs' }).click()
  const logs = page.getByRole('region', { name: 'Logs' })
  const last = logs.locator('[data-chunk]').last()
  await expect(last).toContainText('sidecaryyy')
  await expect(last.getByText('shortened')).toBeVisible()
  // At most two million characters stay in memory.
  expect(await logs.locator('[data-chunk]').count()).toBeLessThan(150)
  await expect(logs).not.toContainText('the first log')
  // The visible part of the log ends with its last part.
  const toEnd = (element: Element) => element.scrollHeight - element.scrollTop - element.clientHeight
  expect(await logs.evaluate(toEnd)).toBeLessThan(5)
  const saved = page.waitForEvent('download')
  await last.getByRole('button', { name: 'Download all of it' }).press('Enter')
  const event = JSON.parse(await readFile(await (await saved).path(), 'utf8')) as { content: string }
  expect(event.content).toHaveLength(40_000)

  const message = page.getByRole('textbox', { name: 'Message to the agent' })
  await message.fill('Go on')
  await message.press('Control+Enter')
  await expect(last).toContainText('a later log')
  expect(await logs.evaluate(toEnd)).toBeLessThan(5)

  const earlier = page.getByRole('button', { name: 'Load earlier' })
  await earlier.press('Enter')
  await expect(logs.locator('[data-chunk]').first()).toContainText('the first log <b>not bold</b>')
  await expect(earlier).toHaveCount(0)
  const numbers = await logs.locator('[data-chunk]').evaluateAll((chunks) => chunks.map((chunk) => Number(chunk.getAttribute('data-chunk'))))
  expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b))
  // What the person sees is before the end, until the person returns to it.
  expect(await logs.evaluate(toEnd)).toBeGreaterThan(1_000)
  await page.getByRole('button', { name: 'To the end' }).press('Enter')
  await expect.poll(() => logs.evaluate(toEnd)).toBeLessThan(5)
})

test('deliverables are shown with their criteria, live', { tag: '@quick' }, async ({ server, console: page }) => {
  const one = { id: 'DL-001', description: 'The parser takes dates', acceptanceCriteria: ['All tests pass', 'No <b>warning</b>'] }
  const two = { id: 'DL-002', description: 'The guide names them', acceptanceCriteria: [] }
  const report = (first: string, second: string) => ({
    raw: { type: 'deliverables', deliverables: [{ ...one, status: first }, { ...two, status: second }] },
  })
  const wait = { waitForMessage: {} }
  const id = await server.session('deliver', [{ turn: { steps: [{ say: 'I begin' }, wait, report('pending', 'pending'), wait, report('passed', 'blocked'), LONG] } }])
  await page.goto(`${server.url}/sessions/${id}`)
  await page.getByRole('tab', { name: 'Deliverables' }).click()
  const panel = page.getByRole('tabpanel')
  await expect(panel).toContainText('The agent has reported no deliverables.')
  const message = page.getByRole('textbox', { name: 'Message to the agent' })
  const goOn = async () => {
    await message.fill('Go on')
    await message.press('Control+Enter')
  }
  await goOn()
  await expect(panel.getByRole('heading', { name: '0 of 2 passed' })).toBeVisible()
  const item = (name: string) => panel.getByRole('listitem').filter({ hasText: name })
  await expect(item('DL-001')).toContainText('pending')
  await expect(panel.getByRole('list', { name: 'Acceptance criteria of DL-001' }).getByRole('listitem')).toHaveText([
    'All tests pass',
    'No <b>warning</b>',
  ])
  await goOn()
  await expect(panel.getByRole('heading', { name: '1 of 2 passed, 1 blocked' })).toBeVisible()
  await expect(item('DL-001')).toContainText('passed')
  await expect(item('DL-002')).toContainText('blocked')
  await expectAccessible(page)
})

test('a chain links its sessions and shows their handoff document', { tag: '@quick' }, async ({ server, console: page }) => {
  const handoff = { summary: 'The **lexer** works. <b>not bold</b>', remainingWork: '- The parser', keyDecisions: 'Use cents' }
  const steps = [{ turn: { steps: [{ say: 'Part one' }, { waitForMessage: {} }, { contextExhausted: {} }, { handoff }] } }]
  const file = join(server.folder, 'chain.json')
  await writeFile(file, JSON.stringify({ steps, continuations: [[{ turn: { steps: [{ say: 'Part two' }] } }]] }))
  const { session } = await server.json<{ session: { id: string } }>('run', 'Port it', '--name', 'port', '--script', file, '--detach')
  await page.goto(`${server.url}/sessions/${session.id}`)
  await expect(page.getByRole('region', { name: 'Timeline' })).toContainText('Part one')
  const chain = page.getByRole('region', { name: 'Chain' })
  await expect(chain).toHaveCount(0)
  const message = page.getByRole('textbox', { name: 'Message to the agent' })
  await message.fill('Go on')
  await message.press('Control+Enter')
  await expect(chain).toContainText('Session 1 of 2')
  await expect(chain).toContainText('A new session continues the work')
  await chain.getByText('Handoff document that it wrote').click()
  const written = chain.getByRole('group', { name: 'Handoff document that it wrote' })
  await expect(written.locator('strong').filter({ hasText: 'lexer' })).toBeVisible()
  await expect(written).toContainText('<b>not bold</b>')
  await expect(written.getByRole('region', { name: 'Remaining work' }).getByRole('listitem')).toHaveText('The parser')
  await expectAccessible(page)

  const after = chain.getByRole('link', { name: 'port, session 2' })
  if (isPhone(page)) await after.tap()
  else await after.press('Enter')
  await expect(chain).toContainText('Session 2 of 2')
  await expect(page.getByRole('region', { name: 'Timeline' })).toContainText('Part two')
  await chain.getByText('Handoff document that it received').click()
  await expect(chain.getByRole('region', { name: 'Decisions' })).toContainText('Use cents')
  await expect(chain.getByRole('link', { name: 'port, session 1' })).toHaveAttribute('href', `/sessions/${session.id}`)
  await page.getByRole('main').getByRole('button', { name: 'Close', exact: true }).click()
  await expect(chain).toContainText('completed')
})

test('a skill is loaded into a session and removed again', { tag: '@quick' }, async ({ server, console: page }) => {
  const skill = await server.json<{ id: string }>(
    ...['skill', 'create', 'formatting', '--description', 'How we format', '--instructions', 'Format with care.'],
  )
  const pill = { ownTool: { name: 'memory_pill', input: { skillId: skill.id, content: 'Use <b>tabs</b>', category: 'Tip' } } }
  const turn = (...steps: unknown[]) => ({ turn: { steps: [{ say: 'Configuration: {{configuration}}' }, ...steps] } })
  const wait = { waitForMessage: {} }
  const id = await server.session('skilled', [turn(), wait, turn(pill), wait, turn(LONG)])
  const said = async () => {
    const { items } = await server.api<{ items: { source: string; content: string }[] }>('GET', `agents/sessions/${id}/messages`)
    return items.filter(({ source }) => source === 'Agent').map(({ content }) => content.includes('Format with care.'))
  }
  await page.goto(`${server.url}/sessions/${id}`)
  const card = page.getByRole('region', { name: /^Skills \(/ })
  const enabled = card.getByRole('list', { name: 'Enabled skills' })
  const state = card.getByRole('status', { name: 'State of the skills' })
  await expect(card).toContainText('No skill is enabled.')
  await card.getByRole('combobox', { name: 'Skill to enable' }).selectOption('formatting')
  const enable = card.getByRole('button', { name: 'Enable' })
  if (isPhone(page)) await enable.tap()
  else await enable.press('Enter')
  await expect(enabled).toContainText('How we format')
  await expect(state).toHaveText('The agent has these skills.')
  await expect(page.getByRole('region', { name: 'Timeline' })).toContainText('The new configuration is active')
  const message = page.getByRole('textbox', { name: 'Message to the agent' })
  const send = async () => {
    await message.fill('Go on')
    await message.press('Control+Enter')
  }
  await send()
  await expect.poll(said).toEqual([false, true])
  await card.getByText('Memory pills (1 active)').click()
  const pills = card.getByRole('list', { name: 'Memory pills of formatting' })
  await expect(pills.getByRole('listitem')).toHaveText(/Tip\s*Active\s*Use <b>tabs<\/b>/)
  await expectAccessible(page)

  await card.getByRole('button', { name: 'Disable formatting' }).click()
  await expect(card).toContainText('No skill is enabled.')
  await expect(state).toHaveText('')
  await send()
  await expect.poll(said).toEqual([false, true, false])
  await expect(card).toContainText('Skills can change while the session is idle or interrupted.')
  await expect(card.getByRole('button', { name: 'Enable' })).toHaveCount(0)
})

test('a changed skill that is not loaded is shown, and loaded', async ({ server, console: page }) => {
  await server.cli('skill', 'create', 'formatting', '--description', 'How we format')
  const id = await server.session('skilled', [{ turn: { steps: [{ say: 'Done' }] } }])
  await expect.poll(() => server.statusOf(id)).toBe('Idle')
  await page.goto(`${server.url}/sessions/${id}`)
  const reloadNeeded = page.getByRole('main').getByText('reload needed')
  await expect(page.getByRole('region', { name: /^Skills \(/ })).toContainText('No skill is enabled.')
  await server.cli('skill', 'enable', id, 'formatting', '--no-reload')
  await expect(reloadNeeded).toBeVisible()
  await page.getByRole('button', { name: 'Load the change' }).click()
  await expect(reloadNeeded).toHaveCount(0)
  await expect(page.getByRole('status', { name: 'State of the skills' })).toHaveText('The agent has these skills.')
})

test('a session shows why it cannot continue', async ({ server, console: page }) => {
  const resetAt = new Date(Date.now() + 36e5).toISOString()
  const used = { raw: { type: 'quota_exceeded', message: '5-hour limit reached', resetAt } }
  const quota = await server.session('quota', [{ turn: { steps: [{ say: 'Begun' }, used, { waitForCommand: 'resume' }] } }])
  await page.goto(`${server.url}/sessions/${quota}`)
  const main = page.getByRole('main')
  await expect(main.getByText('The plan that pays for the agent is used up: 5-hour limit reached.')).toBeVisible()
  await expect(main.getByText('The session resumes at').locator('time')).toHaveAttribute('datetime', resetAt)
  await expectAccessible(page)

  // No disk of a test can be full, so the response of the server is changed.
  await page.route(`**/api/agents/sessions/${quota}`, async (route) => {
    const response = await route.fetch()
    await route.fulfill({ response, json: { ...((await response.json()) as object), quota: null, fullDisk: 'server' } })
  })
  await page.reload()
  await expect(main.getByText('The disk of the server is nearly full.')).toBeVisible()

  const steps = [{ turn: { steps: [{ say: 'Written' }], output: { filesChanged: 3, allTestsPassing: true } } }]
  const checked = await server.session('checked', steps, '--criteria', 'tests=until [ -e go ]; do sleep 0.1; done')
  await page.goto(`${server.url}/sessions/${checked}`)
  const checking = main.getByText('checking its criteria')
  await expect(checking).toBeVisible()
  await writeFile(join(server.work, 'go'), '')
  await expect(checking).toHaveCount(0)
  await expect(main.getByText('3 files changed').first()).toBeVisible()
})

test('the list of sessions shows how full each context window is', { tag: '@quick' }, async ({ server, console: page }) => {
  const usage = { costUsd: '0.5', tokens: { inputTokens: 90_000 }, context: { tokens: 50_000, limit: 200_000 } }
  await server.session('full', [{ turn: { steps: [{ usage }, LONG] } }])
  await page.goto(`${server.url}/sessions`)
  await expect(page.getByRole('link', { name: /full/ }).getByText(/^context 25(\.0+)? %$/)).toBeVisible()
  await expectAccessible(page)
})

test('a time of an earlier day has its date', async ({ server, console: page }) => {
  const id = await server.session('yesterday', [{ turn: { steps: [{ say: 'I begin' }, LONG] } }])
  await page.goto(`${server.url}/sessions/${id}`)
  const time = page.getByRole('region', { name: 'Timeline' }).locator('[data-entry]').filter({ hasText: 'I begin' }).locator('time')
  await expect(time).toHaveText(/^\d{2}:\d{2}:\d{2}$/)
  await page.clock.setFixedTime(Date.now() + 864e5)
  // The page notices the end of the day within 15 seconds.
  await expect(time).toHaveText(/^\d{1,2} \S+ \d{4} \d{2}:\d{2}:\d{2}$/, { timeout: 25_000 })
})
