import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { api, consoleRequest, data } from '../api/client'
import { storeConsoleKey } from '../api/key'
import { forgetThisDevice } from '../app/webPush'
import { chooseTheme, theme, type Theme } from '../app/theme'
import { useStore } from '../live/store'
import { ActionButton, Card, Field, Problem, s } from '../ui'
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
          <dd>{settings.data.retentionDays} days</dd>
          <dt>A model reviews coherence issues</dt>
          <dd>{settings.data.reviewsCoherence ? 'yes' : 'no'}</dd>
          <dt>Texts are compared by</dt>
          <dd>{settings.data.embedsTexts ? 'an embedding model' : 'their words'}</dd>
        </dl>
      )}
    </Card>
  )
}

export function SettingsScreen() {
  const chosen = useStore(theme)
  const navigate = useNavigate()
  const session = useQuery({
    queryKey: ['console-session'],
    queryFn: () => consoleRequest<{ ownerId: string; loginId?: string }>('session'),
  })
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
      <ServerCard />
    </div>
  )
}
