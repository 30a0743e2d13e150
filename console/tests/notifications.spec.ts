import { createDecipheriv, createECDH, hkdfSync, randomBytes, type ECDH } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Locator, Page } from '@playwright/test'
import { expect, expectAccessible, open, test } from './fixture'

/**
 * The push service of a browser's vendor, which tests cannot reach, and the part of the browser that talks to it: a server on loopback
 * that receives messages, and the decryption of RFC 8291.
 */
class PushService {
  readonly received: { path: string; body: Buffer }[] = []
  readonly keys: ECDH = createECDH('prime256v1')
  readonly auth = randomBytes(16)
  private readonly server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      this.received.push({ path: request.url ?? '', body: Buffer.concat(parts) })
      response.writeHead(201).end()
    })
  })

  static async start(): Promise<PushService> {
    const service = new PushService()
    service.keys.generateKeys()
    await new Promise<void>((done) => service.server.listen(0, '127.0.0.1', done))
    return service
  }

  get endpoint(): string {
    return `http://127.0.0.1:${String((this.server.address() as AddressInfo).port)}/this-browser`
  }

  stop(): void {
    this.server.close()
  }

  read({ body }: { body: Buffer }): string {
    const salt = body.subarray(0, 16)
    const sender = body.subarray(21, 21 + body.readUInt8(20))
    const encrypted = body.subarray(21 + sender.length)
    const info = Buffer.concat([Buffer.from('WebPush: info\0'), this.keys.getPublicKey(), sender])
    const secret = Buffer.from(hkdfSync('sha256', this.keys.computeSecret(sender), this.auth, info, 32))
    const derive = (purpose: string, length: number) =>
      Buffer.from(hkdfSync('sha256', secret, salt, Buffer.from(`Content-Encoding: ${purpose}\0`), length))
    const cipher = createDecipheriv('aes-128-gcm', derive('aes128gcm', 16), derive('nonce', 12))
    cipher.setAuthTag(encrypted.subarray(-16))
    const padded = Buffer.concat([cipher.update(encrypted.subarray(0, -16)), cipher.final()])
    return padded.subarray(0, padded.lastIndexOf(2)).toString()
  }
}

/** Lets the page subscribe at `service` instead of the vendor's. */
async function subscribesAt(service: PushService, page: Page): Promise<void> {
  const keys = {
    p256dh: service.keys.getPublicKey().toString('base64url'),
    auth: service.auth.toString('base64url'),
  }
  await page.addInitScript(
    ({ endpoint, keys }) => {
      PushManager.prototype.subscribe = async (options) => {
        const key = new Uint8Array(options?.applicationServerKey as ArrayBuffer)
        if (key.length !== 65) throw new Error('the key of the server is no point')
        return Promise.resolve({
          endpoint,
          options: { applicationServerKey: key.buffer, userVisibleOnly: true },
          toJSON: () => ({ endpoint, keys }),
          unsubscribe: () => Promise.resolve(true),
        } as unknown as PushSubscription)
      }
    },
    { endpoint: service.endpoint, keys },
  )
}

/** Opens the settings with notifications, which this browser receives at `service`. */
async function isNotified(page: Page, service: PushService): Promise<Locator> {
  await page.context().grantPermissions(['notifications'], { origin: new URL(page.url()).origin })
  await subscribesAt(service, page)
  await open(page, '/settings')
  await page.getByLabel('Name of this device').fill('My laptop')
  await page.getByRole('button', { name: 'Notify me on this device' }).click()
  const devices = page.getByRole('list', { name: 'Devices that receive notifications' })
  await expect(devices.getByRole('listitem')).toContainText('My laptop (this one)')
  return devices
}

test('a browser is notified of a question, and not while the page is visible', { tag: '@quick' }, async ({
  server,
  console: page,
}, info) => {
  test.skip(info.project.name !== 'desktop', 'notifications do not depend on the width')
  const service = await PushService.start()
  const devices = await isNotified(page, service)
  await expectAccessible(page)

  const steps = [{ turn: { steps: [{ question: { id: 'q1', questions: [{ question: 'Which colour?' }] } }] } }]
  const id = await server.session('painter', steps)
  await expect.poll(() => service.received.length).toBe(1)
  const [received] = service.received
  const text = service.read(received ?? { body: Buffer.alloc(0) })
  expect(JSON.parse(text)).toMatchObject({ kind: 'waiting-for-input', text: 'Which colour?', sessionId: id })

  // The browser gives the text to the worker of the page.
  const browser = await page.context().newCDPSession(page)
  const registration = new Promise<string>((done) => {
    browser.on('ServiceWorker.workerRegistrationUpdated', ({ registrations }) => {
      const [first] = registrations
      if (first !== undefined) done(first.registrationId)
    })
  })
  await browser.send('ServiceWorker.enable')
  const deliver = async (data: string) =>
    browser.send('ServiceWorker.deliverPushMessage', { origin: server.url, registrationId: await registration, data })
  const seen = { ...(JSON.parse(text) as Record<string, unknown>), sessionId: 'another', text: 'The person reads this page.' }
  await deliver(JSON.stringify(seen))
  await page.goto('about:blank')
  await deliver(text)
  await page.goto(`${server.url}/settings`)
  const shown = () =>
    page.evaluate(async () => {
      const worker = await navigator.serviceWorker.ready
      return (await worker.getNotifications()).map(({ title, body }) => [title, body])
    })
  await expect.poll(shown).toEqual([['An agent asks', 'Which colour?']])

  await devices.getByRole('button', { name: 'Stop notifying My laptop' }).click()
  await expect(devices.getByRole('listitem')).toHaveCount(0)
  await expect(page.getByRole('button', { name: 'Notify me on this device' })).toBeVisible()
  service.stop()
})

test('a browser that is stopped during its renewal stays stopped', { tag: '@quick' }, async ({ console: page }, info) => {
  test.skip(info.project.name !== 'desktop', 'notifications do not depend on the width')
  const service = await PushService.start()
  const devices = await isNotified(page, service)

  // The console renews the subscription when it opens. This renewal waits in the network.
  let release = (): void => undefined
  const released = new Promise<void>((done) => (release = done))
  const renewal = new Promise<void>((isUnderWay) => {
    void page.route('**/api/web-push/subscriptions', async (route) => {
      if (route.request().method() === 'POST') {
        isUnderWay()
        await released
      }
      await route.continue()
    })
  })
  await page.reload()
  await renewal
  await devices.getByRole('button', { name: 'Stop notifying My laptop' }).click()
  release()
  await expect(devices.getByRole('listitem')).toHaveCount(0)
  await page.reload()
  await expect(page.getByRole('button', { name: 'Notify me on this device' })).toBeVisible()
  service.stop()
})

test('a tap opens the session in the page that enabled notifications', { tag: '@quick' }, async ({
  server,
  console: page,
}, info) => {
  test.skip(info.project.name !== 'desktop', 'notifications do not depend on the width')
  const id = await server.session('painter', [{ turn: { steps: [{ wait: 60_000 }] } }])
  const service = await PushService.start()
  await isNotified(page, service)
  // Tests cannot tap a notification, so this is the message of the worker to the page after a tap.
  await page.evaluate((path) => {
    navigator.serviceWorker.dispatchEvent(new MessageEvent('message', { data: { open: path } }))
  }, `/sessions/${id}`)
  await expect(page.getByRole('heading', { name: 'painter', level: 1 })).toBeVisible()
  service.stop()
})
