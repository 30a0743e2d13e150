import { api, data } from '../api/client'
import type { Notification, NotificationMessage } from '../api/types'
import { readUntilDone } from './follow'
import { LiveSocket } from './socket'
import { Store } from './store'

const KEPT = 100

/** Latest first. */
export const notifications = new Store<readonly Notification[]>([])

export function followNotifications(): () => void {
  let cursor: string | undefined
  let isListing = false
  let isClosed = false
  const add = (added: readonly Notification[]): void => {
    notifications.update((known) => {
      const all = new Map([...known, ...added].map((notification) => [notification.sequence, notification]))
      return [...all.values()].sort((a, b) => b.sequence - a.sequence).slice(0, KEPT)
    })
  }
  const socket = new LiveSocket<NotificationMessage>(
    'notifications',
    () => (cursor === undefined ? '/ws/notifications' : `/ws/notifications?after=${cursor}`),
    (message) => {
      cursor = message.cursor
      if (message.type === 'notification') add([message.data])
      else if (!isListing) {
        isListing = true
        const list = async () => {
          const { items } = await data(api.GET('/api/notifications', { params: { query: { limit: 50 } as never } }))
          add(items)
        }
        void readUntilDone('notifications', list, () => isClosed)
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
