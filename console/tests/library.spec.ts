import { createHmac } from 'node:crypto'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Locator, Page } from '@playwright/test'
import { expect, expectAccessible, test } from './fixture'
import type { Server } from './server'

interface Received {
  headers: IncomingHttpHeaders
  body: string
  status: number
}

const NOTHING: Received = { headers: {}, body: '', status: 0 }

/** A receiver of webhooks on loopback. It answers with its present status. */
class Receiver {
  status = 200
  readonly got: Received[] = []
  private readonly http = createServer((request, response) => {
    let body = ''
    request.on('data', (part: Buffer) => (body += part.toString()))
    request.on('end', () => {
      this.got.push({ headers: request.headers, body, status: this.status })
      response.writeHead(this.status).end()
    })
  })

  /** Listens, and returns the URL. */
  async listen(): Promise<string> {
    await new Promise<void>((done) => this.http.listen(0, '127.0.0.1', done))
    return `http://127.0.0.1:${String((this.http.address() as AddressInfo).port)}/hooks`
  }

  close(): void {
    this.http.closeAllConnections()
    this.http.close()
  }
}

async function library(server: Server, page: Page): Promise<void> {
  await page.goto(`${server.url}/library`)
  await expect(page.getByRole('heading', { name: 'Library', level: 1 })).toBeVisible()
}

/** The server refuses the form, and the refusal is beside the field. */
async function expectViolation(field: Locator): Promise<void> {
  await expect(field).toHaveAttribute('aria-invalid', 'true')
  await expect(field).toHaveAccessibleDescription(/\S/)
}

/** Presses a button that asks first, and confirms. */
async function confirm(page: Page, button: Locator, title: string, text: string): Promise<void> {
  await button.click()
  const dialog = page.getByRole('dialog', { name: title })
  await dialog.getByRole('button', { name: text, exact: true }).click()
  await expect(dialog).toHaveCount(0)
}

const TALK = [{ turn: { steps: [{ say: 'Hello' }] } }]

test('a project is created with its workstreams', { tag: '@quick' }, async ({ server, console: page }) => {
  await page.goto(`${server.url}/projects`)
  await expect(page.getByText('There is no project yet.')).toBeVisible()
  await page.getByRole('button', { name: 'New project' }).click()
  const form = page.getByRole('dialog', { name: 'New project' })
  await form.getByRole('textbox', { name: 'Name', exact: true }).fill('Shop')
  await form.getByRole('textbox', { name: 'Goals', exact: true }).fill('Sell tea')
  const add = form.getByRole('button', { name: 'Add to Workstreams' })
  await add.click()
  await add.click()
  const [first, second] = [1, 2].map((number) => form.getByRole('group', { name: `Workstreams ${String(number)}`, exact: true }))
  await first?.getByRole('textbox', { name: 'Id' }).fill('unused')
  await second?.getByRole('textbox', { name: 'Id' }).fill('not an id')
  await second?.getByRole('textbox', { name: 'Name' }).fill('The HTTP API')
  // The entry that remains keeps its text.
  await form.getByRole('button', { name: 'Remove Workstreams 1' }).click()
  await expect(second ?? form).toHaveCount(0)
  const id = form.getByRole('textbox', { name: 'Id' })
  await expect(id).toHaveValue('not an id')
  await form.getByRole('combobox', { name: 'Control mode' }).selectOption('orchestrator')
  await form.getByRole('button', { name: 'Create the project' }).click()
  await expectViolation(id)
  await expectAccessible(page)
  await id.fill('api')
  await form.getByRole('button', { name: 'Create the project' }).click()
  await expect(page.getByRole('heading', { name: 'Shop', level: 1 })).toBeVisible()
  await expect(page.getByRole('radio', { name: /orchestrator/ })).toBeChecked()
  const { items } = await server.api<{ items: { id: string }[] }>('GET', 'projects')
  expect(items).toHaveLength(1)
  const project = await server.api<{ goals: string[]; workstreams: { id: string; name: string }[] }>('GET', `projects/${String(items[0]?.id)}`)
  expect(project).toMatchObject({ goals: ['Sell tea'], workstreams: [{ id: 'api', name: 'The HTTP API' }] })
})

