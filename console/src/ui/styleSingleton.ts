import { createElement, useEffect } from 'react'

/** A style sheet that applies while at least one component uses it. A constructed sheet is no inline style. */
class SharedSheet {
  private users = 0
  private sheet: CSSStyleSheet | undefined

  add(styles: string): void {
    this.users += 1
    if (this.sheet !== undefined) return
    this.sheet = new CSSStyleSheet()
    this.sheet.replaceSync(styles)
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, this.sheet]
  }

  remove(): void {
    this.users -= 1
    if (this.users > 0) return
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => sheet !== this.sheet)
    this.sheet = undefined
  }
}

function Styles({ sheet, styles }: { sheet: SharedSheet; styles: string }): null {
  useEffect(() => {
    sheet.add(styles)
    return () => {
      sheet.remove()
    }
  }, [sheet, styles])
  return null
}

/**
 * Replaces the function of the package `react-style-singleton`, with which dialogs and menus stop the page from scrolling. The package adds
 * a `style` element, which the policy of the page does not allow. `vite.config.ts` has the replacement.
 */
export function styleSingleton() {
  const sheet = new SharedSheet()
  return ({ styles }: { styles: string }) => createElement(Styles, { sheet, styles })
}
