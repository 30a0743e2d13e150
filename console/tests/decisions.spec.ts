import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from '@playwright/test'
import { expect, isPhone, openDecision, press, test } from './fixture'
import type { Server } from './server'

/** A project with one agent that plays steps. Returns the id of the agent. */
async function agent(server: Server, steps: unknown[], policy: unknown): Promise<string> {
  const { id } = await server.json<{ id: string }>(
    ...['project', 'create', 'Shop', '--goal', 'Sell tea', '--workstream', 'api=The HTTP API'],
  )
  await server.api('PATCH', `projects/${id}`, policy)
  const brief = join(server.folder, 'brief.json')
  const script = { steps: [{ turn: { steps } }], onMessage: [{ say: 'I continue' }, { wait: 60_000 }] }
  await writeFile(
    brief,
    JSON.stringify({ role: 'Builder', workstream: 'api', adapter: 'script', providerConfig: { script } }),
  )
  await server.cli('agent', 'spawn', 'Build it', '--brief', brief, '--dir', server.work)
  const { items } = await server.json<{ items: { id: string }[] }>('agent', 'ls')
  return items[0]?.id ?? ''
}

const TRIAGE = { orphanedDecisions: { adaptive: { default: 'triage', gracePeriodMs: 0, perSubtype: {} } } }

test('decisions of ended agents offer their four answers', { tag: '@quick' }, async ({ server, console: page }) => {
  const id = await server.shop()
  await server.api('PATCH', `projects/${id}`, {
    orphanedDecisions: { adaptive: { default: 'triage', gracePeriodMs: 0, perSubtype: { tool_approval: 'triage' } } },
  })
  const main = page.getByRole('main')
  await expect(main.getByText('3 waiting')).toBeVisible()
  const { items } = await server.json<{ items: { id: string }[] }>('agent', 'ls')
  for (const { id } of items) await server.cli('agent', 'kill', id, '--force')
  const waiting = page.getByRole('list', { name: 'Waiting decisions' })
  await expect(waiting.getByText('agent has ended')).toHaveCount(3)

  const card = page.getByRole('article')
  const answers: [RegExp, () => Promise<void>, string][] = [
    [/left-pad/, () => card.getByRole('button', { name: /^Approve/ }).click(), 'local approved'],
    [
      /rm -rf build/,
      async () => {
        await card.getByRole('button', { name: /^Reject/ }).click()
        await card.getByRole('textbox', { name: /Why/ }).fill('Keep it')
        await card.getByRole('button', { name: 'Reject', exact: true }).click()
      },
      'local rejected: Keep it',
    ],
    [/Which guide/, () => card.getByRole('button', { name: /How to install/ }).click(), 'local chose setup'],
  ]
  for (const [name, answer, outcome] of answers) {
    await openDecision(page, name)
    await expect(card).toContainText(/Agent has ended.*session cancelled.*it waits for you/)
    await expect(card.getByRole('button', { name: /Change the input|all like it/ })).toHaveCount(0)
    await expect(card.getByRole('button', { name: /^Dismiss/ })).toBeVisible()
    await answer()
    await expect(card.getByRole('status')).toContainText(outcome)
    if (isPhone(page)) await page.getByRole('button', { name: 'All decisions' }).click()
  }
  await expect(main.getByText('0 waiting')).toBeVisible()
})

test('a decision of an agent that has ended is dismissed', async ({ server, console: page }) => {
  const question = { id: 'q1', questions: [{ question: 'Which store?', options: [{ label: 'SQLite' }] }] }
  const id = await agent(server, [{ question }], TRIAGE)
  await expect(page.getByRole('main').getByText('1 waiting')).toBeVisible()
  await server.cli('agent', 'kill', id, '--force')
  await openDecision(page, /Which store/)
  const card = page.getByRole('article')
  await expect(card).toContainText('agent has ended')
  if (isPhone(page)) await card.getByRole('button', { name: /^Dismiss/ }).tap()
  else await page.keyboard.press('d')
  await expect(card.getByRole('status')).toContainText('local dismissed it')
})