test('a webhook is added, receives signed events, and is removed', { tag: '@quick' }, async ({ server, console: page }) => {
  const receiver = new Receiver()
  const url = await receiver.listen()
  await library(server, page)
  const card = page.getByRole('region', { name: 'Webhooks' })
  await card.getByRole('button', { name: 'Add a webhook' }).click()
  const form = page.getByRole('dialog', { name: 'Add a webhook' })
  const address = form.getByRole('textbox', { name: 'Url' })
  await address.fill('ftp://example.com/hooks')
  await form.getByRole('button', { name: 'Add', exact: true }).click()
  await expectViolation(address)
  await address.fill(url)
  await form.getByRole('textbox', { name: 'Description' }).fill('The chat room')
  await form.getByRole('button', { name: 'Add', exact: true }).click()
  const shown = page.getByRole('dialog', { name: 'The secret of the webhook' })
  const secret = await shown.getByRole('group', { name: 'Secret' }).innerText()
  // A click beside the dialog must not lose the secret.
  await page.mouse.click(5, 5)
  expect(secret).toMatch(/^whsec_/)
  await expectAccessible(page)
  await shown.getByRole('button', { name: 'Close' }).click()
  await expect(page.getByText(secret)).toHaveCount(0)
  const row = card.getByRole('listitem').filter({ hasText: url })
  await expect(row).toContainText('enabled')
  await expect(row).toContainText('The chat room; all events')

  await server.session('talk', TALK)
  await expect.poll(() => receiver.got.length).toBeGreaterThan(0)
  const { headers, body } = receiver.got[0] ?? NOTHING
  const signed = `${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.${body}`
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64')
  expect(headers['webhook-signature']).toBe(`v1,${createHmac('sha256', key).update(signed).digest('base64')}`)

  await row.getByRole('button', { name: `Deliveries to ${url}` }).click()
  const deliveries = page.getByRole('dialog', { name: `Deliveries to ${url}` })
  await expect(async () => {
    await deliveries.getByRole('button', { name: 'Read again' }).click()
    await expect(deliveries.getByRole('listitem').filter({ hasText: 'delivered' }).first()).toContainText('status 200', { timeout: 2_000 })
  }).toPass()
  await expectAccessible(page)
  await deliveries.getByRole('button', { name: 'Close' }).click()

  await confirm(page, row.getByRole('button', { name: `Remove ${url}` }), 'Remove this webhook?', 'Remove')
  await expect(row).toHaveCount(0)
  expect((await server.api<{ items: unknown[] }>('GET', 'webhooks')).items).toEqual([])
  receiver.close()
})

test('a webhook whose endpoint failed is resumed', async ({ server, console: page }) => {
  const receiver = new Receiver()
  const url = await receiver.listen()
  receiver.status = 500
  await server.api('POST', 'webhooks', { url })
  for (const name of ['one', 'two', 'three']) await server.session(name, TALK)
  const paused = async () =>
    (await server.api<{ items: { failing?: { pausedUntil?: string } }[] }>('GET', 'webhooks')).items[0]?.failing?.pausedUntil
  await expect.poll(paused).toBeDefined()
  await library(server, page)
  const row = page.getByRole('region', { name: 'Webhooks' }).getByRole('listitem').filter({ hasText: url })
  await expect(row).toContainText('paused')
  receiver.status = 200
  await row.getByRole('button', { name: `Resume ${url}` }).click()
  await expect(row).toContainText('enabled')
  expect(await paused()).toBeUndefined()
  await server.session('four', TALK)
  await expect.poll(() => receiver.got.filter(({ status }) => status === 200).length).toBeGreaterThan(0)
  receiver.close()
})

interface Template {
  id: string
  version: number
  name: string
  allowedTools: string[]
  description?: string
  isActive: boolean
  schedule?: { cronExpression: string; isEnabled: boolean; launch: { objective: string } }
  classificationRules: { classifyAs: string }[]
  defaultSkillIds: string[]
}

const TEMPLATE = { name: 'Nightly', modelId: 'small', adapter: 'script', allowedTools: ['Read'], defaultBudgetCapUsd: '2' }

function created(server: Server): Promise<Template> {
  return server.api<Template>('POST', 'agents/templates', { ...TEMPLATE, customToolDefinitions: [], classificationRules: [] })
}

