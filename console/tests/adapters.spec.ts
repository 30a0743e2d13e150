import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Page } from '@playwright/test'
import { expect, press, test as base } from './fixture'
import { KEY, Model, type Reply } from './model'
import { PROGRAMS, type Server } from './server'

/** Claude Code, if `tests/agents` has installed it. */
const CLAUDE = process.env.PILOTHOUSE_CLAUDE ?? resolve(PROGRAMS, '../agents/node_modules/.bin/claude')
const TOUR = resolve(import.meta.dirname, '../../tests/fixtures/transcripts/claude-sdk-full-tour.jsonl')

const option = (label: string) => ({ label, description: `The tea is ${label.toLowerCase()}` })
const QUESTION = { question: 'Which tea?', header: 'Tea', options: [option('Green'), option('Black')], multiSelect: false }
const ASK = { tools: [{ name: 'AskUserQuestion', input: { questions: [QUESTION] } }] }
const OUTPUT = { allTestsPassing: true, filesChanged: 1, outputLineCount: 1 }

/** The native agent asks, edits a file, and submits its output. */
const NATIVE: readonly Reply[] = [
  ASK,
  { tools: [{ name: 'edit', input: { path: 'tea.txt', edits: [{ old_text: 'a cup of tea', new_text: 'a cup of green tea' }] } }] },
  { tools: [{ name: 'submit_output', input: OUTPUT }] },
  { text: 'The tea is green now.' },
]

/** The same for Claude Code, whose tools have other names. It changes only files that it has read. */
function claude(file: string): readonly Reply[] {
  const change = { file_path: file, old_string: 'a cup of tea', new_string: 'a cup of green tea' }
  return [
    ASK,
    { tools: [{ name: 'Read', input: { file_path: file } }] },
    { tools: [{ name: 'Edit', input: change }] },
    { tools: [{ name: 'mcp__pilothouse__submit_output', input: OUTPUT }] },
    { text: 'The tea is green now.' },
  ]
}

/** A server whose native agent calls the model. */
const test = base.extend<{ model: Model }>({
  // eslint-disable-next-line no-empty-pattern
  model: async ({}, use) => {
    const model = await Model.start('edit', NATIVE)
    await use(model)
    await model.stop()
  },
  environment: async ({ model }, use) => {
    await use({ ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: KEY })
  },
})

const card = (page: Page, text: string | RegExp) => page.getByRole('article').filter({ hasText: text })
const decide = (page: Page, text: string | RegExp, name: string | RegExp) => press(card(page, text).getByRole('button', { name }))

async function brew(server: Server): Promise<string> {
  const file = join(server.work, 'tea.txt')
  await writeFile(file, 'I want a cup of tea.\n')
  return file
}

async function answer(page: Page): Promise<void> {
  await decide(page, 'Which tea?', /^Green/)
}

/** Reads the changes of the output, approves it, and checks that the file has them. */
async function review(page: Page, file: string): Promise<void> {
  const output = /1 files? changed/
  await press(card(page, output).getByRole('button', { name: 'Review the changes' }))
  await expect(card(page, output)).toContainText('+ a cup of green tea')
  await decide(page, output, /^Approve/)
  await expect(page.getByRole('main').getByText('Completed', { exact: true })).toBeVisible()
  expect(await readFile(file, 'utf8')).toBe('I want a cup of green tea.\n')
}

test('the native agent asks, edits, and is approved', async ({ server, model, console: page }) => {
  const file = await brew(server)
  await press(page.getByRole('button', { name: 'New session' }))
  const form = page.getByRole('dialog', { name: 'New session' })
  await form.getByRole('textbox', { name: 'What to do' }).fill('Choose a tea')
  await form.getByRole('textbox', { name: 'Directory' }).fill(server.work)
  await form.getByRole('combobox', { name: 'Agent' }).selectOption('native')
  await press(form.getByRole('button', { name: 'Start' }))
  await answer(page)
  await expect(page.getByRole('region', { name: 'Timeline' })).toContainText('The tea is green now.')
  await review(page, file)
  expect(await model.refusals()).toEqual([])
})

base('Claude Code asks, gets a permission, edits, and is approved', async ({ server, console: page }) => {
  base.skip(!existsSync(CLAUDE), 'Claude Code is not installed; tests/agents installs it')
  base.slow()
  const file = await brew(server)
  const home = join(server.folder, 'home')
  await mkdir(home)
  const model = await Model.start('Edit', claude(file))
  try {
    const { session } = await server.api<{ session: { id: string } }>('POST', 'agents/sessions', {
      ...{ objective: 'Choose a tea', workingDirectory: server.work, budgetCapUsd: '5' },
      ...{ adapter: 'claude', modelId: 'claude-sonnet-4-5' },
      adapterOptions: {
        binary: CLAUDE,
        env: {
          ...{ HOME: home, ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: KEY },
          CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        },
      },
    })
    await page.goto(`${server.url}/sessions/${session.id}`)
    await answer(page)
    const permission = 'May the agent use Edit'
    await expect(card(page, permission)).toContainText('+ a cup of green tea')
    await decide(page, permission, /^Approve/)
    await review(page, file)
    expect(await model.refusals()).toEqual([])
  } finally {
    await model.stop()
  }
})

base('a recorded run of Claude Code is followed to its end', async ({ server, console: page }) => {
  const run = ['run', 'Tour', '--name', 'tour', '--recording', TOUR, '--option', 'speed=0', '--detach']
  const { session } = await server.json<{ session: { id: string } }>(...run)
  await page.goto(`${server.url}/sessions/${session.id}`)
  const timeline = page.getByRole('region', { name: 'Timeline' })
  await decide(page, 'Which colour?', /^Blue/)
  const plan = 'Plan, version 1'
  await expect(card(page, plan).getByRole('group', { name: 'Plan' })).toHaveText('1. write c.txt 2. done')
  await decide(page, plan, /^Approve/)
  // The recorded person wrote a message while the agent slept, so the playback waits for one there.
  const calls = `agents/sessions/${session.id}/tool-calls?limit=100`
  const isAsleep = async () => {
    const { items } = await server.api<{ items: { status: string; input: unknown }[] }>('GET', calls)
    return items.some(({ status, input }) => status === 'Pending' && JSON.stringify(input).includes('sleep 2'))
  }
  await expect.poll(isAsleep).toBe(true)
  const message = page.getByRole('form', { name: 'Message to the agent' })
  await message.getByRole('textbox', { name: 'Message to the agent' }).fill('When you are done, say so.')
  await press(message.getByRole('button', { name: /^Send/ }))
  await expect(timeline).toContainText('All done.')
  await expect.poll(() => server.statusOf(session.id)).toBe('Idle')
  await press(page.getByRole('tab', { name: 'Tool calls' }))
  await press(page.getByRole('tabpanel').getByText('Write', { exact: true }))
  await expect(page.getByRole('group', { name: 'Change of /workspace/project/c.txt' })).toContainText('+ made by fake')
})