test('the approval of its decision releases a brake', { tag: '@quick' }, async ({ server, console: page }) => {
  const id = await server.session('busy', [{ turn: { steps: [{ say: 'Busy' }, { wait: 60_000 }] } }])
  await expect.poll(() => server.statusOf(id)).toBe('Running')
  await server.cli('brake', '--all', '--reason', 'Look at the logs', '--release-by-decision')
  await openDecision(page, /Release the brake on all of your sessions/)
  const card = page.getByRole('article')
  await expect(card).toContainText('Look at the logs')
  await expect(card).toContainText('this brake is in force until its release is approved')
  if (isPhone(page)) await card.getByRole('button', { name: /^Release the brake/ }).tap()
  else await page.keyboard.press('a')
  await expect(card.getByRole('status')).toContainText('local approved')
  await expect.poll(() => server.statusOf(id)).toBe('Running')
  await expect(page.getByRole('region', { name: 'Emergency brake' })).toHaveCount(0)
})

test('a person decides how a crashed agent continues', { tag: '@quick' }, async ({ server, console: page }) => {
  const id = await agent(server, [{ say: 'Working' }, { crash: { exit: 3 } }], {})
  await openDecision(page, /How should .* continue after its failure/)
  const card = page.getByRole('article')
  await expect(card).toContainText(/the agent ended with an error|its process or its machine failed/)
  await expect(card).toContainText('no policy lets the agent continue automatically')
  const choices = card.getByRole('listitem').getByRole('button')
  await expect(choices).toHaveCount(3)
  // Somebody else is faster: the page shows their decision.
  const decisions = await server.json<{ items: { id: string }[] }>('inbox')
  await page.route('**/resolve', async (route) => {
    await server.cli('resolve', decisions.items[0]?.id ?? '', 'choose', 'abandon')
    await route.continue()
  })
  if (isPhone(page)) await choices.first().tap()
  else await page.keyboard.press('1')
  await expect(card.getByRole('alert')).toContainText('resolved by local')
  await expect(card.getByRole('status')).toContainText('local chose abandon')
  await expect
    .poll(async () => (await server.api<{ status: string }>('GET', `agents/${id}`)).status)
    .toBe('error')
})

// A chain has 800 sessions before its work cannot be handed over, so the test fakes this decision.
test('a full chain asks how to proceed', async ({ server, console: page }) => {
  const decision = {
    kind: 'handoff_failed',
    id: '01900000-0000-7000-8000-000000000001',
    sessionId: '01900000-0000-7000-8000-000000000002',
    sessionName: 'night shift',
    chainId: '01900000-0000-7000-8000-000000000003',
    obstacle: 'The chain has 800 sessions, the most that it can have.',
    options: [
      { id: 'cancel', label: 'End the chain' },
      { id: 'keep', label: 'Leave it as it is' },
    ],
    state: 'pending',
    createdAt: new Date().toISOString(),
    resolutions: ['choose_option'],
  }
  await page.route('**/api/decisions?state=pending*', (route) => route.fulfill({ json: { items: [decision] } }))
  const sent: unknown[] = []
  await page.route(`**/api/decisions/${decision.id}/resolve`, (route) => {
    sent.push(route.request().postDataJSON())
    const resolution = { resolutionType: 'choose_option', chosenOptionId: 'keep' }
    const resolved = { state: 'resolved', resolution, resolvedBy: { type: 'owner', id: 'local' }, resolvedAt: decision.createdAt }
    return route.fulfill({ json: { ...decision, ...resolved } })
  })
  await page.goto(server.url)
  await openDecision(page, /What should happen to the chain of night shift/)
  const card = page.getByRole('article')
  await expect(card).toContainText(decision.obstacle)
  await card.getByRole('button', { name: /Leave it as it is/ }).click()
  await expect(card.getByRole('status')).toContainText('local chose keep')
  expect(sent).toEqual([{ resolutionType: 'choose_option', chosenOptionId: 'keep' }])
})

/** Shows the inbox with approvals of these tool calls, which the test fakes. */
async function openApprovals(server: Server, page: Page, calls: Readonly<Record<string, unknown>>): Promise<void> {
  const createdAt = new Date().toISOString()
  const items = Object.entries(calls).map(([toolName, input], at) => ({
    kind: 'tool_approval',
    id: `01900000-0000-7000-8000-00000000000${String(at)}`,
    sessionId: '01900000-0000-7000-8000-000000000009',
    sessionName: 'night shift',
    toolName,
    question: '',
    input: JSON.stringify(input),
    state: 'pending',
    createdAt,
    resolutions: ['approve', 'reject'],
  }))
  await page.route('**/api/decisions?state=pending*', (route) => route.fulfill({ json: { items } }))
  await page.goto(server.url)
}

