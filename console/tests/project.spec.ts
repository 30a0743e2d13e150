import { expect, expectAccessible, isPhone, test } from './fixture'

test('a brake takes two steps and shows each agent', { tag: '@quick' }, async ({ server, console: page }) => {
  const id = await server.shop()
  await expect(page.getByRole('main').getByText('3 waiting')).toBeVisible()
  await page.goto(`${server.url}/projects/${id}`)
  await page.getByRole('button', { name: 'Stop all agents of Shop' }).click()
  const dialog = page.getByRole('dialog')
  await expect(dialog.getByRole('button', { name: 'Continue' })).toBeDisabled()
  await dialog.getByRole('textbox', { name: 'Why' }).fill('Wrong branch')
  await dialog.getByRole('button', { name: 'Continue' }).click()
  await expect(dialog).toContainText('Stop project Shop, and suspend the agents?')
  await dialog.getByRole('button', { name: 'Stop now' }).click()
  await expect(dialog.getByRole('status')).toHaveText('3 of 3 agents confirmed that they do not act.')
  await expect(dialog.getByText('confirmed', { exact: true })).toHaveCount(3)
  await dialog.getByRole('button', { name: 'Close' }).click()
  const banner = page.getByRole('region', { name: 'Emergency brake' })
  await expect(banner).toContainText('Wrong branch. 3 of 3 confirmed')
  // Decisions wait for the release.
  await page.goto(server.url)
  await expect(page.getByText('suspended').first()).toBeVisible()
  await banner.getByRole('button', { name: 'Release' }).click()
  await expect(banner).toHaveCount(0)
  await expect(page.getByText('suspended')).toHaveCount(0)
})

test('a brake without sessions is shown until its release', { tag: '@quick' }, async ({ server, console: page }) => {
  const banner = page.getByRole('region', { name: 'Emergency brake' })
  await expect(page.getByRole('main').getByText('0 waiting')).toBeVisible()
  await server.cli('brake', '--all', '--reason', 'Maintenance')
  await expect(banner).toContainText('Maintenance. 0 of 0 confirmed')
  await server.cli('brake', 'release')
  await expect(banner).toHaveCount(0)
})

test('the control mode is changed, and the log has it', async ({ server, console: page }) => {
  const id = await server.shop()
  await page.goto(`${server.url}/projects/${id}`)
  await page.getByRole('radio', { name: /orchestrator/ }).click()
  await expect.poll(() => server.cli('project', 'mode', 'Shop')).toContain('orchestrator')
  await page.reload()
  await expect(page.getByRole('radio', { name: /orchestrator/ })).toBeChecked()
  await expect(page.getByRole('table')).toContainText('adaptive → orchestrator')
})

test('a project is followed live, also after a restart', async ({ server, console: page }) => {
  const id = await server.shop()
  await expect(page.getByRole('main').getByText('3 waiting')).toBeVisible()
  await page.goto(`${server.url}/projects/${id}`)
  const events = page.getByRole('log', { name: 'Live events' })
  const answer = async (text: string, ...resolution: string[]) => {
    const { items } = await server.json<{ items: { id: string; question?: string; input?: string }[] }>('inbox')
    const decision = items.find(({ question, input }) => `${question ?? ''} ${input ?? ''}`.includes(text))
    await server.cli('resolve', decision?.id ?? '', ...resolution)
  }
  await expect(page.getByRole('listitem').filter({ hasText: 'Builder' }).getByRole('button', { name: /^Trust \d+/ })).toBeVisible()
  await answer('Which guide', 'choose', 'setup')
  await expect(events).toContainText('Writer I write it.')
  await server.cli('project', 'mode', 'Shop', 'orchestrator')
  await expect(page.getByRole('radio', { name: /orchestrator/ })).toBeChecked()

  await server.kill()
  await expect(page.getByText(/Not connected since/)).toBeVisible()
  await server.up()
  await expect(page.getByText(/Not connected since/)).toHaveCount(0)
  await answer('rm -rf', 'reject', '--rationale', 'Keep it')
  await expect(events).toContainText('Builder The build folder is clean.')
  await expect(events.getByText('I write it.')).toHaveCount(1)
})

