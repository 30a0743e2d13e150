import { useMutation, useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { api, data, violationsOf } from '../api/client'
import { RequestKey } from '../api/requestKey'
import { Store } from '../live/store'
import { Button, Checkboxes, Dialog, Empty, Field, Problem, RequestForm, s } from '../ui'
import { MoreOptions } from '../ui/moreOptions'
import { SchemaForm, type Values } from '../ui/schemaForm'
import { toast } from '../ui/toasts'
import { openApiQuery, skillsQuery, templatesQuery } from './lists'
import { StartFields, textInputs } from './startFields'

const LAST = 'pilothouse-last-start'
const ADAPTERS = ['native', 'claude', 'acp', 'shim', 'script']

interface Start {
  objective: string
  workingDirectory: string
  adapter: string
  budgetCapUsd: string
  templateId: string
  skillIds: string[]
  /** The fields of the request without an input of their own. */
  more: Values
}

const EMPTY: Start = {
  objective: '',
  workingDirectory: '',
  adapter: '',
  budgetCapUsd: '5',
  templateId: '',
  skillIds: [],
  more: {},
}

/** Fields of the request that have an input of their own, or that belong to a chain. */
const SHOWN = ['objective', 'workingDirectory', 'adapter', 'budgetCapUsd', 'templateId', 'skillIds', 'chainId']

/** The directory and adapter of the last start; the other fields belong to one task. */
function remembered(): Start {
  try {
    const last = JSON.parse(localStorage.getItem(LAST) ?? '{}') as Partial<Start>
    return { ...EMPTY, workingDirectory: last.workingDirectory ?? '', adapter: last.adapter ?? EMPTY.adapter }
  } catch {
    return EMPTY
  }
}

/** A form that a click beside it or Escape closed. It is there again when the dialog opens. */
const draft = new Store<Start | undefined>(undefined)
const key = new RequestKey()

/** The form that starts a session. */
export default function Dispatch({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate()
  const [form, setForm] = useState(() => draft.get() ?? remembered())
  useEffect(() => {
    draft.set(form)
  }, [form])
  const templates = useQuery(templatesQuery)
  const skills = useQuery(skillsQuery)
  const start = useMutation({
    mutationFn: async () => {
      const optional = (text: string) => (text.trim() === '' ? undefined : text.trim())
      const body = {
        ...form.more,
        objective: form.objective.trim(),
        workingDirectory: form.workingDirectory.trim(),
        templateId: optional(form.templateId),
        // A template has an adapter of its own.
        adapter: form.templateId === '' ? optional(form.adapter) : undefined,
        budgetCapUsd: optional(form.budgetCapUsd),
        skillIds: form.skillIds.length > 0 ? form.skillIds : undefined,
      }
      return data(api.POST('/api/agents/sessions', { params: { header: key.header(body) }, body: body as never }))
    },
    onSuccess: ({ session, pool }) => {
      key.renew()
      draft.set(undefined)
      localStorage.setItem(LAST, JSON.stringify({ workingDirectory: form.workingDirectory, adapter: form.adapter }))
      if (pool != null) toast('All slots are taken: the session waits.')
      onClose()
      void navigate({ to: '/sessions/$id', params: { id: session.id } })
    },
  })
  const violations = violationsOf(start.error)
  const input = textInputs<Exclude<keyof Start, 'skillIds' | 'more'>>(form, violations, (name, value) => {
    setForm((now) => ({ ...now, [name]: value }))
  })
  return (
    <Dialog title="New session" isOpen onClose={onClose}>
      <RequestForm request={start}>
        <StartFields input={input} />
        {(templates.data?.items.length ?? 0) > 0 && (
          <Field label="Template">
            <select {...input('templateId')}>
              <option value="">None</option>
              {templates.data?.items
                .filter(({ isActive }) => isActive)
                .map(({ id, name }) => (
                  <option key={id} value={id}>
                    {name}
                  </option>
                ))}
            </select>
          </Field>
        )}
        {form.templateId === '' && (
          <Field label="Agent">
            <select {...input('adapter')}>
              <option value="">The server's default</option>
              {ADAPTERS.map((adapter) => (
                <option key={adapter}>{adapter}</option>
              ))}
            </select>
          </Field>
        )}
        <Field label="Budget in dollars" hint="The session pauses when it has spent this.">
          <input {...input('budgetCapUsd')} inputMode="decimal" />
        </Field>
        {(skills.data?.items.length ?? 0) > 0 && (
          <Checkboxes
            legend="Skills"
            options={(skills.data?.items ?? []).filter(({ isActive }) => isActive).map(({ id, name }) => [id, name])}
            checked={form.skillIds}
            onChange={(skillIds) => {
              setForm((now) => ({ ...now, skillIds }))
            }}
          />
        )}
        <MoreOptions isOpen={Object.keys(form.more).length > 0}>
          <OtherFields
            values={form.more}
            violations={violations}
            onChange={(more) => {
              setForm((now) => ({ ...now, more }))
            }}
          />
        </MoreOptions>
        <div className={s.dialogFoot}>
          <Button
            onClick={() => {
              key.renew()
              draft.set(undefined)
              onClose()
            }}
          >
            Cancel
          </Button>
          <Button type="submit" look="primary" disabled={start.isPending}>
            Start
          </Button>
        </div>
      </RequestForm>
    </Dialog>
  )
}

/** The other fields of the request, as the API describes them. */
function OtherFields({
  values,
  violations,
  onChange,
}: {
  values: Values
  violations: ReadonlyMap<string, string>
  onChange: (values: Values) => void
}) {
  const document = useQuery(openApiQuery)
  if (document.isError) return <Problem error={document.error} />
  if (document.data === undefined) return <Empty>Loading …</Empty>
  const { properties = {} } = document.data.components.schemas.StartSession ?? {}
  const others = Object.fromEntries(Object.entries(properties).filter(([name]) => !SHOWN.includes(name)))
  return (
    <SchemaForm
      schema={{ properties: others }}
      root={document.data}
      values={values}
      options={{}}
      violations={violations}
      fixed={[]}
      onChange={onChange}
    />
  )
}
