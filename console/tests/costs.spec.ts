import { readFile } from 'node:fs/promises'
import { expect, expectAccessible, test } from './fixture'

function usage(model: string, costUsd: string, tokens: Record<string, number>) {
  return { usage: { model, costUsd, tokens } }
}

const LARGE = usage('large', '0.5', { inputTokens: 91_000, outputTokens: 20, cacheReadTokens: 3_000, cacheWriteTokens: 4 })
const SMALL = usage('small', '0.1', { outputTokens: 5 })

test('costs add up by model and are exported with project and labels', async ({ server, console: page }) => {
  await server.project()
  const inProject = await server.agent('Writer', 'docs', [{ turn: { steps: [LARGE] } }])
  const steps = [usage('large', '0.25', { inputTokens: 234 }), SMALL]
  const alone = await server.session('=1+1', [{ turn: { steps } }], '--label', 'team=core')
  await page.goto(`${server.url}/costs`)
  const byModel = page.getByRole('region', { name: 'By model' })
  const large = byModel.getByRole('row', { name: /^large/ })
  await expect(large).toContainText('91,234 in, 20 out,3,000 read from cache,4 written to cache')
  await expect(large).toContainText('$0.75')
  await expect(byModel.getByRole('row', { name: /^small/ })).toContainText('$0.10')
  await expect(byModel.getByText('Not recorded by model')).toHaveCount(0)
  await expect(page.getByRole('region', { name: '$0.85 in 2 sessions' })).toBeVisible()
  await expect(page.getByRole('region', { name: 'By project' }).getByText('Shop')).toBeVisible()
  await expectAccessible(page)

  const exported = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Export CSV' }).click()
  const [header, ...lines] = (await readFile(await (await exported).path(), 'utf8')).split('\n')
  expect(header).toBe(
    'session,name,status,created,project,labels,model,input_tokens,output_tokens,cache_read_tokens,cache_write_tokens,spent_usd,cap_usd',
  )
  expect(lines).toHaveLength(3)
  const line = (id: string, model: string) => lines.find((line) => line.startsWith(`"${id}",`) && line.includes(`"${model}",`))
  expect(line(inProject, 'large')).toContain('"Shop","","large","91000","20","3000","4","0.5",')
  expect(line(alone, 'large')).toContain('"","team=core","large","234","0","0","0","0.25",')
  expect(line(alone, 'small')).toContain('"","team=core","small","0","5","0","0","0.1",')
  // A spreadsheet would evaluate a formula.
  expect(line(alone, 'small')).toContain(`"${alone}","'=1+1",`)
})

test('cost that was stored without its model is shown apart', async ({ server, console: page }) => {
  const id = await server.session('old', [{ turn: { steps: [LARGE] } }])
  await expect.poll(() => server.statusOf(id)).toBe('Idle')
  // The response of a server whose sessions were stored by an earlier version.
  await page.route(/\/api\/agents\/sessions\?/, async (route) => {
    const response = await route.fetch()
    const list = (await response.json()) as { items: { totalCostUsd: string }[] }
    const items = list.items.map((session) => ({
      ...session,
      costUsdByModel: undefined,
      unattributedCostUsd: session.totalCostUsd,
    }))
    await route.fulfill({ response, json: { ...list, items } })
  })
  await page.goto(`${server.url}/costs`)
  const byModel = page.getByRole('region', { name: 'By model' })
  await expect(byModel.getByRole('row', { name: /^large/ })).toContainText('not recorded')
  await expect(byModel.getByRole('row', { name: /^Not recorded by model/ })).toContainText('$0.50')
})

test('a session shows its cost and tokens by model as they grow', async ({ server, console: page }) => {
  const id = await server.session('usage', [{ turn: { steps: [LARGE, { waitForMessage: {} }, SMALL, LARGE] } }])
  await page.goto(`${server.url}/sessions/${id}`)
  const table = page.getByRole('region', { name: 'Money' }).getByRole('table', { name: 'Usage by model' })
  await expect(table.getByRole('row')).toHaveCount(2)
  await expect(table.getByRole('row', { name: /^large/ })).toContainText('$0.50')
  await server.cli('steer', id, 'Continue')
  await expect(table.getByRole('row', { name: /^large/ })).toContainText('$1.00')
  await expect(table.getByRole('row', { name: /^large/ })).toContainText(
    '182,000 in, 40 out,6,000 read from cache,8 written to cache',
  )
  await expect(table.getByRole('row', { name: /^small/ })).toContainText('$0.10')
  await expectAccessible(page)
})

test('costs have the new day after midnight', async ({ server, console: page }) => {
  const tomorrow = new Date(Date.now() + 864e5)
  const day = page.getByText(tomorrow.toLocaleDateString('sv-SE', { timeZone: 'Europe/Berlin' }))
  await page.goto(`${server.url}/costs`)
  await expect(page.getByText('No session was created in this period.')).toBeVisible()
  await expect(day).toHaveCount(0)
  await page.clock.setFixedTime(tomorrow)
  // The page notices the end of the day within 15 seconds.
  await expect(day).toBeVisible({ timeout: 25_000 })
})