test('a schedule is set, disabled, changed and removed', { tag: '@quick' }, async ({ server, console: page }) => {
  const { id } = await created(server)
  const schedule = async () => (await server.api<Template>('GET', `agents/templates/${id}`)).schedule
  await library(server, page)
  await page.getByRole('button', { name: 'Schedule of Nightly' }).click()
  const dialog = page.getByRole('dialog', { name: 'Schedule of Nightly' })
  await dialog.getByRole('button', { name: 'New schedule' }).click()
  const form = page.getByRole('dialog', { name: 'New schedule' })
  const times = form.getByRole('textbox', { name: 'Cron expression' })
  await expect(form.getByRole('textbox', { name: 'Time zone' })).toHaveValue('Europe/Berlin')
  await times.fill('61 3 * * *')
  await form.getByRole('textbox', { name: 'Objective' }).fill('Look for broken links')
  const directory = form.getByRole('textbox', { name: 'Working directory' })
  await directory.fill('relative')
  await form.getByRole('button', { name: 'Save the schedule' }).click()
  await expectViolation(times)
  await expectViolation(directory)
  await expectAccessible(page)
  await times.fill('0 3 * * *')
  await directory.fill(server.work)
  await form.getByRole('button', { name: 'Save the schedule' }).click()
  await expect(dialog.getByRole('definition').filter({ hasText: '0 3 * * *' })).toContainText('enabled')
  await expect(dialog).toContainText('none yet')
  // The list is behind the dialog.
  await expect(page.locator('li', { hasText: 'next run' })).toHaveCount(1)

  await dialog.getByRole('button', { name: 'Disable' }).click()
  await expect(dialog).toContainText('disabled')
  expect(await schedule()).toMatchObject({ isEnabled: false, launch: { objective: 'Look for broken links' } })
  await dialog.getByRole('button', { name: 'Edit' }).click()
  const edit = page.getByRole('dialog', { name: 'Edit the schedule' })
  await edit.getByRole('textbox', { name: 'Cron expression' }).fill('30 4 * * mon')
  await edit.getByRole('button', { name: 'Save the schedule' }).click()
  await expect(dialog).toContainText('30 4 * * mon')
  expect(await schedule()).toMatchObject({ cronExpression: '30 4 * * mon', isEnabled: false })
  await dialog.getByRole('button', { name: 'Enable' }).click()
  await expect.poll(async () => (await schedule())?.isEnabled).toBe(true)
  await confirm(page, dialog.getByRole('button', { name: 'Remove …' }), 'Remove the schedule?', 'Remove')
  await expect(dialog).toContainText('This template has no schedule.')
  expect(await schedule()).toBeNull()
})

test('a schedule shows its last run', async ({ server, console: page }) => {
  test.setTimeout(240_000)
  const { id } = await created(server)
  const launch = { workingDirectory: server.work, objective: 'Look for broken links', name: 'scheduled' }
  await server.api('PUT', `agents/templates/${id}/schedule`, { cronExpression: '* * * * *', timeZone: 'Europe/Berlin', launch })
  await library(server, page)
  await page.getByRole('button', { name: 'Schedule of Nightly' }).click()
  const dialog = page.getByRole('dialog', { name: 'Schedule of Nightly' })
  await expect(dialog).toContainText('none yet')
  await dialog.getByRole('link', { name: 'its session' }).click({ timeout: 150_000 })
  await expect(page.getByRole('heading', { name: 'scheduled', level: 1 })).toBeVisible()
})

