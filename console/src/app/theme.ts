import { Store } from '../live/store'

export type Theme = 'system' | 'light' | 'dark'

const NAME = 'pilothouse-theme'
const prefersDark = window.matchMedia('(prefers-color-scheme: dark)')

function stored(): Theme {
  const value = localStorage.getItem(NAME)
  return value === 'light' || value === 'dark' ? value : 'system'
}

export const theme = new Store<Theme>(stored())

export function applyTheme(): void {
  const chosen = theme.get()
  document.documentElement.dataset.theme = chosen === 'system' ? (prefersDark.matches ? 'dark' : 'light') : chosen
}

export function chooseTheme(chosen: Theme): void {
  localStorage.setItem(NAME, chosen)
  theme.set(chosen)
  applyTheme()
}

prefersDark.addEventListener('change', applyTheme)
