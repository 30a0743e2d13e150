import { useMutation } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { consoleRequest } from '../api/client'
import { storeConsoleKey } from '../api/key'
import { Button, Field, Problem, s } from '../ui'
import { deviceName } from './deviceName'
import shell from './shell.module.css'

/** The path in a link, if it is a page of the console. Another site must not be reachable through a link. */
export function pageOf(to: string | null): string {
  return to !== null && /^\/[a-z0-9/-]*$/i.test(to) && !to.startsWith('//') ? to : '/'
}

/** Logs in to the embedded server: exchanges the code of a link for a login. The code is in the fragment, which is not sent with the request for the page. */
export function LoginScreen() {
  const [text, setText] = useState('')
  const login = useMutation({
    mutationFn: async ({ code }: { code: string; to: string }) =>
      consoleRequest<{ ownerId: string; key: string }>('login', { code, device: deviceName() }),
    onSuccess: ({ key }, { to }) => {
      storeConsoleKey(key)
      // Loads the page again, so that no data of an earlier login stays in memory.
      location.replace(to)
    },
  })
  const { mutate } = login
  useEffect(() => {
    const exchange = () => {
      const fragment = new URLSearchParams(location.hash.slice(1))
      const code = fragment.get('code')
      if (code === null) return
      // The code must not stay in the address, nor be used twice.
      history.replaceState(null, '', '/login')
      mutate({ code, to: pageOf(fragment.get('to')) })
    }
    exchange()
    // Opening a second link in the same tab changes only the fragment.
    window.addEventListener('hashchange', exchange)
    return () => {
      window.removeEventListener('hashchange', exchange)
    }
  }, [mutate])
  return (
    <main className={shell.login}>
      <div className={s.card}>
        <form
          className={s.stack}
          onSubmit={(event) => {
            event.preventDefault()
            if (login.isPending) return
            // A whole link is accepted, too.
            mutate({ code: text.trim().replace(/^.*[#&]code=([^&]*).*$/, '$1'), to: '/' })
          }}
        >
          <h1>Pilothouse</h1>
          {login.isError && <Problem error={login.error} />}
          <p>
            Open the link that <code>pilothouse up</code> printed, or run <code>pilothouse open</code> in a terminal on the
            machine of the server.
          </p>
          <Field label="Link or code">
            <input
              className={s.input}
              value={text}
              autoComplete="off"
              onChange={(event) => {
                setText(event.target.value)
              }}
            />
          </Field>
          <Button type="submit" look="primary" disabled={text.trim() === '' || login.isPending}>
            Log in
          </Button>
        </form>
      </div>
    </main>
  )
}
