import { expect, isPhone, open, test } from './fixture'

test('a first load reads nothing twice', { tag: '@quick' }, async ({ server, console: page }) => {
  test.setTimeout(240_000)
  const project = await server.shop()
  const { id: issue } = await server.issue('Units differ')
  const session = await server.session('busy', [{ turn: { steps: [{ say: 'Busy' }, { wait: 600_000 }] } }])
  await expect(page.getByRole('main').getByText('3 waiting')).toBeVisible()
  const screens: [string, string | RegExp][] = [
    ['/', '3 waiting'],
    ['/sessions', 'busy'],
    [`/sessions/${session}`, 'Busy'],
    ['/projects', 'Shop'],
    [`/projects/${project}`, /verdict|tool approval|Bash/],
    [`/projects/${project}/artifacts`, 'No agent has reported an artifact yet.'],
    [`/projects/${project}/coherence?issue=${issue}`, 'local reported it.'],
  ]
  let reads: string[] = []
  let last = Date.now()
  page.on('request', (request) => {
    if (request.method() !== 'GET' || !request.url().includes('/api/')) return
    reads.push(request.url())
    last = Date.now()
  })
  // Longer than the page waits until it reads a list again.
  const quiet = () => expect.poll(() => Date.now() - last).toBeGreaterThan(1_500)
  for (const [path, text] of screens) {
    await quiet()
    reads = []
    await open(page, path)
    await expect(page.getByRole('main').getByText(text).first()).toBeVisible()
    await quiet()
    expect(reads.length, path).toBeGreaterThan(0)
    expect(
      reads.filter((url, at) => reads.indexOf(url) !== at),
      path,
    ).toEqual([])
  }
})

test('a list contains changes that precede its stream', async ({ server, console: page }) => {
  const project = await server.project()
  let hold: (() => void) | undefined
  const isHeld = new Promise<void>((done) => {
    void page.routeWebSocket(/\/ws\/projects\//, async (socket) => {
      await new Promise<void>((resume) => {
        hold = resume
        done()
      })
      socket.connectToServer()
    })
  })
  await open(page, `/projects/${project}/artifacts`)
  await isHeld
  await server.api('POST', 'artifacts', { path: 'docs/late.md', kind: 'document', workstream: 'docs', text: 'late' })
  hold?.()
  await expect(page.getByRole('main')).toContainText('docs/late.md')
})

test('the decision log is read page by page', async ({ server, console: page }) => {
  const project = await server.project()
  for (let turn = 0; turn < 27; turn++) {
    for (const mode of ['orchestrator', 'adaptive']) await server.api('PUT', 'control-mode', { projectId: project, mode })
  }
  await open(page, `/projects/${project}`)
  const rows = page.getByRole('table').getByRole('row')
  await expect(rows).toHaveCount(51)
  await page.getByRole('button', { name: 'Show earlier decisions' }).click()
  await expect(rows).toHaveCount(55)
  await expect(page.getByRole('button', { name: 'Show earlier decisions' })).toHaveCount(0)
})

test('an open issue comes first on a phone', async ({ server, console: page }) => {
  const project = await server.project()
  const { id: issue } = await server.issue('Units differ')
  await open(page, `/projects/${project}/coherence?issue=${issue}`)
  const card = page.getByRole('region', { name: 'Units differ' })
  const score = page.getByRole('region', { name: 'Score' })
  await expect(card).toContainText('local reported it.')
  if (!isPhone(page)) {
    await expect(score).toBeVisible()
    return
  }
  await expect(score).toBeHidden()
  await expect(page.getByRole('combobox', { name: 'Severity' })).toBeHidden()
  await page.getByRole('button', { name: 'All issues' }).tap()
  await expect(score).toBeVisible()
  await page.getByRole('button', { name: 'Report an issue' }).tap()
  const form = page.getByRole('dialog', { name: 'Report an issue' })
  for (const label of ['Category', 'Severity']) await expect(form.getByText(label, { exact: true })).toBeVisible()
})
