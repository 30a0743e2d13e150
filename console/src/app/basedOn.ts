import { etag } from '../api/client'

/**
 * The header of a change that is based on `seen`. The version of an object also increases without the part that the person changes, so only
 * a later change of this `part` is refused.
 */
export async function basedOn<T>(
  seen: T,
  read: () => Promise<T>,
  part: (it: T) => unknown,
  version: (it: T) => number,
): Promise<never> {
  const latest = await read()
  const isSame = JSON.stringify(part(latest)) === JSON.stringify(part(seen))
  return { 'If-Match': etag(version(isSame ? latest : seen)) } as never
}
