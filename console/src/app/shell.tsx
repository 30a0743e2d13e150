import * as Menu from '@radix-ui/react-dropdown-menu'
import { Link, Outlet, useNavigate } from '@tanstack/react-router'
import { lazy, Suspense, useEffect, useState } from 'react'
import { followInbox, inbox } from '../live/inbox'
import { followNotifications, notifications, readAll } from '../live/notifications'
import { followRoster } from '../live/roster'
import { failedReads, lostStreams } from '../live/outdated'
import { useStore } from '../live/store'
import { Button, s, showProblem } from '../ui'
import { Ago, Clock } from '../ui/time'
import { Toasts } from '../ui/toasts'
import { Brakes, BrakeDialog } from './brake'
import { useKeys } from './keyboard'
import { NOTIFIED, onOpened } from './notified'
import type { Opened } from './opened'
import { Shortcuts } from './shortcuts'
import c from './shell.module.css'

const Palette = lazy(() => import('./palette'))
const Dispatch = lazy(() => import('./dispatch'))

const PLACES = [
  { to: '/', label: 'Inbox' },
  { to: '/sessions', label: 'Sessions' },
  { to: '/projects', label: 'Projects' },
] as const
const MORE = [
  { to: '/costs', label: 'Costs' },
  { to: '/library', label: 'Library' },
  { to: '/dead-letters', label: 'Dead letters' },
  { to: '/settings', label: 'Settings' },
] as const

/** The frame of all screens: navigation, notifications, brakes and dialogs. It follows the streams that every screen needs. */
export function Shell() {
  const [opened, setOpened] = useState<Opened>()
  const navigate = useNavigate()
  const count = useStore(inbox).open.length
  useEffect(() => {
    const streams = [followInbox(), followRoster(), followNotifications()]
    return () => {
      for (const close of streams) close()
    }
  }, [])
  useEffect(() => {
    if (localStorage.getItem(NOTIFIED) === null) return
    // A failure is of no use here: the settings show the state of the subscription.
    import('./webPush').then(({ renewSubscription }) => renewSubscription()).catch(() => undefined)
  }, [])
  // The browser may be subscribed later, also by another tab.
  useEffect(() => onOpened((to) => void navigate({ to })), [navigate])
  useEffect(() => {
    document.title = count > 0 ? `(${String(count)}) Pilothouse` : 'Pilothouse'
  }, [count])
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault()
        setOpened((now) => (now === 'palette' ? undefined : 'palette'))
      }
    }
    window.addEventListener('keydown', press)
    return () => {
      window.removeEventListener('keydown', press)
    }
  }, [])
  const go = (to: string) => () => {
    void navigate({ to })
  }
  useKeys({
    'g i': go('/'),
    'g s': go('/sessions'),
    'g p': go('/projects'),
    'g c': go('/costs'),
    'g l': go('/library'),
    'g d': go('/dead-letters'),
    'g e': go('/settings'),
    c: () => {
      setOpened('dispatch')
    },
    '!': () => {
      setOpened('brake')
    },
    '?': () => {
      setOpened('shortcuts')
    },
  })
  const close = () => {
    setOpened(undefined)
  }
  return (
    <div className={c.shell}>
      <a className={`${c.skip ?? ''} ${s.button ?? ''}`} href="#main">
        Skip to content
      </a>
      <nav className={c.nav} aria-label="Main">
        <div className={c.brand}>
          <img src="/icon.svg" alt="" width="26" height="26" />
          Pilothouse
        </div>
        {PLACES.map(({ to, label }) => (
          <Link key={to} to={to} className={c.link} activeOptions={{ exact: to === '/' }}>
            {label}
            {to === '/' && count > 0 && (
              <span className={c.count}>
                {count}
                <span className={s.visuallyHidden}> waiting</span>
              </span>
            )}
          </Link>
        ))}
        {MORE.map(({ to, label }) => (
          <Link key={to} to={to} className={`${c.link ?? ''} ${c.wide ?? ''}`}>
            {label}
          </Link>
        ))}
        <Menu.Root>
          <Menu.Trigger className={`${c.link ?? ''} ${c.narrow ?? ''} ${s.quiet ?? ''}`}>More</Menu.Trigger>
          <Menu.Portal>
            <Menu.Content className={s.menu} align="end" sideOffset={6}>
              {MORE.map(({ to, label }) => (
                <Menu.Item key={to} asChild>
                  <Link to={to} className={s.menuItem}>
                    {label}
                  </Link>
                </Menu.Item>
              ))}
              <Menu.Item
                className={s.menuItem}
                onSelect={() => {
                  setOpened('palette')
                }}
              >
                Find …
              </Menu.Item>
            </Menu.Content>
          </Menu.Portal>
        </Menu.Root>
      </nav>
      <header className={c.top}>
        <Button
          className={c.wide}
          onClick={() => {
            setOpened('palette')
          }}
        >
          Find … <kbd>Ctrl K</kbd>
        </Button>
        <Button
          look="primary"
          onClick={() => {
            setOpened('dispatch')
          }}
        >
          New session
        </Button>
        <span className={s.row}>
          <Notifications />
          <Button
            look="stop"
            onClick={() => {
              setOpened('brake')
            }}
          >
            Brake
          </Button>
        </span>
      </header>
      <main className={c.main} id="main" tabIndex={-1}>
        <LostConnection />
        <Brakes />
        <Suspense>
          <Outlet />
        </Suspense>
      </main>
      <Toasts />
      {opened === 'brake' && <BrakeDialog onClose={close} />}
      {opened === 'shortcuts' && <Shortcuts onClose={close} />}
      <Suspense>
        {opened === 'palette' && <Palette onClose={close} open={setOpened} />}
        {opened === 'dispatch' && <Dispatch onClose={close} />}
      </Suspense>
    </div>
  )
}

