import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { api, data, violationsOf } from '../api/client'
import { useRequestKey } from '../api/requestKey'
import type { AgentView, ProjectView, TemplateView } from '../api/types'
import { basedOn } from '../app/basedOn'
import { templatesQuery } from '../app/lists'
import { StartFields, textInputs } from '../app/startFields'
import { Button, Card, Choice, Empty, Field, Problem, RequestForm, s } from '../ui'
import { Diff } from '../ui/diff'
import { changesOf, SchemaForm, withValues, type Schema, type Values } from '../ui/schemaForm'
import { toast } from '../ui/toasts'
import { ProjectHead, useProject } from './projectFrame'
import c from './screens.module.css'

/** The brief of an agent of a project, or of a new agent. */
export function BriefScreen() {
  const { id } = useParams({ from: '/shell/projects/$id/brief' })
  const { agentId } = useSearch({ from: '/shell/projects/$id/brief' })
  return <Brief key={`${id} ${agentId ?? ''}`} id={id} agentId={agentId} />
}

function Brief({ id, agentId }: { id: string; agentId: string | undefined }) {
  const { project, agents } = useProject(id)
  const schema = useQuery({
    queryKey: ['brief-schema'],
    queryFn: async () => (await data(api.GET('/api/briefs/schema'))) as Schema,
    staleTime: Infinity,
  })
  // A failed re-read must not replace the form.
  const failed = [project, agents, schema].find(({ isLoadingError }) => isLoadingError)
  if (failed !== undefined) return <Problem error={failed.error} />
  if (project.data === undefined || agents.data === undefined || schema.data === undefined) return <Empty>Loading …</Empty>
  const agent = agents.data.items.find((agent) => agent.id === agentId)
  if (agentId !== undefined && agent === undefined) return <Empty>This project has no such agent.</Empty>
  return (
    <div className={s.stack}>
      <ProjectHead id={id} title={agent === undefined ? `New agent of ${project.data.name}` : `Brief of ${agent.brief.role}`} />
      <Editor project={project.data} agent={agent} schema={schema.data} />
    </div>
  )
}

/** The fields of a brief that a template supplies. */
function ofTemplate({ modelId, allowedTools, adapter, briefDefaults }: TemplateView): Values {
  return withValues({ modelPreference: modelId, allowedTools, adapter, ...briefDefaults })
}

/** A brief as text, with its fields in the order of the schema. */
function text(brief: Values, schema: Schema): string {
  const names = Object.keys(schema.properties ?? {}).filter((name) => brief[name] !== undefined)
  return names.length === 0 ? '' : JSON.stringify(Object.fromEntries(names.map((name) => [name, brief[name]])), null, 2)
}

interface Start {
  objective: string
  workingDirectory: string
  budgetCapUsd: string
}

