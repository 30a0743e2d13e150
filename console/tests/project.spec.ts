import { expect, isPhone, test } from './fixture'

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
  const briefing = page.getByRole('log', { name: 'Briefing' })
  const answer = async (text: string, ...resolution: string[]) => {
    const { items } = await server.json<{ items: { id: string; question?: string; input?: string }[] }>('inbox')
    const decision = items.find(({ question, input }) => `${question ?? ''} ${input ?? ''}`.includes(text))
    await server.cli('resolve', decision?.id ?? '', ...resolution)
  }
  await expect(page.getByRole('listitem').filter({ hasText: 'Builder' }).getByRole('button', { name: /^Trust \d+/ })).toBeVisible()
  await answer('Which guide', 'choose', 'setup')
  await expect(briefing).toContainText('Writer I write it.')
  await server.cli('project', 'mode', 'Shop', 'orchestrator')
  await expect(page.getByRole('radio', { name: /orchestrator/ })).toBeChecked()

  await server.kill()
  await expect(page.getByText(/Not connected since/)).toBeVisible()
  await server.up()
  await expect(page.getByText(/Not connected since/)).toHaveCount(0)
  await answer('rm -rf', 'reject', '--rationale', 'Keep it')
  await expect(briefing).toContainText('Builder The build folder is clean.')
  await expect(briefing.getByText('I write it.')).toHaveCount(1)
})

test('a project does not poll', async ({ server, console: page }) => {
  const id = await server.shop()
  await expect(page.getByRole('main').getByText('3 waiting')).toBeVisible()
  await page.goto(`${server.url}/projects/${id}`)
  await expect(page.getByRole('table')).toBeVisible()
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

test('a phone reaches every screen by touch', async ({ console: page }) => {
  test.skip(!isPhone(page), 'the bar at the bottom is for phones')
  for (const name of ['Sessions', 'Projects', 'Inbox']) {
    await page.getByRole('navigation').getByRole('link', { name }).tap()
    await expect(page.getByRole('heading', { name, level: 1 })).toBeVisible()
  }
  for (const name of ['Costs', 'Library', 'Settings']) {
    await page.getByRole('button', { name: 'More' }).tap()
    await page.getByRole('menuitem', { name }).tap()
    await expect(page.getByRole('heading', { name, level: 1 })).toBeVisible()
  }
})
