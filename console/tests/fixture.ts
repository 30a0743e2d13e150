import { expect, test as base, type Locator, type Page } from '@playwright/test'
import AxeBuilder from '@axe-core/playwright'
import { Server, type Environment } from './server'

/** Each test has its own server, and a page that is logged in by the link of the server. `environment` is that of the server. */
export const test = base.extend<{ environment: Environment; server: Server; console: Page }>({
  environment: [{}, { option: true }],
  server: async ({ environment }, use) => {
    const server = await Server.start(environment)
    await use(server)
    await server.stop()
  },
  console: async ({ server, page }, use) => {
    const violations: string[] = []
    page.on('console', (message) => {
      if (/Content Security Policy|Trusted Type|unmounted component|Encountered two children/i.test(message.text())) {
        violations.push(message.text())
      }
    })
    page.on('pageerror', (error) => violations.push(error.message))
    await page.goto(server.link)
    await expect(page.getByRole('heading', { name: 'Inbox', level: 1 })).toBeVisible()
    await use(page)
    expect(violations, 'neither policy violations nor errors').toEqual([])
  },
})

export { expect }

/** Opens a page of the console within the application, as a link does. */
export async function open(page: Page, path: string): Promise<void> {
  await page.goto(new URL(path, page.url()).href)
}

/** Repeats the analysis for some seconds, because parts of a page that has just changed may still cover each other. */
export async function expectAccessible(page: Page): Promise<void> {
  await expect.poll(() => accessibilityViolations(page)).toEqual([])
}

async function accessibilityViolations(page: Page): Promise<string[]> {
  const { violations } = await new AxeBuilder({ page })
    .withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'])
    .analyze()
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => String(target[0])).join(', ')}`)
}

/** Whether the test runs at the width of a phone. */
export function isPhone(page: Page): boolean {
  return (page.viewportSize()?.width ?? 0) < 720
}

/** In the inbox of a phone, a decision opens on its own. */
export async function openDecision(page: Page, text: string | RegExp): Promise<void> {
  await page.getByRole('list', { name: 'Waiting decisions' }).getByRole('button', { name: text }).click()
}

/** How a person uses the console. */
export type Input = 'mouse' | 'keyboard' | 'touch'

/** Uses a button or a link: by a click, by Enter, or by a tap. */
export async function activate(target: Locator, input: Input): Promise<void> {
  if (input === 'mouse') await target.click()
  else if (input === 'keyboard') await target.press('Enter')
  else await target.tap()
}

/** Uses a button or a link as a person does at this width: by a tap or by a click. */
export async function press(target: Locator): Promise<void> {
  await activate(target, isPhone(target.page()) ? 'touch' : 'mouse')
}
