import { mkdirSync } from 'node:fs'
import type { Page } from '@playwright/test'
import { expect, expectAccessible, isPhone, open, press, test } from './fixture'
import type { Server } from './server'

const SHOTS = process.env.PILOTHOUSE_SCREENSHOTS
const BUSY = [{ turn: { steps: [{ say: 'Busy' }, { wait: 600_000 }] } }]

for (const theme of ['light', 'dark'] as const) {
  const tag = theme === 'light' ? ['@quick'] : []
  test(`every screen is accessible in ${theme}`, { tag }, async ({ server, console: page }) => screens(server, page, theme))
}

/** Opens each screen: it must be accessible and must not scroll sideways. Takes pictures if a folder for them is given. */
async function screens(server: Server, page: Page, theme: 'light' | 'dark'): Promise<void> {
  test.setTimeout(300_000)
  const project = await server.shop()
  const store = (artifact: Record<string, unknown>) => server.api<{ artifactId: string }>('POST', 'artifacts', artifact)
  const price = await store({ path: 'src/price.ts', kind: 'code', workstream: 'api', text: 'export const cents = 100\n' })
  const guide = { path: 'docs/tea.md', kind: 'document', workstream: 'docs', tags: ['guide'], text: '# Tea\n\nTea costs **two** dollars.' }
  const { artifactId } = await store({ ...guide, sourceArtifactIds: [price.artifactId] })
  const { id: issue } = await server.issue('Units differ')
  await server.cli('skill', 'create', 'formatting', '--description', 'How we format')
  const tour = await server.session(
    'tour',
    [
      {
        turn: {
          steps: [
            { say: 'I look at the **orders** first:\n\n- `src/orders.py`\n- <b>not bold</b>' },
            { tool: { name: 'Bash', input: { command: 'ls src' }, result: 'orders.py' } },
            {
              tool: {
                name: 'Edit',
                input: { file_path: 'src/orders.py', old_string: 'total = 0\nfor x in y:\n', new_string: 'total = sum(y)\n' },
                result: 'ok',
              },
            },
            {
              tasks: [
                { id: '1', subject: 'Read the orders', status: 'Completed' },
                { id: '2', subject: 'Add them up', activeForm: 'Adding them up', status: 'InProgress' },
                { id: '3', subject: 'Write the report', status: 'Pending' },
              ],
            },
            {
              usage: {
                costUsd: '1.2345',
                tokens: { inputTokens: 91_200, outputTokens: 5_400 },
                context: { tokens: 96_600, limit: 200_000 },
              },
            },
            { question: { id: 'q1', questions: [{ question: 'Which currency?', options: [{ label: 'Euro' }, { label: 'Dollar' }] }] } },
            { say: 'Done.' },
          ],
        },
      },
    ],
    '--budget',
    '5',
  )
  await server.cli('queue', 'add', tour, 'Then update the changelog')
  await expect(page.getByRole('main').getByText('4 waiting')).toBeVisible()
  const shown: [string, string, string | RegExp][] = [
    ['inbox', '/', 'Which currency?'],
    ['sessions', '/sessions', /Needs you \(/],
    ['session', `/sessions/${tour}`, 'Which currency?'],
    ['projects', '/projects', 'Shop'],
    ['project', `/projects/${project}`, 'Decision log'],
    ['map', `/projects/${project}/map`, 'price.ts'],
    ['brief', `/projects/${project}/brief`, 'Readable workstreams'],
    ['artifacts', `/projects/${project}/artifacts`, 'src/price.ts'],
    ['artifact', `/projects/${project}/artifacts?artifact=${artifactId}`, 'Tea costs'],
    ['coherence', `/projects/${project}/coherence`, 'Units differ'],
    ['issue', `/projects/${project}/coherence?issue=${issue}`, 'local reported it.'],
    ['knowledge', `/projects/${project}/knowledge?query=order`, 'Workstreams that it may read'],
    ['costs', '/costs', /in 4 sessions/],
    ['library', '/library', 'formatting'],
    ['dead-letters', '/dead-letters', 'No message has failed.'],
    ['settings', '/settings', 'local'],
  ]
  const width = isPhone(page) ? 'phone' : 'desktop'
  if (SHOTS !== undefined) mkdirSync(SHOTS, { recursive: true })
  await page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' })
  for (const [name, path, text] of shown) {
    await open(page, path)
    await expect(page.getByRole('main').getByText(text).first()).toBeVisible()
    await expect(page.getByText(/^Loading …$/)).toHaveCount(0)
    await expectAccessible(page)
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)
    expect(overflow, `${name} does not scroll sideways`).toBeLessThanOrEqual(0)
    if (SHOTS !== undefined) await page.screenshot({ path: `${SHOTS}/${width}-${theme}-${name}.png` })
  }
  await open(page, `/sessions/${tour}`)
  for (const tab of ['Conversation', 'Tool calls', 'About']) {
    await page.getByRole('tab', { name: tab }).click()
    await expect(page.getByRole('tabpanel')).not.toBeEmpty()
    if (tab === 'Conversation') await expect(page.getByText('<b>not bold</b>')).toBeVisible()
    if (tab === 'Tool calls') {
      await page.getByRole('tabpanel').getByText('Edit', { exact: true }).click()
      await expect(page.getByRole('group', { name: 'Change of src/orders.py' })).toContainText('+ total = sum(y)')
    }
    await expectAccessible(page)
    if (SHOTS !== undefined) await page.screenshot({ path: `${SHOTS}/${width}-${theme}-session-${tab.replace(' ', '-').toLowerCase()}.png` })
  }
}

