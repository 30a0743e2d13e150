import { useEffect, useState } from 'react'
import { ApiProblem } from '../api/client'
import { failedReads, mark } from './outdated'
import { FIRST_DELAY, LiveSocket, LONGEST_DELAY, type StreamPlace } from './socket'

/**
 * Repeats a read until it succeeds: the stream sends only what changes later. Meanwhile, the page shows that it may be out of date. At 401,
 * the page leads to the login.
 */
export async function readUntilDone(name: string, read: () => Promise<void>, isClosed: () => boolean): Promise<void> {
  for (let delay = FIRST_DELAY; !isClosed(); delay = Math.min(delay * 2, LONGEST_DELAY)) {
    try {
      await read()
      break
    } catch (error) {
      if (isClosed() || (error instanceof ApiProblem && error.status === 401)) break
      mark(failedReads, name, true)
    }
    await new Promise((done) => setTimeout(done, delay))
  }
  mark(failedReads, name, false)
}

/**
 * Follows a list that a stream without cursor announces. Each connection begins with `caught_up`, at which the list is read;
 * messages wait until then, because they are newer. In `aws`, each renewal of the subscription repeats it, because the list is read from an
 * index that may lag.
 */
export function followList<M extends { type: string }>(
  place: StreamPlace,
  read: () => Promise<void>,
  receive: (message: Exclude<M, { type: 'caught_up' }>) => void,
): () => void {
  let isClosed = false
  let listed = Promise.resolve()
  const socket = new LiveSocket<M>(place.path, () => place, (message) => {
    listed = listed
      .then(async () => {
        if (message.type === 'caught_up') await readUntilDone(place.path, read, () => isClosed)
        else receive(message as Exclude<M, { type: 'caught_up' }>)
      })
      // A message that cannot be shown must not stop those after it.
      .catch(reportError)
  })
  return () => {
    isClosed = true
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
