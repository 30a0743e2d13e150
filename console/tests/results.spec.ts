import { readFile } from 'node:fs/promises'
import type { Page } from '@playwright/test'
import { expect, expectAccessible, isPhone, test } from './fixture'
import type { Server } from './server'

interface Stored {
  artifactId: string
  version: number
}

/** Stores a version of an artifact as a person. */
async function store(server: Server, path: string, text: string, more: Record<string, unknown> = {}): Promise<Stored> {
  return server.api<Stored>('POST', 'artifacts', { path, kind: 'document', workstream: 'docs', text, ...more })
}

function entry(page: Page, name: string | RegExp) {
  return page.getByRole('main').getByRole('listitem').getByRole('button', { name })
}

/** On a phone, an open entry hides the list with its head and filters. */
async function leaveEntry(page: Page, back: string): Promise<void> {
  if (isPhone(page)) await page.getByRole('button', { name: back }).tap()
}

test('an artifact is read, compared and accepted', { tag: '@quick' }, async ({ server, console: page }) => {
  const id = await server.project()
  const { artifactId: source } = await store(server, 'src/price.ts', 'export const cents = 1\n', { kind: 'code', workstream: 'api' })
  await store(server, 'docs/tea.md', '# Tea\n\nIt **costs** <b>one</b> dollar.\n')
  await store(server, 'docs/tea.md', '# Tea\n\nIt costs two dollars.\n', { sourceArtifactIds: [source] })
  await page.goto(`${server.url}/projects/${id}`)
  await page.getByRole('navigation', { name: 'Project' }).getByRole('link', { name: 'Artifacts' }).click()
  await entry(page, /docs\/tea.md/).click()
  const card = page.getByRole('region', { name: 'tea.md' })
  await expect(card.getByRole('group', { name: 'Content of docs/tea.md' })).toContainText('two dollars')
  await expect(card).toContainText('local (a person)')

  await card.getByRole('combobox', { name: 'Compare with' }).selectOption('1')
  const changes = card.getByRole('group', { name: 'Changes from version 1 to 2' })
  await expect(changes).toContainText('+ It costs two dollars.')
  await expect(changes).toContainText('- It **costs** <b>one</b> dollar.')
  await card.getByRole('combobox', { name: 'Version', exact: true }).selectOption('1')
  await expect(card.getByRole('group', { name: 'Content of docs/tea.md' })).toContainText('It costs <b>one</b> dollar.')
  await expect(card.getByRole('button', { name: /^Accept/ })).toHaveCount(0)
  await card.getByRole('button', { name: 'Show version 2' }).click()

  await card.getByRole('button', { name: 'Accept version 2' }).click()
  await expect(card).toContainText('local accepted it')
  await expect.poll(() => server.cli('artifacts', 'ls', '--state', 'approved')).toContain('docs/tea.md')
  await card.getByRole('link', { name: 'price.ts (api, version 1)' }).click()
  await expect(page.getByRole('group', { name: 'Content of src/price.ts' })).toHaveText(/export const cents = 1/)
})

test('a review of an older version is refused', async ({ server, console: page }) => {
  const id = await server.project()
  const { artifactId } = await store(server, 'docs/tea.md', 'one')
  await page.goto(`${server.url}/projects/${id}/artifacts?artifact=${artifactId}`)
  const card = page.getByRole('region', { name: 'tea.md' })
  await expect(card.getByRole('group', { name: 'Content of docs/tea.md' })).toHaveText('one')
  await store(server, 'docs/tea.md', 'two')
  await card.getByRole('button', { name: 'Accept version 1' }).click()
  await expect(card.getByRole('alert')).toContainText('version 2')
  await card.getByRole('button', { name: 'Show version 2' }).click()
  await expect(card.getByRole('group', { name: 'Content of docs/tea.md' })).toHaveText('two')
  await card.getByRole('button', { name: /^Reject/ }).click()
  await card.getByRole('textbox', { name: 'Why? (required)' }).fill('The price is missing')
  await card.getByRole('button', { name: 'Reject version 2' }).click()
  await expect(card).toContainText('The price is missing')
  await expect.poll(() => server.cli('artifacts', 'show', 'docs/tea.md')).toContain('The price is missing')
})

test('a binary artifact is downloaded', async ({ server, console: page }) => {
  const id = await server.project()
  const bytes = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 255, 254])
  const body = { path: 'docs/logo.png', kind: 'design', workstream: 'docs', base64: bytes.toString('base64'), mimeType: 'image/png' }
  const { artifactId } = await server.api<Stored>('POST', 'artifacts', body)
  await page.goto(`${server.url}/projects/${id}/artifacts?artifact=${artifactId}`)
  await expect(page.getByText('The content is not text.')).toBeVisible()
  const saved = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Download' }).click()
  expect((await saved).suggestedFilename()).toBe('logo.png')
  expect(await readFile(await (await saved).path())).toEqual(bytes)
})