test('the briefing has what needs a person, with links', { tag: '@quick' }, async ({ server, console: page }) => {
  const id = await server.shop()
  await expect(page.getByRole('main').getByText('3 waiting')).toBeVisible()
  await page.goto(`${server.url}/projects/${id}`)
  const card = page.getByRole('region', { name: 'Briefing' })
  const attention = card.getByRole('group', { name: 'Needs you' })
  await expect(attention).toContainText('Needs you (3)')
  await expect(attention.getByRole('listitem')).toHaveCount(3)
  for (const name of ['Finished', 'At risk', 'Decided automatically']) await expect(card.getByRole('group', { name })).toBeVisible()
  await expect(card.getByRole('group', { name: 'Cost' })).toContainText('in the period')
  await expectAccessible(page)

  // A link leads to the decision on the same screen.
  const sentence = attention.getByRole('listitem').filter({ hasText: /Builder/ })
  await sentence.getByRole('link', { name: 'decision' }).click()
  const decision = page.getByRole('article').filter({ hasText: 'rm -rf build' })
  await expect(decision).toBeInViewport()
  await decision.getByRole('button', { name: /^Reject/ }).click()
  await decision.getByRole('button', { name: 'Reject', exact: true }).click()
  await expect(decision).toHaveCount(0)
  // The period is that of the choice, and ends when the briefing is read.
  const read = page.waitForRequest(/\/briefing\?since=/)
  await card.getByRole('combobox', { name: 'Period' }).selectOption('The last hour')
  const since = new URL((await read).url()).searchParams.get('since') ?? ''
  expect(Math.abs(Date.now() - Date.parse(since) - 3_600_000)).toBeLessThan(60_000)
  await expect(async () => {
    await card.getByRole('button', { name: 'Read again' }).click()
    await expect(attention).toContainText('Needs you (2)', { timeout: 2_000 })
  }).toPass()
})

test('a project does not poll', async ({ server, console: page }) => {
  const id = await server.shop()
  await expect(page.getByRole('main').getByText('3 waiting')).toBeVisible()
  await page.goto(`${server.url}/projects/${id}`)
  await expect(page.getByRole('table').getByRole('row').nth(1)).toBeVisible()
  await expect(page.getByRole('listitem').filter({ hasText: 'Builder' }).getByRole('button', { name: /^Trust/ })).toBeVisible()
  await page.waitForLoadState('networkidle')
  const reads: string[] = []
  page.on('request', (request) => reads.push(request.url()))
  // All its agents wait, so only another session changes.
  const other = await server.session('elsewhere', [{ repeat: { times: 20, steps: [{ say: 'line' }, { wait: 50 }] } }])
  await expect.poll(() => server.statusOf(other)).toBe('Idle')
  expect(reads.filter((url) => /\/(projects|trust|agents\?|decision-log)/.test(url))).toEqual([])
})

test('trust shows why it moved', async ({ server, console: page }) => {
  const id = await server.shop()
  await page.goto(`${server.url}/projects/${id}`)
  const card = page.getByRole('article').filter({ hasText: 'rm -rf build' })
  await card.getByRole('button', { name: /^Reject/ }).click()
  await card.getByRole('button', { name: 'Reject', exact: true }).click()
  await expect(card).toHaveCount(0)
  await expect(page.getByRole('table')).toContainText('human rejects tool call')
  await page.getByRole('listitem').filter({ hasText: 'Builder' }).getByRole('button', { name: /^Trust/ }).click()
  const dialog = page.getByRole('dialog', { name: 'Trust in Builder' })
  await expect(dialog).toContainText('human rejects tool call')
  await expect(dialog).toContainText(/by the table/)
  await expect(dialog.getByRole('img', { name: /^Trust from 50 to \d+ in 1 changes/ })).toBeVisible()
  await expectAccessible(page)
})

