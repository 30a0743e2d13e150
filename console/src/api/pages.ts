interface Page<T> {
  items: T[]
  nextCursor?: string | null
}

/** Reads all pages of a list, at most `limit` items. */
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
