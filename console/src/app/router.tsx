import { createRootRoute, createRoute, createRouter, lazyRouteComponent, Outlet, redirect } from '@tanstack/react-router'
import { onLoggedOut } from '../api/client'
import { isLoggedIn } from '../api/credentials'
import { isCloud } from '../api/profile'
import { InboxScreen } from '../screens/inbox'
import { LoginScreen } from './login'
import { Shell } from './shell'
import { TokenLoginScreen } from './tokenLogin'
import { Problem } from '../ui'

const root = createRootRoute({ component: Outlet, notFoundComponent: NotFound })

function NotFound() {
  return <p>There is nothing at this address.</p>
}

const login = createRoute({
  getParentRoute: () => root,
  path: '/login',
  component: isCloud ? TokenLoginScreen : LoginScreen,
})

/** The fragment with which a login leads back to a page. In `aws`, each reload of the page needs a login. */
function fragmentFor(path: string): string | undefined {
  return isCloud && path !== '/' ? `to=${path}` : undefined
}

const shell = createRoute({
  getParentRoute: () => root,
  id: 'shell',
  component: Shell,
  beforeLoad: ({ location }) => {
    // TanStack Router declares that redirects are thrown.
    // eslint-disable-next-line @typescript-eslint/only-throw-error
    if (!isLoggedIn()) throw redirect({ to: '/login', hash: fragmentFor(location.pathname) })
  },
})

/** The texts of these names in an address. */
function texts<N extends string>(...names: readonly N[]) {
  return (search: Record<string, unknown>): Partial<Record<N, string>> => {
    const found = names.map((name) => [name, search[name]] as const)
    return Object.fromEntries(
      found.flatMap(([name, value]) =>
        typeof value === 'string' || typeof value === 'number' ? [[name, String(value)] as const] : [],
      ),
    ) as Partial<Record<N, string>>
  }
}

const screens = [
  createRoute({ getParentRoute: () => shell, path: '/', component: InboxScreen }),
  createRoute({
    getParentRoute: () => shell,
    path: '/sessions',
    component: lazyRouteComponent(() => import('../screens/roster'), 'RosterScreen'),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: '/sessions/$id',
    component: lazyRouteComponent(() => import('../screens/session'), 'SessionScreen'),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: '/projects',
    component: lazyRouteComponent(() => import('../screens/projects'), 'ProjectsScreen'),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: '/projects/$id',
    component: lazyRouteComponent(() => import('../screens/project'), 'ProjectScreen'),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: '/projects/$id/artifacts',
    validateSearch: texts('artifact', 'workstream', 'kind', 'state', 'agentId'),
    component: lazyRouteComponent(() => import('../screens/artifacts'), 'ArtifactsScreen'),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: '/projects/$id/coherence',
    validateSearch: texts('issue', 'workstream', 'category', 'severity', 'state'),
    component: lazyRouteComponent(() => import('../screens/coherence'), 'CoherenceScreen'),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: '/projects/$id/knowledge',
    validateSearch: texts('query', 'agentId', 'tokens'),
    component: lazyRouteComponent(() => import('../screens/knowledge'), 'KnowledgeScreen'),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: '/projects/$id/map',
    component: lazyRouteComponent(() => import('../screens/map'), 'MapScreen'),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: '/projects/$id/brief',
    validateSearch: texts('agentId'),
    component: lazyRouteComponent(() => import('../screens/brief'), 'BriefScreen'),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: '/costs',
    component: lazyRouteComponent(() => import('../screens/costs'), 'CostsScreen'),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: '/library',
    component: lazyRouteComponent(() => import('../screens/library'), 'LibraryScreen'),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: '/dead-letters',
    component: lazyRouteComponent(() => import('../screens/deadLetters'), 'DeadLettersScreen'),
  }),
  createRoute({
    getParentRoute: () => shell,
    path: '/settings',
    component: lazyRouteComponent(() => import('../screens/settings'), 'SettingsScreen'),
  }),
] as const

export const router = createRouter({
  routeTree: root.addChildren([login, shell.addChildren(screens)]),
  defaultPreload: 'intent',
  defaultErrorComponent: ({ error }) => <Problem error={error} />,
})

onLoggedOut(() => {
  const { pathname } = router.state.location
  if (pathname === '/login') return
  // Loads the page again, so that neither the token nor data of its owner stays in memory.
  if (isCloud) location.replace(`/login#${fragmentFor(pathname) ?? ''}`)
  else void router.navigate({ to: '/login' })
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