test('a template is created, changed and deactivated', { tag: '@quick' }, async ({ server, console: page }) => {
  await server.cli('skill', 'create', 'formatting', '--description', 'How we format')
  await library(server, page)
  const card = page.getByRole('region', { name: 'Templates and schedules' })
  await card.getByRole('button', { name: 'New template' }).click()
  const form = page.getByRole('dialog', { name: 'New template' })
  await form.getByRole('textbox', { name: 'Name', exact: true }).fill('Reviews')
  await form.getByRole('textbox', { name: 'Model id', exact: true }).fill('small')
  await form.getByRole('textbox', { name: 'Allowed tools', exact: true }).fill('Read\nGrep')
  const budget = form.getByRole('textbox', { name: 'Default budget cap usd' })
  await budget.fill('much')
  await form.getByRole('button', { name: 'Create the template' }).click()
  await expectViolation(budget)
  await budget.fill('2')
  await form.getByRole('button', { name: 'Create the template' }).click()
  const row = card.getByRole('listitem').filter({ hasText: 'Reviews' })
  await expect(row).toContainText('small, 0 rules for events')
  const [template] = (await server.api<{ items: { id: string }[] }>('GET', 'agents/templates')).items
  const read = () => server.api<Template>('GET', `agents/templates/${template?.id ?? ''}`)

  await row.getByRole('button', { name: 'Open Reviews' }).click()
  const dialog = page.getByRole('dialog', { name: 'Template Reviews' })
  await expect(dialog).toContainText('Read, Grep')
  await expectAccessible(page)
  // Another person changes the template while the form is open. The form does not overwrite the change.
  await dialog.getByRole('button', { name: 'Edit' }).click()
  const edit = page.getByRole('dialog', { name: 'Edit the template' })
  await edit.getByRole('textbox', { name: 'Allowed tools', exact: true }).fill('Read')
  await server.api('PUT', `agents/templates/${template?.id ?? ''}`, { description: 'Reads code' })
  await edit.getByRole('button', { name: 'Save' }).click()
  await expect(edit.getByRole('alert')).toBeVisible()
  expect(await read()).toMatchObject({ allowedTools: ['Read', 'Grep'], description: 'Reads code' })
  await edit.getByRole('button', { name: 'Cancel' }).click()
  await expect(dialog).toContainText('Reads code')
  await dialog.getByRole('button', { name: 'Edit' }).click()
  await expect(edit.getByRole('textbox', { name: 'Description', exact: true })).toHaveValue('Reads code')
  await edit.getByRole('textbox', { name: 'Allowed tools', exact: true }).fill('Read')
  await edit.getByRole('button', { name: 'Save' }).click()
  await expect(edit).toHaveCount(0)
  expect(await read()).toMatchObject({ allowedTools: ['Read'], description: 'Reads code' })

  const rules = dialog.getByRole('group', { name: 'Rules for events' })
  await rules.getByRole('button', { name: 'Add a rule' }).click()
  const rule = page.getByRole('dialog', { name: 'Add a rule' })
  await rule.getByRole('textbox', { name: 'Match field' }).fill('title')
  await rule.getByRole('textbox', { name: 'Match pattern' }).fill('*crash*')
  await rule.getByRole('textbox', { name: 'Classify as' }).fill('incident')
  await rule.getByRole('button', { name: 'Add', exact: true }).click()
  await expect(rules).toContainText('title is *crash*')
  await confirm(page, rules.getByRole('button', { name: 'Remove incident' }), 'Remove incident?', 'Remove')
  await expect(rules).toContainText('None.')
  const skills = dialog.getByRole('group', { name: 'Skills' })
  await skills.getByRole('combobox', { name: 'Skill to add' }).selectOption('formatting')
  await skills.getByRole('button', { name: 'Add the skill' }).click()
  await expect(skills.getByRole('listitem')).toContainText('formatting')
  const { classificationRules, defaultSkillIds } = await read()
  expect([classificationRules.length, defaultSkillIds.length]).toEqual([0, 1])
  await dialog.getByRole('button', { name: 'Close' }).click()

  await row.getByRole('button', { name: 'Deactivate Reviews' }).click()
  await expect(row).toContainText('inactive')
  expect((await read()).isActive).toBe(false)
  await row.getByRole('button', { name: 'Activate Reviews' }).click()
  await expect(row).not.toContainText('inactive')
})

interface Skill {
  id: string
  instructions: string
  description: string
  isActive: boolean
  toolDefinitions: { name: string }[]
}

