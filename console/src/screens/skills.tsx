import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, data } from '../api/client'
import type { MemoryPill, SkillSummary, SkillView } from '../api/types'
import { basedOn } from '../app/basedOn'
import { skillsQuery } from '../app/lists'
import { usePages, useReadWithSessions } from '../app/queries'
import { RequestButton } from '../app/requestButton'
import { ActionButton, Button, Card, Choice, Dialog, Empty, More, Problem, s } from '../ui'
import { ConfirmButton } from '../ui/confirm'
import { changesOf } from '../ui/schemaForm'
import { Badge } from '../ui/status'
import { Ago } from '../ui/time'
import { Code } from '../ui/toolInput'
import { Definitions, toolDefinition } from './definitions'
import c from './screens.module.css'

const STATUSES = ['Active', 'Consolidated', 'Dismissed'] as const

export function Skills() {
  const client = useQueryClient()
  const skills = useQuery({ ...skillsQuery, ...useReadWithSessions(skillsQuery.queryKey) })
  return (
    <Card
      title="Skills"
      aside={
        <RequestButton
          title="New skill"
          submit="Create the skill"
          schema={(named) => named('CreateSkill')}
          first={['name', 'description', 'instructions']}
          send={(values, header) => data(api.POST('/api/agents/skills', { params: { header }, body: values as never }))}
          done={() => void client.invalidateQueries({ queryKey: skillsQuery.queryKey })}
        >
          New skill
        </RequestButton>
      }
    >
      {skills.isError && <Problem error={skills.error} />}
      {skills.data?.items.length === 0 && <p className={s.muted}>None yet.</p>}
      <ul className={s.stack} aria-label="Skills">
        {skills.data?.items.map((skill) => (
          <Row key={skill.id} skill={skill} />
        ))}
      </ul>
    </Card>
  )
}

function Row({ skill: { id, name, description, isActive, version, toolCount, subAgentCount, activePillCount } }: { skill: SkillSummary }) {
  const client = useQueryClient()
  const [isOpen, setOpen] = useState(false)
  const params = { path: { id } }
  return (
    <li className={s.cardHead}>
      <span>
        <strong>{name}</strong> {!isActive && <Badge>inactive</Badge>}
        <br />
        <span className={s.muted}>
          {description}; version {version}, {toolCount} tools, {subAgentCount} subagents, {activePillCount} memory pills
        </span>
      </span>
      <span className={s.row}>
        <Button
          aria-label={`Open ${name}`}
          onClick={() => {
            setOpen(true)
          }}
        >
          Open
        </Button>
        <ActionButton
          aria-label={`${isActive ? 'Deactivate' : 'Activate'} ${name}`}
          action={() =>
            isActive
              ? api.POST('/api/agents/skills/{id}/deactivate', { params })
              : api.POST('/api/agents/skills/{id}/activate', { params })
          }
          done={() => void client.invalidateQueries({ queryKey: skillsQuery.queryKey })}
        >
          {isActive ? 'Deactivate' : 'Activate'}
        </ActionButton>
      </span>
      {isOpen && (
        <SkillDialog
          id={id}
          name={name}
          onClose={() => {
            setOpen(false)
          }}
        />
      )}
    </li>
  )
}

function SkillDialog({ id, name, onClose }: { id: string; name: string; onClose: () => void }) {
  const client = useQueryClient()
  const key = ['skill', id]
  const skill = useQuery({
    queryKey: key,
    queryFn: () => data(api.GET('/api/agents/skills/{id}', { params: { path: { id } } })),
    ...useReadWithSessions(key),
  })
  const reload = () => {
    for (const queryKey of [key, ['memory-pills', id], skillsQuery.queryKey]) void client.invalidateQueries({ queryKey })
  }
  return (
    <Dialog title={`Skill ${name}`} isOpen onClose={onClose}>
      {skill.isError && <Problem error={skill.error} />}
      {skill.data === undefined ? skill.isPending && <Empty>Loading …</Empty> : <Content skill={skill.data} reload={reload} />}
      <div className={s.dialogFoot}>
        <Button onClick={onClose}>Close</Button>
      </div>
    </Dialog>
  )
}

