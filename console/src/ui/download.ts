/** Saves a content as a file. Browsers do not send the key of the console with a link, so the content was read before. */
export function download(content: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(content)
  link.download = name
  link.click()
  URL.revokeObjectURL(link.href)
}
