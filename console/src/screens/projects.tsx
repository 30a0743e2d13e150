import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { api, data } from '../api/client'
import { portfolioQuery, projectsQuery } from '../app/lists'
import { useReadWithSessions } from '../app/queries'
import { RequestButton } from '../app/requestButton'
import { Card, Empty, Problem, s } from '../ui'
import { dollars } from '../ui/money'
import { Badge } from '../ui/status'
import c from './screens.module.css'

/** All projects, with their agents, open decisions, spend and trust. */
export function ProjectsScreen() {
  const portfolio = useQuery({ ...portfolioQuery, ...useReadWithSessions(portfolioQuery.queryKey) })
  return (
    <>
      <div className={c.head}>
        <h1>Projects</h1>
        <NewProject />
      </div>
      {portfolio.isError && <Problem error={portfolio.error} />}
      {portfolio.data?.items.length === 0 && (
        <Empty>There is no project yet.</Empty>
      )}
      <div className={c.grid}>
        {portfolio.data?.items.map(({ projectId, name, controlMode, agents, openDecisions, spentUsd, ...rest }) => {
          const waiting = Object.values(openDecisions).reduce((sum, count) => sum + count, 0)
          return (
            <Card
              key={projectId}
              title={
                <Link to="/projects/$id" params={{ id: projectId }}>
                  {name}
                </Link>
              }
              aside={<Badge tone="info">{controlMode}</Badge>}
            >
              <dl className={s.facts}>
                <dt>Agents</dt>
                <dd>
                  {Object.entries(agents)
                    .map(([status, count]) => `${String(count)} ${status.replaceAll('_', ' ')}`)
                    .join(', ') || 'none'}
                </dd>
                <dt>Waiting</dt>
                <dd>{waiting > 0 ? <Badge tone="warn">{waiting} decisions</Badge> : 'nothing'}</dd>
                <dt>Spent</dt>
                <dd>
                  {dollars(spentUsd)}
                  {rest.spendingCap != null && ` of ${dollars(rest.spendingCap.usd)}`}
                </dd>
                {rest.trust != null && (
                  <>
                    <dt>Trust</dt>
                    <dd>
                      lowest {rest.trust.lowest}, median {rest.trust.median}
                    </dd>
                  </>
                )}
                {(rest.brakes?.length ?? 0) > 0 && (
                  <>
                    <dt>Brake</dt>
                    <dd>
                      <Badge tone="bad">in force</Badge>
                    </dd>
                  </>
                )}
              </dl>
            </Card>
          )
        })}
      </div>
    </>
  )
}

function NewProject() {
  const client = useQueryClient()
  const navigate = useNavigate()
  return (
    <RequestButton
      look="primary"
      title="New project"
      submit="Create the project"
      schema={(named) => named('CreateProject')}
      first={['name', 'description', 'goals', 'constraints', 'workstreams', 'controlMode']}
      send={(values, header) => data(api.POST('/api/projects', { params: { header }, body: values as never }))}
      done={({ id }) => {
        for (const { queryKey } of [projectsQuery, portfolioQuery]) void client.invalidateQueries({ queryKey })
        void navigate({ to: '/projects/$id', params: { id } })
      }}
    >
      New project
    </RequestButton>
  )
}
