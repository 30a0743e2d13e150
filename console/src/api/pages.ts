/** A page of a list of the API. */
export interface Page<T> {
  items: T[]
  nextCursor?: string | null
}

/** Reads the pages of a list until its end, or until there are `limit` items. */
export async function allPages<T>(read: (cursor: string | undefined) => Promise<Page<T>>, limit = 5000): Promise<T[]> {
  const items: T[] = []
  let cursor: string | undefined
  do {
    const page = await read(cursor)
    items.push(...page.items)
    cursor = page.nextCursor ?? undefined
  } while (cursor !== undefined && items.length < limit)
  return items
}