function Content({ skill, reload }: { skill: SkillView; reload: () => void }) {
  const { id, description, instructions, version, isActive, toolDefinitions, subAgentDefinitions, updatedAt } = skill
  const path = { id }
  const read = () => data(api.GET('/api/agents/skills/{id}', { params: { path } }))
  const textsOf = ({ name, description, instructions }: SkillView) => ({ name, description, instructions })
  /** A new memory pill also changes the revision, so only a change of the same part is refused. */
  const header = (part: (skill: SkillView) => unknown) => basedOn(skill, read, part, ({ revision }) => revision)
  return (
    <div className={s.stack}>
      <p>{description}</p>
      <div className={s.row}>
        <span className={s.muted}>
          Version {version}, changed <Ago at={updatedAt} />
        </span>
        {!isActive && <Badge>inactive</Badge>}
        <RequestButton
          title="Edit the skill"
          submit="Save"
          schema={(named) => ({ ...named('UpdateSkill'), required: ['name', 'description'] })}
          first={['name', 'description', 'instructions']}
          initial={textsOf(skill)}
          send={async (values) => {
            const body = changesOf(textsOf(skill), { ...values, instructions: values.instructions ?? '' })
            const params = { path, header: await header(textsOf) }
            return api.PUT('/api/agents/skills/{id}', { params, body: body as never })
          }}
          done={reload}
          failed={reload}
        >
          Edit
        </RequestButton>
      </div>
      <h3>Instructions</h3>
      {instructions === '' ? <p className={s.muted}>None.</p> : <Code label="Instructions">{instructions}</Code>}
      <Definitions
        title="Tools"
        add={{
          text: 'Add a tool',
          schema: 'ToolInput',
          first: ['name', 'description', 'serverUri', 'inputSchema'],
          send: (values, header) => api.POST('/api/agents/skills/{id}/tools', { params: { path, header }, body: values as never }),
        }}
        entries={toolDefinitions.map(toolDefinition)}
        remove={async (name) => {
          const params = { path: { id, name }, header: await header(({ toolDefinitions }) => toolDefinitions) }
          return api.DELETE('/api/agents/skills/{id}/tools/{name}', { params })
        }}
        reload={reload}
      />
      <Definitions
        title="Subagents"
        add={{
          text: 'Add a subagent',
          schema: 'SubAgentInput',
          first: ['name', 'description', 'modelId', 'instructions'],
          send: (values, header) => api.POST('/api/agents/skills/{id}/sub-agents', { params: { path, header }, body: values as never }),
        }}
        entries={subAgentDefinitions.map(({ name, description, modelId, toolDefinitions }) => ({
          id: name,
          name,
          details: `${description} (${modelId}, ${String(toolDefinitions.length)} tools)`,
        }))}
        remove={async (name) => {
          const params = { path: { id, name }, header: await header(({ subAgentDefinitions }) => subAgentDefinitions) }
          return api.DELETE('/api/agents/skills/{id}/sub-agents/{name}', { params })
        }}
        reload={reload}
      />
      <Pills skill={skill} reload={reload} />
    </div>
  )
}

/** What agents learned while they used the skill. */
function Pills({ skill: { id, consolidation, memoryPills }, reload }: { skill: SkillView; reload: () => void }) {
  const navigate = useNavigate()
  const [status, setStatus] = useState<string>('Active')
  const key = ['memory-pills', id, status]
  const pills = usePages(
    key,
    (cursor) => {
      const params = { path: { id }, query: { limit: 50, cursor, status: status === '' ? undefined : status } as never }
      return data(api.GET('/api/agents/skills/{id}/memory-pills', { params }))
    },
    useReadWithSessions(['memory-pills', id]),
  )
  const canConsolidate = consolidation == null && memoryPills.some((pill) => pill.status === 'Active')
  return (
    <div role="group" aria-label="Memory pills" className={s.stack}>
      <div className={s.cardHead}>
        <h3>Memory pills</h3>
        <span className={s.row}>
          <Choice label="Status of memory pills" any="All" options={STATUSES.map((one) => [one, one])} value={status} onChange={setStatus} />
          {canConsolidate && (
            <RequestButton
              title="Consolidate the memory pills"
              submit="Start the session"
              schema={(named) => named('Consolidate')}
              first={['workingDirectory', 'budgetCapUsd']}
              initial={{ budgetCapUsd: '5' }}
              send={(values, header) =>
                data(api.POST('/api/agents/skills/{id}/consolidate', { params: { path: { id }, header }, body: values as never }))
              }
              done={({ session }) => {
                reload()
                void navigate({ to: '/sessions/$id', params: { id: session.id } })
              }}
            >
              Consolidate
            </RequestButton>
          )}
        </span>
      </div>
      {consolidation != null && (
        <p>
          <Link to="/sessions/$id" params={{ id: consolidation.sessionId }}>
            A session
          </Link>{' '}
          writes {consolidation.pillIds.length} of them into the instructions.
        </p>
      )}
      {pills.error !== null && <Problem error={pills.error} />}
      {pills.isLoaded && pills.items.length === 0 && <p className={s.muted}>None.</p>}
      <ul className={s.stack}>
        {pills.items.map((pill) => (
          <Pill key={pill.id} pill={pill} reload={reload} />
        ))}
      </ul>
      <More pages={pills} text="Show earlier memory pills" />
    </div>
  )
}

function Pill({ pill: { id, skillId, sessionId, content, category, status, createdAt }, reload }: { pill: MemoryPill; reload: () => void }) {
  return (
    <li className={c.bubble}>
      <p>{content}</p>
      <div className={s.cardHead}>
        <span className={s.muted}>
          {category}, {status},{' '}
          <Link to="/sessions/$id" params={{ id: sessionId }}>
            recorded
          </Link>{' '}
          <Ago at={createdAt} />
        </span>
        {status === 'Active' && (
          <ConfirmButton
            question="Dismiss this memory pill?"
            consequence="Agents no longer see it, and it cannot be consolidated. A dismissed pill does not return."
            action={() =>
              api.DELETE('/api/agents/skills/{id}/memory-pills/{pillId}', { params: { path: { id: skillId, pillId: id } } })
            }
            reload={reload}
          >
            Dismiss
          </ConfirmButton>
        )}
      </div>
    </li>
  )
}
