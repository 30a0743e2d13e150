import { api, ApiProblem, data } from '../api/client'
import { Store } from '../live/store'
import { NOTIFIED } from './notified'
import type { NotificationKind } from '../api/types'

const WORKER = '/push-worker.js'

/** What this browser receives. */
export interface ThisDevice {
  id: string
  device: string
  kinds: readonly NotificationKind[]
}

function stored(): ThisDevice | undefined {
  const text = localStorage.getItem(NOTIFIED)
  return text === null ? undefined : (JSON.parse(text) as ThisDevice)
}

export const thisDevice = new Store<ThisDevice | undefined>(stored())

// Another tab may subscribe or unsubscribe this browser.
window.addEventListener('storage', ({ key }) => {
  if (key === NOTIFIED || key === null) thisDevice.set(stored())
})

function remember(device: ThisDevice | undefined): void {
  if (device === undefined) localStorage.removeItem(NOTIFIED)
  else localStorage.setItem(NOTIFIED, JSON.stringify(device))
  thisDevice.set(device)
}

/**
 * Runs one change of the subscription after the other, also those of other tabs. Else a renewal that is under way would subscribe a
 * browser again that the person has just stopped. Pages without HTTPS have no locks, and no subscription.
 */
async function exclusively<T>(change: () => Promise<T>): Promise<T> {
  return window.isSecureContext ? navigator.locks.request(NOTIFIED, change) : change()
}

/** Why this browser cannot receive notifications, as a sentence. */
export function obstacle(): string | undefined {
  if (!window.isSecureContext) {
    return 'Browsers allow notifications only over HTTPS, or from this machine itself. Put HTTPS in front of the server.'
  }
  if (!('serviceWorker' in navigator && 'PushManager' in window)) {
    return 'This browser cannot receive notifications. On an iPhone, add the console to the home screen first.'
  }
  return undefined
}

interface TrustedTypes {
  createPolicy(name: string, rules: { createScriptURL: () => string }): { createScriptURL: (text: string) => string }
}

/** The page's policy forbids texts as addresses of scripts. This is the only exception, and it ignores the text. */
const trusted = (window as { trustedTypes?: TrustedTypes }).trustedTypes?.createPolicy('pilothouse-push', {
  createScriptURL: () => WORKER,
})

async function worker(): Promise<ServiceWorkerRegistration> {
  await navigator.serviceWorker.register(trusted === undefined ? WORKER : trusted.createScriptURL(WORKER))
  return navigator.serviceWorker.ready
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64.replaceAll('-', '+').replaceAll('_', '/'))
  return Uint8Array.from(text, (character) => character.charCodeAt(0))
}

/** Whether the browser's subscription is for the key of this server. Another server may have run at this address before. */
function isFor(subscription: PushSubscription, key: Uint8Array): boolean {
  const known = subscription.options.applicationServerKey
  return known !== null && new Uint8Array(known).join() === key.join()
}

/** Subscribes this browser, or changes what it receives. Asks the person for permission the first time. */
export async function subscribe(device: string, kinds: readonly NotificationKind[]): Promise<void> {
  // Not within the lock: an unanswered question would block the changes of all tabs.
  if ((await Notification.requestPermission()) !== 'granted') {
    throw new Error('The browser does not allow notifications from this page. Change that in its settings for this site.')
  }
  await exclusively(() => subscribed(device, kinds))
}

async function subscribed(device: string, kinds: readonly NotificationKind[]): Promise<void> {
  const registration = await worker()
  const { publicKey } = await data(api.GET('/api/web-push/key'))
  const key = bytesOf(publicKey)
  let subscription = await registration.pushManager.getSubscription()
  if (subscription !== null && !isFor(subscription, key)) {
    await subscription.unsubscribe()
    subscription = null
  }
  subscription ??= await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key })
  const { endpoint, keys } = subscription.toJSON()
  const { id, kinds: accepted } = await data(
    api.POST('/api/web-push/subscriptions', {
      body: {
        endpoint: endpoint ?? '',
        keys: { p256dh: keys?.p256dh ?? '', auth: keys?.auth ?? '' },
        device,
        kinds: [...kinds],
      },
    }),
  )
  remember({ id, device, kinds: accepted })
}

/** Forgets that this browser receives notifications, and ends its subscription at the push service. */
async function forget(): Promise<void> {
  remember(undefined)
  const registration = await navigator.serviceWorker.getRegistration()
  await (await registration?.pushManager.getSubscription())?.unsubscribe()
}

async function remove(id: string): Promise<void> {
  if (stored()?.id === id) await forget()
  try {
    await api.DELETE('/api/web-push/subscriptions/{id}', { params: { path: { id } } })
  } catch (error) {
    // It was removed elsewhere.
    if (!(error instanceof ApiProblem) || error.status !== 404) throw error
  }
}

/** Removes a subscription, and that of the browser if it is its own. */
export async function unsubscribe(id: string): Promise<void> {
  await exclusively(() => remove(id))
}

/** Forgets the subscription of this browser after a log-out. The server has removed it with the login. */
export async function forgetThisDevice(): Promise<void> {
  await exclusively(forget)
}

/**
 * Renews the subscription when the console opens, because push services end subscriptions after some time. One that was stopped on
 * another device stays stopped.
 */
export async function renewSubscription(): Promise<void> {
  if (obstacle() !== undefined || Notification.permission !== 'granted') return
  await exclusively(async () => {
    const known = stored()
    if (known === undefined) return
    const registration = await navigator.serviceWorker.getRegistration()
    const current = await registration?.pushManager.getSubscription()
    const { items } = await data(api.GET('/api/web-push/subscriptions'))
    if (current != null && !items.some(({ id }) => id === known.id)) await forget()
    else await subscribed(known.device, known.kinds)
  })
}
