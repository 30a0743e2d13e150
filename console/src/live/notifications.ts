import { api, data } from '../api/client'
import { isCloud } from '../api/profile'
import type { Notification, NotificationMessage } from '../api/types'
import { readUntilDone } from './follow'
import { poll } from './poll'
import { LiveSocket } from './socket'
import { Store } from './store'

const KEPT = 100

/** Latest first. */
export const notifications = new Store<readonly Notification[]>([])

function add(added: readonly Notification[]): void {
  notifications.update((known) => {
    const all = new Map([...known, ...added].map((notification) => [notification.sequence, notification]))
    return [...all.values()].sort((a, b) => b.sequence - a.sequence).slice(0, KEPT)
  })
}

/** Reads the latest notifications. Returns whether one is new, or was read elsewhere. */
async function list(): Promise<boolean> {
  const { items } = await data(api.GET('/api/notifications', { params: { query: { limit: 50 } as never } }))
  const readAt = new Map(notifications.get().map((known) => [known.sequence, known.readAt ?? null]))
  const hasChanged = items.some((item) => readAt.get(item.sequence) !== (item.readAt ?? null))
  if (hasChanged) add(items)
  return hasChanged
}

export function followNotifications(): () => void {
  if (isCloud) return poll('notifications', list)
  let cursor: string | undefined
  let isListing = false
  let isClosed = false
  const socket = new LiveSocket<NotificationMessage>(
    'notifications',
    () => ({ path: '/ws/notifications', after: cursor }),
    (message) => {
      cursor = message.cursor
      if (message.type === 'notification') add([message.data])
      else if (!isListing) {
        isListing = true
        const listOnce = async () => {
          await list()
        }
        void readUntilDone('notifications', listOnce, () => isClosed)
      }
    },
  )
  return () => {
    isClosed = true
    socket.close()
  }
}

export async function readAll(): Promise<void> {
  await api.POST('/api/notifications/read', { body: {} as never })
  const readAt = new Date().toISOString()
  notifications.update((known) => known.map((it) => ({ ...it, readAt: it.readAt ?? readAt })))
}