test('dialogs are accessible and close by Escape', async ({ console: page }) => {
  const width = isPhone(page) ? 'phone' : 'desktop'
  const dialogs: [string, string][] = [
    ['New session', 'c'],
    ['Emergency brake', '!'],
    ['Keyboard', '?'],
    ['Find', 'Control+k'],
  ]
  for (const [name, key] of dialogs) {
    await page.keyboard.press(key)
    const dialog = page.getByRole('dialog', { name })
    await expect(dialog).toBeVisible()
    await expectAccessible(page)
    if (SHOTS !== undefined) await page.screenshot({ path: `${SHOTS}/${width}-light-dialog-${name.replace(' ', '-')}.png` })
    await page.keyboard.press('Escape')
    await expect(dialog).toHaveCount(0)
  }
})

test('a hidden field with an error is shown', { tag: '@quick' }, async ({ server, console: page }) => {
  await page.getByRole('button', { name: 'New session' }).click()
  const form = page.getByRole('dialog', { name: 'New session' })
  await form.getByRole('textbox', { name: 'What to do' }).fill('Add up the invoices')
  await form.getByRole('textbox', { name: 'Directory' }).fill(server.work)
  await form.getByText('More options').click()
  const field = form.getByRole('textbox', { name: 'Adapter options' })
  await field.fill('{')
  await form.getByText('More options').click()
  await expect(field).toBeHidden()
  await form.getByRole('button', { name: 'Start' }).click()
  await expect(field).toBeFocused()
})

test('the login is accessible', { tag: '@quick' }, async ({ server, page }) => {
  const width = isPhone(page) ? 'phone' : 'desktop'
  for (const theme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' })
    await page.goto(`${server.url}/login`)
    const code = page.getByRole('textbox', { name: 'Link or code' })
    await expect(code).toBeVisible()
    await expect(page.getByRole('button', { name: 'Log in' })).toBeDisabled()
    await expectAccessible(page)
    if (SHOTS !== undefined) await page.screenshot({ path: `${SHOTS}/${width}-${theme}-login.png` })
    await code.fill('wrong')
    await code.press('Enter')
    await expect(page.getByRole('alert')).toBeVisible()
    await expectAccessible(page)
    expect(await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)).toBeLessThanOrEqual(0)
  }
  // The whole link is accepted as well.
  await page.getByRole('textbox', { name: 'Link or code' }).fill(server.link)
  await page.getByRole('button', { name: 'Log in' }).click()
  await expect(page.getByRole('heading', { name: 'Inbox', level: 1 })).toBeVisible()
})

for (const theme of ['light', 'dark'] as const) {
  test(`dialogs for sessions are accessible in ${theme}`, async ({ server, console: page }) => {
    const ids = [await server.session('alpha', BUSY), await server.session('beta', BUSY)]
    for (const id of ids) await expect.poll(() => server.statusOf(id)).toBe('Running')
    await page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' })
    const width = isPhone(page) ? 'phone' : 'desktop'
    const button = (name: string) => page.getByRole('main').getByRole('button', { name, exact: true })
    /** Checks a dialog, and closes it with a button of its own. */
    const check = async (title: string, opener: string, closer: string) => {
      await press(button(opener))
      const dialog = page.getByRole('dialog', { name: title })
      await expect(dialog).toBeVisible()
      await expectAccessible(page)
      if (SHOTS !== undefined) {
        await page.screenshot({ path: `${SHOTS}/${width}-${theme}-dialog-${title.replaceAll(/\W+/g, '-').toLowerCase()}.png` })
      }
      await press(dialog.getByRole('button', { name: closer, exact: true }))
      await expect(dialog).toHaveCount(0)
    }
    await open(page, '/sessions')
    await check('Cancel 2 sessions', 'Cancel 2', 'Cancel')
    await check('Pause 2 sessions', 'Pause 2', 'Cancel')
    await open(page, `/sessions/${ids[0] ?? ''}`)
    await check('Cancel alpha?', 'Cancel', 'Keep it')
    await check('Cap of the session', 'Change cap', 'Cancel')
    await server.cli('brake', '--all', '--reason', 'Look at the logs')
    await expect(page.getByRole('region', { name: 'Emergency brake' })).toContainText('2 of 2 confirmed')
    await check('Progress of the brake', 'Progress', 'Close')
  })
}

test('dead letters are sent again', { tag: '@quick' }, async ({ server, console: page }) => {
  await page.goto(`${server.url}/dead-letters`)
  await expect(page.getByText('No message has failed.')).toBeVisible()
  await server.kill()
  await server.addDeadLetter('events.fifo', '{"not": "an <b>envelope</b>"}', 'it cannot be read')
  await server.up()
  await page.reload()
  const queue = page.getByRole('region', { name: 'events.fifo (1)' })
  await expect(queue).toContainText('it cannot be read')
  await queue.getByText('Beginning of the message').click()
  await expect(queue.getByRole('group', { name: /^Beginning of/ })).toHaveText('{"not": "an <b>envelope</b>"}')
  await expectAccessible(page)
  await queue.getByRole('button', { name: 'Send again …' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Send again' }).click()
  await expect(queue).toHaveCount(0)
  await expect(page.getByRole('row', { name: /events.fifo local 1/ })).toBeVisible()
})