test('a skill is created with a tool, and changed', { tag: '@quick' }, async ({ server, console: page }) => {
  await library(server, page)
  const card = page.getByRole('region', { name: 'Skills' })
  await card.getByRole('button', { name: 'New skill' }).click()
  const form = page.getByRole('dialog', { name: 'New skill' })
  await form.getByRole('textbox', { name: 'Name', exact: true }).fill('lore')
  await form.getByRole('textbox', { name: 'Description', exact: true }).fill('What we know')
  await form.getByRole('textbox', { name: 'Instructions', exact: true }).fill('Read <b>first</b>')
  await form.getByText('More options').click()
  await form.getByRole('button', { name: 'Add to Tool definitions' }).click()
  const tool = form.getByRole('group', { name: 'Tool definitions 1' })
  await tool.getByRole('textbox', { name: 'Name' }).fill('search')
  await tool.getByRole('textbox', { name: 'Description' }).fill('Finds notes')
  await tool.getByRole('textbox', { name: 'Server uri' }).fill('http://127.0.0.1:9/mcp')
  const input = tool.getByRole('textbox', { name: 'Input schema' })
  await input.fill('not a schema')
  await form.getByRole('button', { name: 'Create the skill' }).click()
  await expectViolation(input)
  await input.fill('{"type": "object"}')
  await form.getByRole('button', { name: 'Create the skill' }).click()
  const row = card.getByRole('listitem').filter({ hasText: 'lore' })
  await expect(row).toContainText('version 1, 1 tools, 0 subagents, 0 memory pills')
  const [skill] = (await server.api<{ items: { id: string }[] }>('GET', 'agents/skills')).items
  const read = () => server.api<Skill>('GET', `agents/skills/${skill?.id ?? ''}`)

  await row.getByRole('button', { name: 'Open lore' }).click()
  const dialog = page.getByRole('dialog', { name: 'Skill lore' })
  await expect(dialog.getByRole('group', { name: 'Instructions' })).toHaveText('Read <b>first</b>')
  await expectAccessible(page)
  const tools = dialog.getByRole('group', { name: 'Tools', exact: true })
  await expect(tools).toContainText('Finds notes (http://127.0.0.1:9/mcp)')
  await confirm(page, tools.getByRole('button', { name: 'Remove search' }), 'Remove search?', 'Remove')
  await expect(tools).toContainText('None.')
  expect((await read()).toolDefinitions).toEqual([])

  // Another person changes the skill while the form is open. The form does not overwrite the change.
  await dialog.getByRole('button', { name: 'Edit' }).click()
  const edit = page.getByRole('dialog', { name: 'Edit the skill' })
  await edit.getByRole('textbox', { name: 'Instructions', exact: true }).fill('Read last')
  await server.api('PUT', `agents/skills/${skill?.id ?? ''}`, { description: 'What they know' })
  await edit.getByRole('button', { name: 'Save' }).click()
  await expect(edit.getByRole('alert')).toBeVisible()
  expect((await read()).instructions).toBe('Read <b>first</b>')
  await edit.getByRole('button', { name: 'Cancel' }).click()
  await expect(dialog).toContainText('What they know')
  await dialog.getByRole('button', { name: 'Edit' }).click()
  await expect(edit.getByRole('textbox', { name: 'Description', exact: true })).toHaveValue('What they know')
  await edit.getByRole('textbox', { name: 'Instructions', exact: true }).fill('Read last')
  await edit.getByRole('button', { name: 'Save' }).click()
  await expect(dialog.getByRole('group', { name: 'Instructions' })).toHaveText('Read last')
  expect(await read()).toMatchObject({ instructions: 'Read last', description: 'What they know' })
  await dialog.getByRole('button', { name: 'Close' }).click()

  await row.getByRole('button', { name: 'Deactivate lore' }).click()
  await expect(row).toContainText('inactive')
  expect((await read()).isActive).toBe(false)
  await row.getByRole('button', { name: 'Activate lore' }).click()
  await expect(row).not.toContainText('inactive')
})

