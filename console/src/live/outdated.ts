import { Store } from './store'

/** Times by the names of streams or lists. */
type Times = ReadonlyMap<string, number>

/** When each disconnected stream lost its connection. */
export const lostStreams = new Store<Times>(new Map())

/** When the read of each list failed first. A list is removed when a read succeeds. */
export const failedReads = new Store<Times>(new Map())

export function mark(times: Store<Times>, name: string, isMarked: boolean): void {
  if (isMarked === times.get().has(name)) return
  const changed = new Map(times.get())
  if (isMarked) changed.set(name, Date.now())
  else changed.delete(name)
  times.set(changed)
}
