import { useEffect, useState } from 'react'
import { LiveSocket } from './socket'

/**
 * Follows a list that a stream without cursor announces. Each connection begins with `caught_up`, at which the list is read;
 * messages wait until then, because they are newer.
 */
export function followList<M extends { type: string }>(
  path: string,
  read: () => Promise<void>,
  receive: (message: Exclude<M, { type: 'caught_up' }>) => void,
): () => void {
  let listed = Promise.resolve()
  const socket = new LiveSocket<M>(path, () => path, (message) => {
    listed = listed
      .then(() => {
        if (message.type === 'caught_up') return read()
        receive(message as Exclude<M, { type: 'caught_up' }>)
        return undefined
      })
      .catch(() => undefined)
  })
  return () => {
    socket.close()
  }
}

interface Follower {
  open: () => void
  close: () => void
}

/** A follower that is open while the component is shown. It is created once, so the component needs the id as its key. */
export function useFollower<F extends Follower>(create: () => F): F {
  const [follower] = useState(create)
  useEffect(() => {
    follower.open()
    return () => {
      follower.close()
    }
  }, [follower])
  return follower
}