test('an approval shows the whole input of its call', { tag: '@quick' }, async ({ server, console: page }) => {
  await openApprovals(server, page, {
    Bash: { command: 'rm -rf src', path: 'notes.md', content: 'A harmless note' },
    Edit: { file_path: 'a.ts', old_string: 'x', new_string: 'y', replace_all: true },
    Search: { query: 'tea' },
  })
  const card = page.getByRole('article')
  const part = (name: string) => card.getByRole('group', { name, exact: true })
  await openDecision(page, /Bash:/)
  await expect(part('Command of Bash')).toHaveText('rm -rf src')
  await expect(part('Other input of Bash')).toContainText('"path": "notes.md"')
  await expect(part('Other input of Bash')).toContainText('"content": "A harmless note"')
  await expect(card.getByRole('group')).toHaveCount(2)

  if (isPhone(page)) await page.getByRole('button', { name: 'All decisions' }).click()
  await openDecision(page, /Edit:/)
  await expect(part('Change of a.ts')).toContainText('+ y')
  expect(JSON.parse((await part('Other input of Edit').textContent()) ?? '')).toEqual({ replace_all: true })

  if (isPhone(page)) await page.getByRole('button', { name: 'All decisions' }).click()
  await openDecision(page, /Search:/)
  await expect(part('Input of Search')).toContainText('"query": "tea"')
  await expect(card.getByRole('group')).toHaveCount(1)
})

test('arrow keys scroll a focused change', { tag: '@quick' }, async ({ server, console: page }) => {
  test.skip(isPhone(page), 'a phone has no keyboard')
  const content = Array.from({ length: 200 }, (_, at) => `line ${String(at)}`).join('\n')
  await openApprovals(server, page, { Write: { file_path: 'a.ts', content }, Bash: { command: 'ls' } })
  const change = page.getByRole('group', { name: 'Change of a.ts' })
  await openDecision(page, /Write:/)
  await change.focus()
  await page.keyboard.press('ArrowDown')
  await expect.poll(() => change.evaluate((element) => element.scrollTop)).toBeGreaterThan(0)
  await expect(change).toBeVisible()
  // Elsewhere they move the selection.
  await page.getByRole('heading', { name: 'Inbox', level: 1 }).click()
  await page.keyboard.press('ArrowDown')
  await expect(page.getByRole('group', { name: 'Command of Bash' })).toBeVisible()
})

test('an approval shows every edit of its call', { tag: '@quick' }, async ({ server, console: page }) => {
  await openApprovals(server, page, {
    edit: { path: 'a.ts', edits: [{ old_text: 'x', new_text: 'y' }, { old_text: 'p', new_text: 'q' }] },
    MultiEdit: { file_path: 'b.ts', edits: [{ old_string: 'x', new_string: 'z', replace_all: true }] },
  })
  const card = page.getByRole('article')
  const part = (name: string) => card.getByRole('group', { name, exact: true })
  await openDecision(page, /\bedit:/)
  await expect(part('Change 1 of a.ts')).toContainText('+ y')
  await expect(part('Change 2 of a.ts')).toContainText('+ q')
  await expect(card.getByRole('group')).toHaveCount(2)

  if (isPhone(page)) await page.getByRole('button', { name: 'All decisions' }).click()
  await openDecision(page, /MultiEdit:/)
  await expect(part('Change of b.ts')).toContainText('+ z')
  expect(JSON.parse((await part('Other input of MultiEdit').textContent()) ?? '')).toEqual({ edits: [{ replace_all: true }] })
})

