import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { consoleRequest } from '../api/client'
import { storeConsoleKey } from '../api/key'
import { chooseTheme, theme, type Theme } from '../app/theme'
import { useStore } from '../live/store'
import { ActionButton, Card, Field, Problem, s } from '../ui'
import { AnotherDevice, Logins } from './logins'
import { NotifiedDevices, ThisDeviceNotifications } from './notificationSettings'
import c from './screens.module.css'

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
    </div>
  )
}
