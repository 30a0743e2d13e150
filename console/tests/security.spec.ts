import { expect, expectAccessible, open, test } from './fixture'

test('a link logs in once', { tag: '@quick' }, async ({ server, console: page, browser }) => {
  const other = await (await browser.newContext()).newPage()
  await other.goto(server.link)
  await expect(other.getByRole('alert')).toHaveText(/used before or is older than 15 minutes/)
  // A new link works, and leads to the page that it names.
  const id = await server.session('report', [{ turn: { steps: [{ say: 'Hello' }] } }])
  await other.goto((await server.cli('open', '@last', '--print')).trim())
  await expect(other.getByRole('heading', { name: 'report', level: 1 })).toBeVisible()
  expect(new URL(other.url())).toMatchObject({ pathname: `/sessions/${id}`, hash: '' })
  await other.context().close()
  // Both stay logged in after a reload.
  await page.reload()
  await expect(page.getByRole('heading', { name: 'Inbox', level: 1 })).toBeVisible()
})

test('the cookie alone authenticates nothing', { tag: '@quick' }, async ({ server, console: page }) => {
  const cookies = await page.context().cookies()
  expect(cookies).toMatchObject([{ httpOnly: true, sameSite: 'Strict', path: '/' }])
  const status = (headers: Record<string, string>) =>
    page.evaluate(async (headers) => (await fetch('/api/decisions', { headers })).status, headers)
  const key = await page.evaluate(() => localStorage.getItem('pilothouse-key') ?? '')
  expect(await status({ 'X-Pilothouse-Console': key })).toBe(200)
  expect(await status({})).toBe(401)
  expect(await status({ 'X-Pilothouse-Console': `${key}0` })).toBe(401)
  const connects = (protocols: string[]) =>
    page.evaluate(
      async (protocols) =>
        new Promise<boolean>((done) => {
          const socket = new WebSocket(`ws://${location.host}/ws/decisions`, protocols)
          socket.onopen = () => {
            done(true)
          }
          socket.onerror = () => {
            done(false)
          }
        }),
      protocols,
    )
  expect(await connects(['pilothouse', `pilothouse.${key}`])).toBe(true)
  expect(await connects(['pilothouse'])).toBe(false)
  // The key without the cookie authenticates nothing either.
  const response = await fetch(`${server.url}/api/decisions`, { headers: { 'X-Pilothouse-Console': key } })
  expect(response.status).toBe(401)
})

test('other origins and names are refused', { tag: '@quick' }, async ({ server, console: page, request }) => {
  const cookie = (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`).join('; ')
  const key = await page.evaluate(() => localStorage.getItem('pilothouse-key') ?? '')
  const own = { Cookie: cookie, 'X-Pilothouse-Console': key }
  const code = async (headers: Record<string, string>, path = '/api/decisions') => {
    const response = await request.get(server.url + path, { headers: { ...own, ...headers } })
    return [response.status(), response.ok() ? '' : ((await response.json()) as { code: string }).code]
  }
  expect(await code({})).toEqual([200, ''])
  expect(await code({ Origin: server.url })).toEqual([200, ''])
  expect(await code({ Origin: 'http://evil.example' })).toEqual([403, 'foreign-origin'])
  expect(await code({ Origin: 'http://127.0.0.1:1' })).toEqual([403, 'foreign-origin'])
  expect(await code({ Host: 'evil.example' })).toEqual([403, 'foreign-origin'])
  expect(await code({ Host: 'evil.example', Accept: 'text/html' }, '/')).toEqual([403, 'foreign-origin'])
  const upgrade = {
    Connection: 'Upgrade',
    Upgrade: 'websocket',
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': 'AAAAAAAAAAAAAAAAAAAAAA==',
  }
  expect(await code({ ...upgrade, Origin: 'http://evil.example' }, '/ws/decisions')).toEqual([403, 'foreign-origin'])
  expect(await code({ ...upgrade, Host: 'evil.example' }, '/ws/decisions')).toEqual([403, 'foreign-origin'])
})

test('agent output runs no script and is no HTML', async ({ server, console: page }) => {
  const attack = '<img src=x onerror="document.title=1"><script>document.title=2</script>[link](javascript:alert(1)) ![i](http://evil.example/a.png)'
  const requests: string[] = []
  page.on('request', (request) => requests.push(request.url()))
  const id = await server.session(attack, [
    { turn: { steps: [{ say: attack }, { tool: { name: attack, input: { command: attack }, result: attack } }] } },
  ])
  await page.goto(`${server.url}/sessions/${id}`)
  await expect(page.getByRole('region', { name: 'Timeline' })).toContainText('onerror')
  for (const tab of ['Conversation', 'Tool calls']) {
    await page.getByRole('tab', { name: tab }).click()
    await expect(page.getByRole('tabpanel')).toContainText('<script>')
  }
  expect(await page.locator('main img, main script, main [href^="javascript"]').count()).toBe(0)
  expect(requests.filter((url) => !url.startsWith(server.url) && !url.startsWith('ws://127.0.0.1'))).toEqual([])
  await expect(page).toHaveTitle('Pilothouse')
})

test('a dialog stops the page from scrolling without an inline style', { tag: '@quick' }, async ({ console: page }) => {
  const overflow = () => page.evaluate(() => getComputedStyle(document.body).overflowY)
  expect(await overflow()).not.toBe('hidden')
  await page.getByRole('button', { name: 'New session' }).click()
  await expect(page.getByRole('dialog', { name: 'New session' })).toBeVisible()
  await expect.poll(overflow).toBe('hidden')
  expect(await page.locator('style').count()).toBe(0)
  await page.keyboard.press('Escape')
  await expect.poll(overflow).not.toBe('hidden')
})

test('logging out ends the login of the browser', async ({ console: page, server }) => {
  await page.goto(`${server.url}/settings`)
  await page.getByRole('button', { name: 'Log out' }).click()
  await expect(page.getByRole('heading', { name: 'Pilothouse', level: 1 })).toBeVisible()
  expect(await page.context().cookies()).toEqual([])
  await page.goto(`${server.url}/sessions`)
  await expect(page).toHaveURL(/\/login$/)
})

test('a stream whose login has expired leads to the login', async ({ console: page, server }) => {
  await page.context().clearCookies()
  await server.kill()
  await server.up()
  await expect(page).toHaveURL(/\/login$/)
})

test('a link pairs another device, which can be logged out from here', { tag: '@quick' }, async ({
  console: page,
  browser,
}) => {
  await open(page, '/settings')
  await page.getByRole('button', { name: 'Make a link' }).click()
  await expect(page.getByRole('img', { name: 'QR code of the link' })).toBeVisible()
  const link = await page.getByText('/login#code=').innerText()
  const phone = await (await browser.newContext({ userAgent: 'Mozilla/5.0 (Linux; Android 16) Chrome/156.0' })).newPage()
  await phone.goto(link)
  await expect(phone.getByRole('heading', { name: 'Inbox', level: 1 })).toBeVisible()

  await page.reload()
  const logins = page.getByRole('list', { name: 'Logins' }).getByRole('listitem')
  await expect(logins).toHaveCount(2)
  await expect(logins.first()).toContainText('(this one)')
  await expectAccessible(page)
  await page.getByRole('button', { name: 'Log out Chrome on Android' }).click()
  await expect(logins).toHaveCount(1)
  // The page over there notices without a click.
  await expect(phone.getByLabel('Link or code')).toBeVisible()
  await phone.context().close()
})