test('artifacts are filtered, and found by keyboard', async ({ server, console: page }) => {
  test.skip(isPhone(page), 'a phone has no keyboard')
  const id = await server.project()
  await store(server, 'docs/b.md', 'b')
  await store(server, 'docs/a.md', 'a')
  await store(server, 'src/a.ts', 'a', { kind: 'code', workstream: 'api' })
  await page.goto(`${server.url}/projects/${id}/artifacts`)
  await expect(page.getByRole('region', { name: 'Workstream api' })).toContainText('src/a.ts')
  await page.getByRole('combobox', { name: 'Workstream' }).selectOption('docs')
  await expect(entry(page, /src\/a.ts/)).toHaveCount(0)
  await expect(entry(page, /docs\/a.md/)).toHaveAttribute('aria-current', 'true')
  await page.getByRole('heading', { level: 1 }).click()
  await page.keyboard.press('j')
  await expect(entry(page, /docs\/b.md/)).toHaveAttribute('aria-current', 'true')
  // The key is one of the artifact's, so it works once that is shown.
  await expect(page.getByRole('region', { name: 'b.md' }).getByRole('button', { name: /^Accept/ })).toBeVisible()
  await page.keyboard.press('a')
  await expect(page.getByRole('region', { name: 'b.md' })).toContainText('local accepted it')
  await page.getByRole('combobox', { name: 'Review' }).selectOption('pending')
  await expect(entry(page, /docs\/b.md/)).toHaveCount(0)
  await page.getByRole('combobox', { name: 'Kind' }).selectOption('test')
  await expect(page.getByText('No artifact matches the filters.')).toBeVisible()
})

test('an issue is reported, confirmed and resolved', { tag: '@quick' }, async ({ server, console: page }) => {
  const id = await server.project()
  await store(server, 'docs/tea.md', 'one')
  await page.goto(`${server.url}/projects/${id}/coherence`)
  await expect(page.getByText('No coherence issue has been found yet.')).toBeVisible()
  await page.getByRole('button', { name: 'Report an issue' }).click()
  const form = page.getByRole('dialog', { name: 'Report an issue' })
  await form.getByRole('textbox', { name: 'Title' }).fill('Units differ')
  await form.getByRole('textbox', { name: 'Description' }).fill('The guide says cents.')
  await form.getByRole('combobox', { name: 'Severity' }).selectOption('high')
  await form.getByRole('checkbox', { name: 'tea.md (docs)' }).check()
  await expectAccessible(page)
  await form.getByRole('button', { name: 'Report' }).click()
  const card = page.getByRole('region', { name: 'Units differ' })
  await expect(card).toContainText('local reported it.')
  await expect(card.getByRole('link', { name: 'tea.md (docs, version 1)' })).toBeVisible()
  const score = page.getByRole('region', { name: 'Score' })
  await leaveEntry(page, 'All issues')
  await expect(score).toContainText('92 of 100')
  await expect(score).toContainText('Open: 1 high.')
  await entry(page, /Units differ/).click()
  await card.getByRole('button', { name: /^Confirm/ }).click()
  await expect(card).toContainText('local confirmed that it is real')
  await expect(card.getByRole('button', { name: /^Dismiss/ })).toHaveCount(0)
  await card.getByRole('button', { name: /^Resolve/ }).click()
  await card.getByRole('textbox').fill('The guide says dollars now')
  await card.getByRole('button', { name: 'Resolve', exact: true }).click()
  await expect(card).toContainText('The guide says dollars now')
  await leaveEntry(page, 'All issues')
  await expect(score).toContainText('100 of 100')
})

test('a refusal to settle an issue is shown', async ({ server, console: page }) => {
  const id = await server.project()
  const { id: issue } = await server.issue('Units differ')
  await page.goto(`${server.url}/projects/${id}/coherence?issue=${issue}`)
  const card = page.getByRole('region', { name: 'Units differ' })
  await card.getByRole('button', { name: /^Dismiss/ }).click()
  await server.api('POST', `coherence/${issue}/confirm`)
  await card.getByRole('textbox', { name: /Why is it not real/ }).fill('On purpose')
  await card.getByRole('button', { name: 'Dismiss', exact: true }).click()
  await expect(card.getByRole('alert')).toContainText(/confirmed/)
  await expect(card).toContainText('local confirmed that it is real')
})

