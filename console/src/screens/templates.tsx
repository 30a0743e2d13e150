import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, data } from '../api/client'
import type { TemplateSummary, TemplateView } from '../api/types'
import { skillsQuery, templatesQuery } from '../app/lists'
import { useReadWithSessions } from '../app/queries'
import { RequestButton } from '../app/requestButton'
import { ActionButton, Button, Card, Choice, Dialog, Empty, Problem, s } from '../ui'
import { dollars } from '../ui/money'
import { changesOf, withValues, type Values } from '../ui/schemaForm'
import { Badge } from '../ui/status'
import { Ago } from '../ui/time'
import { Code } from '../ui/toolInput'
import { Definitions, toolDefinition } from './definitions'
import { ScheduleDialog, templateHeader, useTemplate } from './schedule'

/** The fields of a form for a template that are shown at first. */
const FIRST = ['name', 'description', 'modelId', 'allowedTools', 'defaultBudgetCapUsd', 'adapter', 'systemPrompt']

export function Templates() {
  const client = useQueryClient()
  const templates = useQuery({ ...templatesQuery, ...useReadWithSessions(templatesQuery.queryKey) })
  const skills = useQuery(skillsQuery)
  return (
    <Card
      title="Templates and schedules"
      aside={
        <RequestButton
          title="New template"
          submit="Create the template"
          // The schedule has a form of its own.
          schema={(named) => {
            const { properties = {}, ...rest } = named('CreateTemplate')
            return { ...rest, properties: Object.fromEntries(Object.entries(properties).filter(([name]) => name !== 'schedule')) }
          }}
          first={FIRST}
          initial={{ defaultBudgetCapUsd: '5' }}
          options={{ defaultSkillIds: (skills.data?.items ?? []).filter(({ isActive }) => isActive).map(({ id, name }) => [id, name]) }}
          send={(values, header) => {
            const body = { customToolDefinitions: [], classificationRules: [], ...values }
            return data(api.POST('/api/agents/templates', { params: { header }, body: body as never }))
          }}
          done={() => void client.invalidateQueries({ queryKey: templatesQuery.queryKey })}
        >
          New template
        </RequestButton>
      }
    >
      {templates.isError && <Problem error={templates.error} />}
      {templates.data?.items.length === 0 && <p className={s.muted}>None yet.</p>}
      <ul className={s.stack} aria-label="Templates">
        {templates.data?.items.map((template) => (
          <Row key={template.id} template={template} />
        ))}
      </ul>
    </Card>
  )
}

function Row({ template: { id, name, description, isActive, modelId, nextRunAt, ruleCount } }: { template: TemplateSummary }) {
  const client = useQueryClient()
  const [opened, setOpened] = useState<'template' | 'schedule'>()
  const params = { path: { id } }
  const close = () => {
    setOpened(undefined)
  }
  return (
    <li className={s.cardHead}>
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
      <span className={s.row}>
        <Button
          aria-label={`Open ${name}`}
          onClick={() => {
            setOpened('template')
          }}
        >
          Open
        </Button>
        <Button
          aria-label={`Schedule of ${name}`}
          onClick={() => {
            setOpened('schedule')
          }}
        >
          Schedule
        </Button>
        <ActionButton
          aria-label={`${isActive ? 'Deactivate' : 'Activate'} ${name}`}
          action={() =>
            isActive
              ? api.POST('/api/agents/templates/{id}/deactivate', { params })
              : api.POST('/api/agents/templates/{id}/activate', { params })
          }
          done={() => void client.invalidateQueries({ queryKey: templatesQuery.queryKey })}
        >
          {isActive ? 'Deactivate' : 'Activate'}
        </ActionButton>
      </span>
      {opened === 'template' && <TemplateDialog id={id} name={name} onClose={close} />}
      {opened === 'schedule' && <ScheduleDialog id={id} name={name} onClose={close} />}
    </li>
  )
}

function TemplateDialog({ id, name, onClose }: { id: string; name: string; onClose: () => void }) {
  const { template, reload } = useTemplate(id)
  return (
    <Dialog title={`Template ${name}`} isOpen onClose={onClose}>
      {template.isError && <Problem error={template.error} />}
      {template.data === undefined ? template.isPending && <Empty>Loading …</Empty> : <Content template={template.data} reload={reload} />}
      <div className={s.dialogFoot}>
        <Button onClick={onClose}>Close</Button>
      </div>
    </Dialog>
  )
}

/** The fields of a template under the names of a request that changes them. */
function fieldsOf({ defaultBudget: { hardCapUsd, warnAtPercent, allowUnmetered }, ...rest }: TemplateView): Values {
  return withValues({ ...rest, defaultBudgetCapUsd: hardCapUsd, warnAtPercent, allowUnmetered })
}

/** The parts that have actions of their own, or that change without a person. */
const NOT_EDITED = ['version', 'updatedAt', 'isActive', 'schedule', 'classificationRules', 'customToolDefinitions', 'defaultSkillIds']