test('a brief is edited with its differences', { tag: '@quick' }, async ({ server, console: page }) => {
  test.setTimeout(180_000)
  const id = await server.project()
  await server.agent('Writer', 'docs', [{ turn: { steps: [{ wait: 600_000 }] } }])
  await page.goto(`${server.url}/projects/${id}`)
  await page.getByRole('link', { name: 'Brief', exact: true }).click()
  await expect(page.getByRole('heading', { name: 'Brief of Writer', level: 1 })).toBeVisible()
  const save = page.getByRole('button', { name: 'Save the brief' })
  await expect(save).toBeDisabled()
  await page.getByRole('textbox', { name: 'Constraints' }).fill('Write short sentences\nName no prices')
  await page.getByRole('checkbox', { name: 'The HTTP API' }).check()
  const changes = page.getByRole('group', { name: 'Compared with the current brief' })
  await expect(changes).toContainText('+     "Name no prices"')
  await expectAccessible(page)

  // The browser refuses text that is not JSON, and the server names the field of a violation.
  const protocol = page.getByRole('textbox', { name: 'Escalation protocol' })
  await protocol.fill('{"alwaysEscalate": [')
  await save.click()
  expect(await protocol.evaluate((element: HTMLTextAreaElement) => element.validationMessage)).toBe('This is not JSON.')
  await protocol.fill('{"alwaysEscalate": ["no_such_kind!"]}')
  await save.click()
  await expect(protocol).toHaveAttribute('aria-invalid', 'true')
  await expect(protocol).toHaveAccessibleDescription(/no_such_kind/)
  await protocol.fill('{"alwaysEscalate": ["deploy"]}')

  // Another person changes the brief. The form does not overwrite the change.
  const { items } = await server.api<{ items: { id: string }[] }>('GET', 'agents')
  const read = () =>
    server.api<{ brief: { description?: string; constraints: string[]; escalationProtocol?: unknown } }>('GET', `agents/${items[0]?.id ?? ''}`)
  await server.api('PATCH', `agents/${items[0]?.id ?? ''}/brief`, { description: 'Writes guides' })
  await save.click()
  await expect(page.getByRole('alert').first()).toContainText('changed since you read it')
  expect((await read()).brief.constraints).toEqual([])
  await page.getByRole('button', { name: 'Apply your changes to the new brief' }).click()
  await expect(page.getByRole('textbox', { name: 'Description' })).toHaveValue('Writes guides')
  await save.click()
  await expect(page.getByRole('heading', { name: 'Shop', level: 1 })).toBeVisible()
  const { brief } = await read()
  expect([brief.description, brief.constraints]).toEqual(['Writes guides', ['Write short sentences', 'Name no prices']])
})

test('a brief keeps its text when its project cannot be read', async ({ server, console: page }) => {
  const id = await server.project()
  const session = await server.agent('Writer', 'docs', [{ turn: { steps: [{ wait: 600_000 }] } }])
  await expect.poll(() => server.statusOf(session)).toBe('Running')
  await page.goto(`${server.url}/projects/${id}`)
  await page.getByRole('link', { name: 'Brief', exact: true }).click()
  const constraints = page.getByRole('textbox', { name: 'Constraints' })
  await constraints.fill('Name no prices')
  let isBroken = true
  await page.route('**/api/agents?*', (route) => (isBroken ? route.fulfill({ status: 503, json: {} }) : route.continue()))
  const failed = page.waitForResponse((response) => response.status() === 503)
  // The page reads the agents again after an event of one of them.
  await server.api('POST', `agents/sessions/${session}/pause`)
  await failed
  isBroken = false
  await expect(constraints).toHaveValue('Name no prices')
  await page.getByRole('button', { name: 'Save the brief' }).click()
  await expect(page.getByRole('heading', { name: 'Shop', level: 1 })).toBeVisible()
})

test('an agent is created from a template', async ({ server, console: page }) => {
  const id = await server.project()
  const template = { name: 'Scripts', modelId: 'small', adapter: 'script', allowedTools: ['Read'], defaultBudgetCapUsd: '2' }
  await server.api('POST', 'agents/templates', template)
  await page.goto(`${server.url}/projects/${id}`)
  await page.getByRole('link', { name: 'New agent' }).click()
  await page.getByRole('combobox', { name: 'Template' }).selectOption('Scripts')
  await expect(page.getByRole('group', { name: 'Compared with the template' })).toContainText('-   "modelPreference": "small"')
  await page.getByRole('textbox', { name: 'What to do' }).fill('Write the guide')
  await page.getByRole('textbox', { name: 'Directory' }).fill(server.work)
  await page.getByRole('textbox', { name: 'Role' }).fill('Writer')
  await page.getByRole('combobox', { name: 'Workstream' }).selectOption('docs')
  await page.getByRole('button', { name: 'Create the agent' }).click()
  await expect(page.getByRole('listitem').filter({ hasText: 'Writer' }).getByRole('link', { name: 'Writer' })).toBeVisible()
})