test('an audit names the similarity of texts', async ({ server, console: page }) => {
  const id = await server.project()
  const text = 'Green tea grows on the hills of Asia, and people drink it hot in the morning before they walk to work in the fields.'
  await store(server, 'docs/tea.md', text)
  await store(server, 'src/tea.md', `${text} Cups are small.`, { workstream: 'api' })
  await page.goto(`${server.url}/projects/${id}/coherence`)
  const score = page.getByRole('region', { name: 'Score' })
  await expect(async () => {
    // A reaction indexes the texts a moment after they are stored.
    await score.getByRole('button', { name: 'Compare all texts' }).click()
    await expect(score.getByRole('status')).toContainText('Similar pairs: 1', { timeout: 2_000 })
  }).toPass()
  await expect(score.getByRole('status')).toContainText('2 artifacts compared, 0 without text.')
  await page.getByRole('list', { name: 'Issues' }).getByRole('button').click()
  await expect(page.getByRole('main')).toContainText(/A comparison of texts found it: they are \d+ % similar\./)
  await leaveEntry(page, 'All issues')
  await page.getByRole('combobox', { name: 'Category' }).selectOption('gap')
  await expect(page.getByText('No issue matches the filters.')).toBeVisible()
})

test('results and issues of agents appear live', async ({ server, console: page }) => {
  const id = await server.project()
  const report = { ownTool: { id: 'r', name: 'report_artifact', input: { path: 'docs/guide.md', kind: 'document', text: 'Tea costs a dollar.' } } }
  const flag = {
    title: 'Units differ',
    description: 'The guide says dollars.',
    category: 'contradiction',
    affectedWorkstreams: ['docs'],
  }
  const steps = [{ waitForMessage: {} }, report, { waitForMessage: {} }, { ownTool: { id: 'f', name: 'flag_coherence', input: flag } }]
  const session = await server.agent('Writer', 'docs', [{ turn: { steps } }])
  await page.goto(`${server.url}/projects/${id}/artifacts`)
  await expect(page.getByText('No agent has reported an artifact yet.')).toBeVisible()
  await server.cli('steer', session, 'Report it')
  await entry(page, /docs\/guide.md/).click()
  const origin = page.getByRole('region', { name: 'Origin of version 1' })
  await expect(origin.getByRole('link', { name: 'Writer' })).toHaveAttribute('href', `/sessions/${session}`)
  await expect(origin).toContainText('Tool call')

  await page.getByRole('navigation', { name: 'Project' }).getByRole('link', { name: 'Coherence' }).click()
  await expect(page.getByText('No coherence issue has been found yet.')).toBeVisible()
  await server.cli('steer', session, 'Flag it')
  await page.getByRole('list', { name: 'Issues' }).getByRole('button', { name: /Units differ/ }).click()
  await expect(page.getByRole('region', { name: 'Units differ' })).toContainText('The agent Writer flagged it.')
})

test('knowledge is searched', async ({ server, console: page }) => {
  const id = await server.project()
  await store(server, 'docs/teapot.md', 'A teapot pours.')
  await page.goto(`${server.url}/projects/${id}/knowledge`)
  await page.getByRole('searchbox').fill('teapot kettle')
  const searches: (string | null)[] = []
  page.on('request', (request) => {
    const { pathname, searchParams } = new URL(request.url())
    if (pathname.endsWith('/search')) searches.push(searchParams.get('query'))
  })
  const hit = page.getByRole('list', { name: 'Results' }).getByRole('link', { name: /teapot/ })
  await expect(async () => {
    // A reaction indexes the words a moment after they are stored.
    await page.getByRole('searchbox').press('Enter')
    await expect(hit).toBeVisible({ timeout: 2_000 })
  }).toPass()
  await expect(page.getByRole('list', { name: 'Results' })).toContainText('artifact of docs, 1 of 2 words')
  expect(new Set(searches)).toEqual(new Set(['teapot kettle']))
  await hit.click()
  await expect(page.getByRole('group', { name: 'Content of docs/teapot.md' })).toContainText('A teapot pours.')
})

test('the knowledge of an agent counts what it omits', async ({ server, console: page }) => {
  const id = await server.project()
  await server.agent('Writer', 'docs', [{ turn: { steps: [{ wait: 60_000 }] } }])
  await Promise.all(Array.from({ length: 30 }, (_, at) => store(server, `docs/a-long-name-of-a-guide-${String(at)}.md`, `guide ${String(at)}`)))
  await page.goto(`${server.url}/projects/${id}/knowledge`)
  const card = page.getByRole('region', { name: 'Knowledge of Writer' })
  await expect(card.getByRole('region', { name: 'Artifacts' })).toContainText('a-long-name-of-a-guide')
  await expect(card).toContainText('Artifacts (30)')
  await expect(card.getByText('not all')).toHaveCount(0)
  await card.getByRole('combobox', { name: 'Tokens' }).selectOption('1000')
  await expect(card).toContainText(/It omits \d+ artifacts, to fit the number of tokens\./)
})
