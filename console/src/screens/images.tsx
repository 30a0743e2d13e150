import { Button, s } from '../ui'

const TYPES: readonly string[] = ['image/png', 'image/jpeg', 'image/gif', 'image/webp']

/** An image of a message that is being written. */
export interface AttachedImage {
  name: string
  mediaType: string
  base64: string
}

/** The files that agents can receive as images. */
export function imagesOf(files: FileList): File[] {
  return Array.from(files).filter(({ type }) => TYPES.includes(type))
}

export function readImage(file: File): Promise<AttachedImage> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.addEventListener('load', () => {
      const url = typeof reader.result === 'string' ? reader.result : ''
      resolve({ name: file.name, mediaType: file.type, base64: url.slice(url.indexOf(',') + 1) })
    })
    reader.addEventListener('error', () => {
      reject(reader.error ?? new Error('The image cannot be read.'))
    })
    reader.readAsDataURL(file)
  })
}

/** The images of a message that is being written, each with a button that removes it. */
export function AttachedImages({
  images,
  onRemove,
}: {
  images: readonly AttachedImage[]
  onRemove: (image: AttachedImage) => void
}) {
  if (images.length === 0) return null
  return (
    <ul className={s.row} aria-label="Images of the message" style={{ listStyle: 'none', margin: 0, padding: 0 }}>
      {images.map((image, at) => (
        <li key={`${image.name} ${String(at)}`} className={s.row}>
          <span className={s.small}>{image.name}</span>
          <Button
            look="icon"
            aria-label={`Remove ${image.name}`}
            onClick={() => {
              onRemove(image)
            }}
          >
            ×
          </Button>
        </li>
      ))}
    </ul>
  )
}

/** Chooses images of this device. */
export function AttachButton({ onFiles }: { onFiles: (files: FileList) => void }) {
  return (
    <label className={s.button}>
      Attach images
      <input
        type="file"
        accept={TYPES.join(',')}
        multiple
        className={s.visuallyHidden}
        onChange={({ target }) => {
          if (target.files !== null) onFiles(target.files)
          // The same file can be chosen again after it was removed.
          target.value = ''
        }}
      />
    </label>
  )
}