test('the map links artifacts to their sources', { tag: '@quick' }, async ({ server, console: page }) => {
  const id = await server.project()
  await server.agent('Writer', 'docs', [{ turn: { steps: [{ wait: 600_000 }] } }])
  const store = (path: string, workstream: string, sourceArtifactIds: string[]) =>
    server.api<{ artifactId: string }>('POST', 'artifacts', { path, kind: 'document', workstream, text: path, sourceArtifactIds })
  const { artifactId } = await store('src/price.ts', 'api', [])
  await store('docs/prices.md', 'docs', [artifactId])
  await page.goto(`${server.url}/projects/${id}/map`)
  const docs = page.getByRole('region', { name: 'Workstream Guides' })
  await expect(docs).toContainText('Writer')
  await expect(docs.getByRole('link', { name: /prices.md/ })).toContainText('made from price.ts')
  await expect(page.locator('path[data-line="price.ts → prices.md"]')).toHaveCount(1)
  await expect(page.getByRole('region', { name: 'Workstream The HTTP API' })).toContainText('No agent')
  await expectAccessible(page)
  await docs.getByRole('link', { name: /prices.md/ }).click()
  await expect(page.getByRole('group', { name: 'Content of docs/prices.md' })).toBeVisible()
})

test('the palette finds a session by keyboard', async ({ server, console: page }) => {
  test.skip(isPhone(page), 'a phone has no keyboard')
  await server.session('needle', [{ turn: { steps: [{ wait: 60_000 }] } }])
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox').fill('needle')
  await expect(page.getByRole('option', { name: /needle/ })).toBeVisible()
  await page.keyboard.press('Enter')
  await expect(page.getByRole('heading', { name: 'needle', level: 1 })).toBeVisible()
  await page.keyboard.press('g')
  await page.keyboard.press('c')
  await expect(page.getByRole('heading', { name: 'Costs', level: 1 })).toBeVisible()
})

test('the palette finds a session by a word of its objective', async ({ server, console: page }) => {
  test.skip(isPhone(page), 'a phone has no keyboard')
  // Its objective is "Do the work of plain".
  await server.session('plain', [{ turn: { steps: [{ wait: 60_000 }] } }])
  await page.keyboard.press('Control+k')
  const found = page.getByRole('group', { name: 'Sessions with these words' }).getByRole('option', { name: /plain/ })
  await page.getByRole('combobox').fill('work')
  await expect(found).toBeVisible()
  // What the palette itself has comes first.
  await expect(page.getByRole('option').last()).toHaveText(/plain/)
  await page.getByRole('combobox').fill('workbench')
  await expect(found).toHaveCount(0)
})

test('the palette offers the actions of a screen', async ({ server, console: page }) => {
  test.skip(isPhone(page), 'a phone has no keyboard')
  const id = await server.session('needle', [{ turn: { steps: [{ wait: 600_000 }] } }])
  await page.goto(`${server.url}/sessions/${id}`)
  await expect(page.getByRole('heading', { name: 'needle', level: 1 })).toBeVisible()
  await expect(page.getByRole('button', { name: 'Pause', exact: true })).toBeVisible()
  await page.keyboard.press('Control+k')
  const group = page.getByRole('group', { name: 'On this screen' })
  for (const name of ['Write to the agent s', 'Pause needle p', 'Interrupt needle i', 'Cancel needle']) {
    await expect(group.getByRole('option', { name })).toBeVisible()
  }
  await page.getByRole('combobox').fill('change the cap')
  await page.keyboard.press('Enter')
  await expect(page.getByRole('dialog', { name: 'Cap of the session' })).toBeVisible()
  await page.keyboard.press('Escape')
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox').fill('pause needle')
  await page.keyboard.press('Enter')
  await expect.poll(() => server.statusOf(id)).toBe('Paused')
})

test('a phone reaches every screen by touch', async ({ console: page }) => {
  test.skip(!isPhone(page), 'the bar at the bottom is for phones')
  for (const name of ['Sessions', 'Projects', 'Inbox']) {
    await page.getByRole('navigation').getByRole('link', { name }).tap()
    await expect(page.getByRole('heading', { name, level: 1 })).toBeVisible()
  }
  for (const name of ['Costs', 'Library', 'Dead letters', 'Settings']) {
    await page.getByRole('button', { name: 'More' }).tap()
    await page.getByRole('menuitem', { name }).tap()
    await expect(page.getByRole('heading', { name, level: 1 })).toBeVisible()
  }
})
