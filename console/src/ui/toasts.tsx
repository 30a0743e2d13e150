import { Store, useStore } from '../live/store'
import s from './ui.module.css'

interface Toast {
  id: number
  text: string
  tone: 'info' | 'bad'
}

const SHOWN = 6_000
const toasts = new Store<readonly Toast[]>([])
let lastId = 0

function dismiss(id: number): void {
  toasts.update((all) => all.filter((toast) => toast.id !== id))
}

export function toast(text: string, tone: Toast['tone'] = 'info'): void {
  const id = ++lastId
  toasts.update((all) => [...all.filter((toast) => toast.text !== text).slice(-3), { id, text, tone }])
  setTimeout(() => {
    dismiss(id)
  }, SHOWN)
}

export function Toasts() {
  return (
    <div className={s.toasts} role="status" aria-live="polite">
      {useStore(toasts).map(({ id, text, tone }) => (
        <div key={id} className={s.toast} data-tone={tone}>
          <span>{text}</span>
          <button
            type="button"
            aria-label="Dismiss"
            className={s.button}
            onClick={() => {
              dismiss(id)
            }}
          >
            ×
          </button>
        </div>
      ))}
    </div>
  )
}
