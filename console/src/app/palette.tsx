import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { Command } from 'cmdk'
import { useDeferredValue, useState } from 'react'
import { api, data } from '../api/client'
import { roster } from '../live/roster'
import { useStore } from '../live/store'
import { readAll } from '../live/notifications'
import { StatusBadge } from '../ui/status'
import { s, showProblem } from '../ui'
import { offeredActions } from './keyboard'
import { projectsQuery } from './lists'
import type { Opened } from './opened'
import c from './shell.module.css'
import { chooseTheme, theme } from './theme'

const PLACES = [
  ['Inbox', '/'],
  ['Sessions', '/sessions'],
  ['Projects', '/projects'],
  ['Costs', '/costs'],
  ['Library: skills, templates, workers', '/library'],
  ['Dead letters', '/dead-letters'],
  ['Settings', '/settings'],
] as const

/** How many sessions the palette offers, latest first. */
const OFFERED = 200

/** The pause in typing after which the server is asked. */
const PAUSE_MS = 200

/** Finds a place, a session, a project, or an action of the screen by its name. */
export default function Palette({ onClose, open }: { onClose: () => void; open: (what: Opened) => void }) {
  const navigate = useNavigate()
  const { sessions } = useStore(roster)
  const projects = useQuery(projectsQuery)
  const [wanted, setWanted] = useState('')
  const words = useDeferredValue(wanted.trim())
  const found = useQuery({
    queryKey: ['search', words],
    queryFn: async ({ signal }) => {
      // The next key ends this wait, or the request.
      await new Promise((done) => setTimeout(done, PAUSE_MS))
      signal.throwIfAborted()
      return data(api.GET('/api/agents/search', { params: { query: { query: words } }, signal }))
    },
    enabled: words.length > 1,
    retry: false,
  })
  const newest = [...sessions.values()].sort((a, b) => b.createdAt.localeCompare(a.createdAt)).slice(0, OFFERED)
  // Sessions that the list below does not find by their names.
  const listed = new Set(newest.filter(({ name }) => name.toLowerCase().includes(words.toLowerCase())).map(({ id }) => id))
  const others = (words.length > 1 ? (found.data?.items ?? []) : []).filter(({ session }) => !listed.has(session.id))
  // The actions at the time when the palette opened, one for each label.
  const [actions] = useState(() => [...new Map(offeredActions().map((action) => [action.label, action])).values()])
  const go = (to: string) => () => {
    onClose()
    void navigate({ to })
  }
  return (
    <Command.Dialog
      open
      label="Find"
      onOpenChange={(isOpen) => {
        if (!isOpen) onClose()
      }}
      overlayClassName={s.overlay}
      contentClassName={c.palette}
    >
      <Command.Input placeholder="Find a session, a project or an action" value={wanted} onValueChange={setWanted} />
      <Command.List>
        <Command.Empty>No match.</Command.Empty>
        {actions.length > 0 && (
          <Command.Group heading="On this screen">
            {actions.map(({ label, key, run }) => (
              <Command.Item
                key={label}
                onSelect={() => {
                  onClose()
                  // The closing palette gives the focus back in a timer of its own. The action may move the focus after that.
                  setTimeout(() => setTimeout(run))
                }}
              >
                {label} {key !== undefined && <kbd>{key}</kbd>}
              </Command.Item>
            ))}
          </Command.Group>
        )}
        <Command.Group heading="Actions">
          <Command.Item
            onSelect={() => {
              open('dispatch')
            }}
          >
            New session <kbd>c</kbd>
          </Command.Item>
          <Command.Item
            onSelect={() => {
              open('brake')
            }}
          >
            Emergency brake <kbd>!</kbd>
          </Command.Item>
          <Command.Item
            onSelect={() => {
              open('shortcuts')
            }}
          >
            Keyboard shortcuts <kbd>?</kbd>
          </Command.Item>
          <Command.Item
            onSelect={() => {
              chooseTheme(theme.get() === 'dark' ? 'light' : 'dark')
              onClose()
            }}
          >
            Switch between light and dark
          </Command.Item>
          <Command.Item
            onSelect={() => {
              onClose()
              readAll().catch(showProblem)
            }}
          >
            Mark all notifications as read
          </Command.Item>
        </Command.Group>
        <Command.Group heading="Places">
          {PLACES.map(([label, to]) => (
            <Command.Item key={to} onSelect={go(to)}>
              {label}
            </Command.Item>
          ))}
        </Command.Group>
        {newest.length > 0 && (
          <Command.Group heading="Sessions">
            {newest.map(({ id, name, status }) => (
              <Command.Item key={id} value={`${name} ${id}`} onSelect={go(`/sessions/${id}`)}>
                <span>{name}</span>
                <StatusBadge status={status} />
              </Command.Item>
            ))}
          </Command.Group>
        )}
        {(projects.data?.items.length ?? 0) > 0 && (
          <Command.Group heading="Projects">
            {projects.data?.items.map(({ id, name }) => (
              <Command.Item key={id} value={`${name} ${id}`} onSelect={go(`/projects/${id}`)}>
                {name}
              </Command.Item>
            ))}
          </Command.Group>
        )}
        {/* They have the words, though not in their names, so nothing here may filter or rank them. */}
        {others.length > 0 && (
          <Command.Group heading="Sessions with these words" forceMount>
            {others.map(({ session: { id, name, status } }) => (
              <Command.Item key={id} value={`found ${id}`} forceMount onSelect={go(`/sessions/${id}`)}>
                <span>{name}</span>
                <StatusBadge status={status} />
              </Command.Item>
            ))}
          </Command.Group>
        )}
      </Command.List>
    </Command.Dialog>
  )
}
