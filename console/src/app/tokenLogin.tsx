import { useMutation } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { api, ApiProblem, data } from '../api/client'
import { storeToken } from '../api/token'
import { Button, Field, Problem, s } from '../ui'
import { pageOf } from './login'
import shell from './shell.module.css'

/** Keeps a token if the server accepts it. */
async function logIn(token: string): Promise<void> {
  if (!/^[\w-]+\.[\w-]+\.[\w-]+$/.test(token)) throw new Error('This is not a token.')
  storeToken(token)
  try {
    await data(api.GET('/api/settings'))
  } catch (error) {
    storeToken(undefined)
    if (!(error instanceof ApiProblem) || error.status !== 401) throw error
    throw new Error('The token is not accepted: it has expired, or it is not for this deployment.')
  }
}

/** The parameters of a link. They are in its fragment, which browsers do not send. */
function parametersOf(link: string): URLSearchParams {
  return new URLSearchParams(link.slice(link.indexOf('#') + 1))
}

/** Logs in to a deployment in AWS, with a token that the person pastes or that is in the fragment of a link. */
export function TokenLoginScreen() {
  const [text, setText] = useState('')
  const navigate = useNavigate()
  const login = useMutation({
    mutationFn: ({ token }: { token: string; to: string }) => logIn(token),
    onSuccess: (_, { to }) => {
      void navigate({ to, replace: true })
    },
  })
  const { mutate } = login
  useEffect(() => {
    const takeToken = () => {
      const given = parametersOf(location.hash)
      const token = given.get('token')
      if (token === null) return
      const to = pageOf(given.get('to'))
      // The token must not stay in the address. The page stays, for another token if this one is not accepted.
      history.replaceState(null, '', `/login#to=${to}`)
      mutate({ token, to })
    }
    takeToken()
    // Opening a second link in the same tab changes only the fragment.
    window.addEventListener('hashchange', takeToken)
    return () => {
      window.removeEventListener('hashchange', takeToken)
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
            const pasted = text.trim()
            // A whole link is accepted, too.
            const given = parametersOf(pasted)
            const to = given.get('to') ?? parametersOf(location.hash).get('to')
            mutate({ token: given.get('token') ?? pasted, to: pageOf(to) })
          }}
        >
          <h1>Pilothouse</h1>
          {login.isError && <Problem error={login.error} />}
          <p>
            Run <code>pilothouse --profile aws open</code> in a terminal, or paste a token of your identity provider or of{' '}
            <code>pilothouse --profile aws token</code>.
          </p>
          <p className={s.muted}>This page keeps the token in its memory only. The login ends when you close or reload the page.</p>
          <Field label="Token or link">
            <input
              className={s.input}
              value={text}
              autoComplete="off"
              // Some browsers send texts to a server to check their spelling.
              spellCheck={false}
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