function Editor({ project, agent, schema }: { project: ProjectView; agent: AgentView | undefined; schema: Schema }) {
  const navigate = useNavigate()
  const client = useQueryClient()
  // The brief that the form was filled from. The request carries its version, so it cannot overwrite a later change.
  const [seen, setSeen] = useState(agent)
  const [values, setValues] = useState<Values>(() => withValues(agent?.brief ?? {}))
  const [start, setStart] = useState<Start>({ objective: '', workingDirectory: '', budgetCapUsd: '5' })
  const [templateId, setTemplateId] = useState('')
  const templates = useQuery(templatesQuery)
  const template = useQuery({
    queryKey: ['template', templateId],
    enabled: templateId !== '',
    queryFn: () => data(api.GET('/api/agents/templates/{id}', { params: { path: { id: templateId } } })),
  })
  const current = withValues(seen?.brief ?? {})
  const changed = changesOf(current, values)
  const isStale = agent !== undefined && seen !== undefined && agent.briefVersion !== seen.briefVersion
  const key = useRequestKey()
  const save = useMutation({
    mutationFn: async () => {
      if (seen !== undefined) {
        const path = { id: seen.id }
        const read = () => data(api.GET('/api/agents/{id}', { params: { path } }))
        const header = await basedOn(seen, read, ({ briefVersion }) => briefVersion, ({ revision }) => revision)
        const params = { path, header }
        return data(api.PATCH('/api/agents/{id}/brief', { params, body: changed as never }))
      }
      const body = {
        projectId: project.id,
        brief: values,
        objective: start.objective.trim(),
        workingDirectory: start.workingDirectory.trim(),
        budgetCapUsd: start.budgetCapUsd.trim() === '' ? undefined : start.budgetCapUsd.trim(),
        templateId: templateId === '' ? undefined : templateId,
      }
      return (await data(api.POST('/api/agents/spawn', { params: { header: key.header(body) }, body: body as never }))).agent
    },
    onSuccess: ({ brief, briefSync }) => {
      key.renew()
      toast(
        seen === undefined
          ? `${brief.role} is created.`
          : briefSync === 'pending'
            ? `The brief of ${brief.role} is changed. The agent receives it with its next reload or run.`
            : `The brief of ${brief.role} is changed.`,
      )
      void client.invalidateQueries({ queryKey: ['agents', project.id] })
      void navigate({ to: '/projects/$id', params: { id: project.id } })
    },
    // A refusal may be due to a newer brief.
    onError: () => client.invalidateQueries({ queryKey: ['agents', project.id] }),
  })
  const violations = violationsOf(save.error, 'brief.')
  const workstreams = project.workstreams.map(({ id, name }) => [id, name] as const)
  const compared = templateId === '' ? current : template.data === undefined ? undefined : ofTemplate(template.data)
  const [before, after] = [text(compared ?? {}, schema), text(values, schema)]
  const input = textInputs<keyof Start>(start, violations, (name, value) => {
    setStart((now) => ({ ...now, [name]: value }))
  })
  const title =
    templateId !== '' ? 'Compared with the template' : seen === undefined ? 'The brief' : 'Compared with the current brief'
  return (
    <div className={c.columns}>
      <Card title="Brief">
        <RequestForm request={save}>
          {isStale && (
            <p className={s.row} role="alert">
              The brief was changed since you read it.
              <Button
                onClick={() => {
                  setSeen(agent)
                  setValues(withValues({ ...agent.brief, ...changed }))
                  save.reset()
                }}
              >
                Apply your changes to the new brief
              </Button>
            </p>
          )}
          {seen === undefined && (
            <>
              <StartFields input={input} />
              <Field label="Budget in dollars" hint="Without one, the template supplies it.">
                <input {...input('budgetCapUsd')} inputMode="decimal" />
              </Field>
            </>
          )}
          <SchemaForm
            key={seen?.briefVersion}
            schema={schema}
            values={values}
            options={{ workstream: workstreams, readableWorkstreams: workstreams.filter(([id]) => id !== values.workstream) }}
            violations={violations}
            fixed={seen === undefined ? [] : ['workstream']}
            onChange={setValues}
          />
          <div className={s.dialogFoot}>
            <Link to="/projects/$id" params={{ id: project.id }} className={s.button}>
              Cancel
            </Link>
            <Button
              type="submit"
              look="primary"
              disabled={save.isPending || (seen !== undefined && Object.keys(changed).length === 0)}
            >
              {seen === undefined ? 'Create the agent' : 'Save the brief'}
            </Button>
          </div>
        </RequestForm>
      </Card>
      <div className={c.sticky}>
        <Card
          title={title}
          aside={
            <Choice
              label={seen === undefined ? 'Template' : 'Compare with'}
              any={seen === undefined ? 'No template' : 'The current brief'}
              options={(templates.data?.items ?? []).filter(({ isActive }) => isActive).map(({ id, name }) => [id, name])}
              value={templateId}
              onChange={setTemplateId}
            />
          }
        >
          {[templates, template].map(({ isError, error }, at) => isError && <Problem key={at} error={error} />)}
          {compared !== undefined && before === after && <p className={s.muted}>No differences.</p>}
          {compared !== undefined && before !== after && <Diff before={before} after={after} label={title} />}
        </Card>
      </div>
    </div>
  )
}