/** The part of a template that its form changes. */
function editedPart(template: TemplateView) {
  return Object.entries(template).filter(([name]) => !NOT_EDITED.includes(name))
}

function Content({ template, reload }: { template: TemplateView; reload: () => void }) {
  const { id, description, modelId, allowedTools, defaultBudget, adapter, systemPrompt, updatedAt } = template
  const path = { id }
  const fields = fieldsOf(template)
  return (
    <div className={s.stack}>
      {description != null && <p>{description}</p>}
      <dl className={s.facts}>
        <dt>Model</dt>
        <dd>{modelId}</dd>
        <dt>Adapter</dt>
        <dd>{adapter ?? 'that of the server'}</dd>
        <dt>Tools</dt>
        <dd>{allowedTools.join(', ')}</dd>
        <dt>Budget</dt>
        <dd>{dollars(defaultBudget.hardCapUsd)}</dd>
        <dt>Changed</dt>
        <dd>
          <Ago at={updatedAt} />
        </dd>
      </dl>
      {systemPrompt != null && <Code label="System prompt">{systemPrompt}</Code>}
      <div>
        <RequestButton
          title="Edit the template"
          submit="Save"
          schema={(named) => ({ ...named('UpdateTemplate'), required: ['name', 'modelId', 'allowedTools', 'defaultBudgetCapUsd'] })}
          first={FIRST}
          initial={fields}
          send={async (values) => {
            const params = { path, header: await templateHeader(template, editedPart) }
            return api.PUT('/api/agents/templates/{id}', { params, body: changesOf(fields, values) as never })
          }}
          done={reload}
          failed={reload}
        >
          Edit
        </RequestButton>
      </div>
      <Definitions
        title="Rules for events"
        add={{
          text: 'Add a rule',
          schema: 'RuleInput',
          first: ['matchField', 'matchPattern', 'classifyAs', 'minPriority'],
          send: (values, header) => api.POST('/api/agents/templates/{id}/rules', { params: { path, header }, body: values as never }),
        }}
        entries={template.classificationRules.map(({ id, matchField, matchPattern, classifyAs, minPriority }) => ({
          id,
          name: classifyAs,
          details: `${matchField} is ${matchPattern}${minPriority == null ? '' : `, priority ${minPriority} or higher`}`,
        }))}
        remove={async (ruleId) => {
          const header = await templateHeader(template, ({ classificationRules }) => classificationRules)
          return api.DELETE('/api/agents/templates/{id}/rules/{ruleId}', { params: { path: { id, ruleId }, header } })
        }}
        reload={reload}
      />
      <Definitions
        title="Tools of MCP servers"
        add={{
          text: 'Add a tool',
          schema: 'ToolInput',
          first: ['name', 'description', 'serverUri', 'inputSchema'],
          send: (values, header) => api.POST('/api/agents/templates/{id}/tools', { params: { path, header }, body: values as never }),
        }}
        entries={template.customToolDefinitions.map(toolDefinition)}
        remove={async (toolName) => {
          const header = await templateHeader(template, ({ customToolDefinitions }) => customToolDefinitions)
          return api.DELETE('/api/agents/templates/{id}/tools/{toolName}', { params: { path: { id, toolName }, header } })
        }}
        reload={reload}
      />
      <DefaultSkills template={template} reload={reload} />
    </div>
  )
}

/** The skills of the sessions of a template. */
function DefaultSkills({ template, reload }: { template: TemplateView; reload: () => void }) {
  const { id, defaultSkillIds } = template
  const [chosen, setChosen] = useState('')
  const skills = useQuery(skillsQuery)
  const others = (skills.data?.items ?? []).filter((skill) => skill.isActive && !defaultSkillIds.includes(skill.id))
  const pathOf = (skillId: string) => ({ path: { id, skillId } })
  return (
    <Definitions
      title="Skills"
      entries={defaultSkillIds.map((skillId) => {
        const skill = skills.data?.items.find((skill) => skill.id === skillId)
        return { id: skillId, name: skill?.name ?? skillId, details: skill?.description ?? '' }
      })}
      remove={async (skillId) => {
        const header = await templateHeader(template, ({ defaultSkillIds }) => defaultSkillIds)
        return api.DELETE('/api/agents/templates/{id}/skills/{skillId}', { params: { ...pathOf(skillId), header } })
      }}
      reload={reload}
    >
      <span className={s.row}>
        <Choice label="Skill to add" any="Choose a skill" options={others.map(({ id, name }) => [id, name])} value={chosen} onChange={setChosen} />
        <ActionButton
          disabled={chosen === ''}
          action={() => api.POST('/api/agents/templates/{id}/skills/{skillId}', { params: pathOf(chosen) })}
          done={() => {
            setChosen('')
            reload()
          }}
        >
          Add the skill
        </ActionButton>
      </span>
    </Definitions>
  )
}
