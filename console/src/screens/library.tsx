import { useQuery, useQueryClient } from '@tanstack/react-query'
import { api, data } from '../api/client'
import { skillsQuery, templatesQuery } from '../app/lists'
import { ActionButton, Card, Problem, s } from '../ui'
import { Badge } from '../ui/status'
import { Ago } from '../ui/time'
import c from './screens.module.css'

/** Skills, templates, workers and webhooks. */
export function LibraryScreen() {
  return (
    <div className={s.stack}>
      <div className={c.head} style={{ marginBottom: 0 }}>
        <h1>Library</h1>
      </div>
      <Skills />
      <Templates />
      <Workers />
      <Webhooks />
    </div>
  )
}

function Skills() {
  const client = useQueryClient()
  const skills = useQuery(skillsQuery)
  return (
    <Card title="Skills">
      {skills.isError && <Problem error={skills.error} />}
      {skills.data?.items.length === 0 && (
        <p className={s.muted}>
          None yet. Create one with <code>pilothouse skill create</code>.
        </p>
      )}
      <ul className={s.stack}>
        {skills.data?.items.map(({ id, name, description, isActive, toolCount, activePillCount }) => (
          <li key={id} className={s.cardHead}>
            <span>
              <strong>{name}</strong> {!isActive && <Badge>inactive</Badge>}
              <br />
              <span className={s.muted}>
                {description}; {toolCount} tools, {activePillCount} memory pills
              </span>
            </span>
            <ActionButton
              action={() =>
                isActive
                  ? api.POST('/api/agents/skills/{id}/deactivate', { params: { path: { id } } })
                  : api.POST('/api/agents/skills/{id}/activate', { params: { path: { id } } })
              }
              done={() => void client.invalidateQueries({ queryKey: ['skills'] })}
            >
              {isActive ? 'Deactivate' : 'Activate'}
            </ActionButton>
          </li>
        ))}
      </ul>
    </Card>
  )
}

function Templates() {
  const client = useQueryClient()
  const templates = useQuery(templatesQuery)
  return (
    <Card title="Templates and schedules">
      {templates.isError && <Problem error={templates.error} />}
      {templates.data?.items.length === 0 && (
        <p className={s.muted}>
          None yet. Create one with <code>pilothouse template create</code>.
        </p>
      )}
      <ul className={s.stack}>
        {templates.data?.items.map(({ id, name, description, isActive, modelId, nextRunAt, ruleCount }) => (
          <li key={id} className={s.cardHead}>
            <span>
              <strong>{name}</strong> {!isActive && <Badge>inactive</Badge>}
              <br />
              <span className={s.muted}>
                {description != null && `${description}; `}
                {modelId}, {ruleCount} rules for events
                {nextRunAt != null && (
                  <>
                    , next run <Ago at={nextRunAt} />
                  </>
                )}
              </span>
            </span>
            <ActionButton
              action={() =>
                isActive
                  ? api.POST('/api/agents/templates/{id}/deactivate', { params: { path: { id } } })
                  : api.POST('/api/agents/templates/{id}/activate', { params: { path: { id } } })
              }
              done={() => void client.invalidateQueries({ queryKey: ['templates'] })}
            >
              {isActive ? 'Deactivate' : 'Activate'}
            </ActionButton>
          </li>
        ))}
      </ul>
    </Card>
  )
}

function Workers() {
  const workers = useQuery({ queryKey: ['workers'], queryFn: () => data(api.GET('/api/workers', { params: { query: { limit: 200 } } })) })
  return (
    <Card title="Workers">
      {workers.isError && <Problem error={workers.error} />}
      {workers.data?.items.length === 0 && (
        <p className={s.muted}>
          Sessions run on the server itself. Add a machine with <code>pilothouse worker</code>.
        </p>
      )}
      <ul className={s.stack}>
        {workers.data?.items.map(({ id, alive, draining, capacity, runs, seenAt }) => (
          <li key={id} className={s.cardHead}>
            <span>
              <strong>{id}</strong> <Badge tone={alive ? 'good' : 'bad'}>{alive ? 'alive' : 'silent'}</Badge>{' '}
              {draining && <Badge tone="warn">draining</Badge>}
            </span>
            <span className={s.muted}>
              {runs.length} of {capacity} runs, seen <Ago at={seenAt} />
            </span>
          </li>
        ))}
      </ul>
    </Card>
  )
}

function Webhooks() {
  const webhooks = useQuery({ queryKey: ['webhooks'], queryFn: () => data(api.GET('/api/webhooks')) })
  return (
    <Card title="Webhooks">
      {webhooks.isError && <Problem error={webhooks.error} />}
      {webhooks.data?.items.length === 0 && <p className={s.muted}>None.</p>}
      <ul className={s.stack}>
        {webhooks.data?.items.map(({ id, url, disabled }) => (
          <li key={id} className={s.cardHead}>
            <code>{url}</code>
            <Badge tone={disabled == null ? 'good' : 'bad'}>{disabled == null ? 'enabled' : 'disabled'}</Badge>
          </li>
        ))}
      </ul>
    </Card>
  )
}