test('an approval shows the end of a long command', { tag: '@quick' }, async ({ server, console: page }) => {
  const input = { command: `echo ${'tea '.repeat(1000)}; rm -rf src` }
  const options = [{ label: 'Allow' }, { label: 'Deny' }]
  const asked = {
    type: 'question_asked',
    requestId: 't1',
    questions: [{ question: 'May the agent use Bash?', options }],
    approval: { toolName: 'Bash', input, allow: 'Allow', deny: 'Deny', modifiable: true },
  }
  let isBroken = true
  await page.route('**/blobs/*', (route) =>
    isBroken ? route.fulfill({ status: 403, json: { code: 'forbidden', detail: 'You may not read it.' } }) : route.continue(),
  )
  const steps = [{ tool: { id: 't1', name: 'Bash', input } }, { raw: asked }, { waitForAnswer: 't1' }, { wait: 60_000 }]
  await server.session('cleaner', [{ turn: { steps } }])
  const card = page.getByRole('article')
  await openDecision(page, /Bash/)
  await expect(card.getByText('shortened')).toBeVisible()
  await expect(card.getByRole('alert')).toContainText('You may not read it.')
  await expect(card.getByRole('group', { name: 'Beginning of the input of Bash' })).toBeVisible()
  await expect(card.getByRole('button', { name: /^Approve/ })).toBeVisible()
  await expect(card.getByRole('button', { name: /Change the input/ })).toHaveCount(0)

  isBroken = false
  await page.reload()
  await openDecision(page, /Bash/)
  await expect(card.getByRole('group', { name: 'Command of Bash' })).toContainText('rm -rf src')
  await expect(card.getByText('shortened')).toHaveCount(0)
  await card.getByRole('button', { name: /Change the input/ }).click()
  await expect(card.getByRole('textbox', { name: 'Input of the call' })).toHaveValue(/rm -rf src/)
})

/** A text that the control plane shortens. */
const LONG = `${`${'tea '.repeat(100)}\n`.repeat(100)}the end`

test('a review shows every edit, and a long change on request', async ({ server, console: page }) => {
  const edits = [{ old_text: 'x', new_text: 'y' }, { old_text: 'p', new_text: 'q' }]
  const steps = [
    { tool: { name: 'edit', input: { path: 'src/tea.py', edits }, result: 'ok' } },
    { tool: { name: 'write', input: { path: 'long.md', content: LONG }, result: 'ok' } },
    { say: 'Written' },
  ]
  await server.session('report', [{ turn: { steps, output: { filesChanged: 2, allTestsPassing: true } } }])
  await openDecision(page, /2 files changed/)
  const card = page.getByRole('article')
  await card.getByRole('button', { name: 'Review the changes' }).click()
  await expect(card.getByRole('group', { name: 'Change 1 of src/tea.py' })).toContainText('+ y')
  await expect(card.getByRole('group', { name: 'Change 2 of src/tea.py' })).toContainText('+ q')
  const change = card.getByRole('group', { name: 'Change of long.md' })
  await expect(change).toContainText('+ tea')
  await expect(change).not.toContainText('the end')
  await expect(card.getByText('shortened')).toBeVisible()
  await press(card.getByRole('button', { name: 'Show the whole change of long.md' }))
  await expect(change).toContainText('+ the end')
  await expect(card.getByText('shortened')).toHaveCount(0)
})

test('shortened messages, inputs and results are read whole', async ({ server, console: page }) => {
  const tool = { name: 'write', input: { path: 'long.md', content: LONG }, result: LONG }
  // A script of this size does not fit into the options of a session.
  const script = join(server.folder, 'writer.json')
  await writeFile(script, JSON.stringify({ steps: [{ turn: { steps: [{ tool }, { say: LONG }] } }] }))
  const options = ['--adapter', 'script', '--option', `scriptFile=${script}`, '--detach']
  const { session } = await server.json<{ session: { id: string } }>('run', 'Do the work of writer', ...options)
  const { id } = session
  await expect.poll(() => server.statusOf(id)).toBe('Idle')
  await page.goto(`${server.url}/sessions/${id}`)
  const panel = page.getByRole('tabpanel')
  await page.getByRole('tab', { name: 'Tool calls' }).click()
  await panel.getByText('write', { exact: true }).click()
  await expect(panel.getByText('the end')).toHaveCount(0)
  await panel.getByRole('button', { name: 'Show the whole input' }).click()
  await expect(panel.getByRole('group', { name: 'Change of long.md' })).toContainText('the end')
  await panel.getByRole('button', { name: 'Show the whole result' }).click()
  await expect(panel.getByRole('group', { name: 'Result of write' })).toContainText('the end')
  await expect(panel.getByText('shortened')).toHaveCount(0)

  await page.getByRole('tab', { name: 'Conversation' }).click()
  await expect(panel.getByText('the end')).toHaveCount(0)
  await panel.getByRole('button', { name: 'Show the whole message' }).click()
  await expect(panel.getByText('the end')).toBeVisible()
})
