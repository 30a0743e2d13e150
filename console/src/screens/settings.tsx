import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { api, consoleRequest, data } from '../api/client'
import { storeConsoleKey } from '../api/key'
import { isCloud } from '../api/profile'
import { bearerToken, claimsOf, storeToken } from '../api/token'
import { forgetThisDevice, thisDevice, unsubscribe } from '../app/webPush'
import { chooseTheme, theme, type Theme } from '../app/theme'
import { useStore } from '../live/store'
import { ActionButton, Card, Field, Problem, s } from '../ui'
import { Ago } from '../ui/time'
import { AnotherDevice, Logins } from './logins'
import { NotifiedDevices, ThisDeviceNotifications } from './notificationSettings'
import c from './screens.module.css'

/** What the operator chose when the server was started. */
function ServerCard() {
  const settings = useQuery({ queryKey: ['settings'], queryFn: () => data(api.GET('/api/settings')) })
  return (
    <Card title="Server">
      {settings.isError && <Problem error={settings.error} />}
      {settings.data !== undefined && (
        <dl className={s.facts}>
          <dt>Adapter of sessions that name none</dt>
          <dd>{settings.data.defaultAdapter ?? 'none'}</dd>
          <dt>Models that sessions may use</dt>
          <dd>{settings.data.allowedModels.length === 0 ? 'all' : settings.data.allowedModels.join(', ')}</dd>
          <dt>Events, activity and notifications are kept</dt>
          <dd>
            {settings.data.retentionDays} days
            <br />
            <small className={s.muted}>
              Only the operator changes this, with {isCloud ? <code>infra/deploy --set RetentionDays=30</code> : <code>pilothouse up --retention-days 30</code>}.
              It affects new entries.
            </small>
          </dd>
          <dt>A model reviews coherence issues</dt>
          <dd>{settings.data.reviewsCoherence ? 'yes' : 'no'}</dd>
          <dt>Texts are compared by</dt>
          <dd>{settings.data.embedsTexts ? 'an embedding model' : 'their words'}</dd>
        </dl>
      )}
    </Card>
  )
}

/** The login of this browser at the embedded server, and the others of its owner. */
function BrowserLogins() {
  const navigate = useNavigate()
  const session = useQuery({
    queryKey: ['console-session'],
    queryFn: () => consoleRequest<{ ownerId: string; loginId?: string }>('session'),
  })
  return (
    <>
      <Card title="This login">
        <div className={s.stack}>
          {session.isError && <Problem error={session.error} />}
          <p>
            You act as <strong>{session.data?.ownerId}</strong>. A login lasts seven days.
          </p>
          <div>
            <ActionButton
              action={async () => {
                await consoleRequest('logout', {})
                storeConsoleKey(null)
                // A browser without push services fails here, and there is nothing to forget.
                forgetThisDevice().catch(() => undefined)
              }}
              done={() => void navigate({ to: '/login' })}
            >
              Log out
            </ActionButton>
          </div>
        </div>
      </Card>
      <Logins own={session.data?.loginId} />
      <AnotherDevice />
    </>
  )
}

/** The token with which this page acts in `aws`. */
function TokenLogin() {
  const { owner, expiresAt } = claimsOf(bearerToken() ?? '')
  return (
    <Card title="This login">
      <div className={s.stack}>
        <p>
          You act as <strong>{owner}</strong>. This page keeps your token in its memory only, so the login ends when you close or reload
          the page.
          {expiresAt !== undefined && (
            <>
              {' '}
              The token ends <Ago at={expiresAt} />.
            </>
          )}
        </p>
        <p className={s.muted}>
          Logins and tokens are not listed here. Tokens come from your identity provider, which ends them, or from{' '}
          <code>pilothouse token</code>: a program that can read the signing key can sign another one.
        </p>
        <div>
          <ActionButton
            action={async () => {
              const device = thisDevice.get()
              // No login is recorded whose end would end the notifications. A failure must not keep the person logged in.
              if (device !== undefined) await unsubscribe(device.id).catch(() => undefined)
              storeToken(undefined)
            }}
            // Loads the page again, so that no data of the owner stays in memory.
            done={() => {
              location.replace('/login')
            }}
          >
            Log out
          </ActionButton>
        </div>
      </div>
    </Card>
  )
}

export function SettingsScreen() {
  const chosen = useStore(theme)
  return (
    <div className={s.stack} style={{ maxWidth: '42rem' }}>
      <div className={c.head} style={{ marginBottom: 0 }}>
        <h1>Settings</h1>
      </div>
      <Card title="Appearance">
        <Field label="Colours">
          <select
            className={s.input}
            value={chosen}
            onChange={({ target }) => {
              chooseTheme(target.value as Theme)
            }}
          >
            <option value="system">As the device</option>
            <option value="light">Light</option>
            <option value="dark">Dark</option>
          </select>
        </Field>
      </Card>
      <ThisDeviceNotifications />
      <NotifiedDevices />
      {isCloud ? <TokenLogin /> : <BrowserLogins />}
      <ServerCard />
    </div>
  )
}