test('a late response does not close a newer form', async ({ server, console: page }) => {
  await library(server, page)
  const card = page.getByRole('region', { name: 'Skills' })
  let answer = (): void => undefined
  const isAnswered = new Promise<void>((done) => {
    answer = done
  })
  await page.route('**/api/agents/skills', async (route) => {
    if (route.request().method() === 'POST') await isAnswered
    await route.continue()
  })
  await card.getByRole('button', { name: 'New skill' }).click()
  const form = page.getByRole('dialog', { name: 'New skill' })
  await form.getByRole('textbox', { name: 'Name', exact: true }).fill('lore')
  await form.getByRole('textbox', { name: 'Description', exact: true }).fill('What we know')
  await form.getByRole('button', { name: 'Create the skill' }).click()
  await form.getByRole('button', { name: 'Cancel' }).click()
  await expect(form).toHaveCount(0)
  await card.getByRole('button', { name: 'New skill' }).click()
  await form.getByRole('textbox', { name: 'Name', exact: true }).fill('law')
  answer()
  // The list is behind the dialog.
  await expect(page.locator('li', { hasText: 'What we know' })).toHaveCount(1)
  await expect(form.getByRole('textbox', { name: 'Name', exact: true })).toHaveValue('law')
})

test('memory pills are dismissed and consolidated', async ({ server, console: page }) => {
  const skill = await server.api<Skill>('POST', 'agents/skills', { name: 'lore', description: 'What we know' })
  const { session, apiKey } = await server.api<{ session: { id: string }; apiKey: string }>('POST', 'agents/sessions', {
    objective: 'Learn',
    workingDirectory: server.work,
    adapter: 'script',
    adapterOptions: { script: { steps: [{ turn: { steps: [{ say: 'I learn' }, { wait: 600_000 }] } }] } },
    budgetCapUsd: '1',
    skillIds: [skill.id],
  })
  await expect.poll(() => server.statusOf(session.id)).toBe('Running')
  // The agent API, with the key of the agent.
  for (const content of ['Tea is hot', 'Tea is cold']) {
    const response = await fetch(`${server.url}/api/agent/skills/${skill.id}/memory-pills`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ content, category: 'Tip' }),
    })
    expect(response.status).toBe(201)
  }
  await library(server, page)
  await page.getByRole('button', { name: 'Open lore' }).click()
  const dialog = page.getByRole('dialog', { name: 'Skill lore' })
  const pills = dialog.getByRole('group', { name: 'Memory pills' })
  await expect(pills.getByRole('listitem')).toHaveCount(2)
  const cold = pills.getByRole('listitem').filter({ hasText: 'Tea is cold' })
  await confirm(page, cold.getByRole('button', { name: 'Dismiss …' }), 'Dismiss this memory pill?', 'Dismiss')
  await expect(cold).toHaveCount(0)
  await pills.getByRole('combobox', { name: 'Status of memory pills' }).selectOption('Dismissed')
  await expect(cold).toContainText('Dismissed')
  await expectAccessible(page)
  await pills.getByRole('button', { name: 'Consolidate' }).click()
  const form = page.getByRole('dialog', { name: 'Consolidate the memory pills' })
  await form.getByRole('textbox', { name: 'Working directory' }).fill(server.work)
  await form.getByRole('button', { name: 'Start the session' }).click()
  await expect(page).toHaveURL(/\/sessions\/[0-9a-f-]+$/)
  expect(page.url()).not.toContain(session.id)
})

test('a worker is removed', { tag: '@quick' }, async ({ server, console: page }) => {
  await server.api('PUT', 'workers/box', { capacity: 2, labels: { gpu: 'a100' } })
  await library(server, page)
  const row = page.getByRole('list', { name: 'Workers' }).getByRole('listitem')
  await expect(row).toContainText('0 of 2 runs')
  await expect(row).toContainText('gpu=a100')
  await row.getByRole('button', { name: 'Remove box' }).click()
  const dialog = page.getByRole('dialog', { name: 'Remove the worker box?' })
  await expectAccessible(page)
  // Nothing happens without the confirmation.
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  expect((await server.api<{ items: unknown[] }>('GET', 'workers')).items).toHaveLength(1)
  await confirm(page, row.getByRole('button', { name: 'Remove box' }), 'Remove the worker box?', 'Remove')
  await expect(row).toHaveCount(0)
  expect((await server.api<{ items: unknown[] }>('GET', 'workers')).items).toEqual([])
})

test('settings say who changes how long events are kept', async ({ server, console: page }) => {
  await page.goto(`${server.url}/settings`)
  const card = page.getByRole('region', { name: 'Server' })
  await expect(card).toContainText('90 days')
  await expect(card).toContainText('pilothouse up --retention-days')
})