function LostConnection() {
  const lost = useStore(lostStreams)
  const failed = useStore(failedReads)
  if (lost.size === 0 && failed.size === 0) return null
  const since = (times: ReadonlyMap<string, number>) => <Clock at={new Date(Math.min(...times.values())).toISOString()} />
  return (
    <p className={c.banner} role="status">
      <span>
        {lost.size > 0 ? (
          <>Not connected since {since(lost)}: this page may be out of date. Reconnecting …</>
        ) : (
          <>The server has not sent a list since {since(failed)}: this page may be out of date. Trying again …</>
        )}
      </span>
    </p>
  )
}

function Notifications() {
  const all = useStore(notifications)
  const unread = all.filter(({ readAt }) => readAt == null).length
  return (
    <Menu.Root>
      <Menu.Trigger asChild>
        <Button look="quiet">
          Notifications{unread > 0 && <span className={c.count}>{unread}</span>}
          <span className={s.visuallyHidden}>{unread} unread</span>
        </Button>
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Content className={`${s.menu ?? ''} ${c.notices ?? ''}`} align="end" sideOffset={6}>
          {unread > 0 && (
            <Menu.Item
              className={s.menuItem}
              onSelect={() => {
                readAll().catch(showProblem)
              }}
            >
              Mark all as read
            </Menu.Item>
          )}
          {all.length === 0 && <Menu.Label className={s.empty}>No notifications yet.</Menu.Label>}
          {all.map(({ sequence, text, at, sessionId, readAt }) => (
            <Menu.Item key={sequence} asChild disabled={sessionId == null}>
              <Link
                to="/sessions/$id"
                params={{ id: sessionId ?? '' }}
                className={`${s.menuItem ?? ''} ${c.notice ?? ''}`}
              >
                <span>{readAt == null ? <strong>{text}</strong> : text}</span>
                <small className={s.muted}>
                  <Ago at={at} />
                </small>
              </Link>
            </Menu.Item>
          ))}
        </Menu.Content>
      </Menu.Portal>
    </Menu.Root>
  )
}
