import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api, data } from '../api/client'
import type { ScheduleView, TemplateView } from '../api/types'
import { basedOn } from '../app/basedOn'
import { templatesQuery } from '../app/lists'
import { useReadWithSessions } from '../app/queries'
import { RequestButton } from '../app/requestButton'
import { ActionButton, Button, Dialog, Empty, Problem, s } from '../ui'
import { ConfirmButton } from '../ui/confirm'
import type { Values } from '../ui/schemaForm'
import { Badge } from '../ui/status'
import { Ago } from '../ui/time'
import { Code } from '../ui/toolInput'

/** A template, read again when sessions change. */
export function useTemplate(id: string) {
  const client = useQueryClient()
  const key = ['template', id]
  const template = useQuery({
    queryKey: key,
    queryFn: () => data(api.GET('/api/agents/templates/{id}', { params: { path: { id } } })),
    ...useReadWithSessions(key),
  })
  const reload = () => {
    for (const queryKey of [key, templatesQuery.queryKey]) void client.invalidateQueries({ queryKey })
  }
  return { template, reload }
}

/** The header of a change of a part of a template. Scheduled runs and other changes do not refuse it. */
export function templateHeader(template: TemplateView, part: (template: TemplateView) => unknown): Promise<never> {
  const read = () => data(api.GET('/api/agents/templates/{id}', { params: { path: { id: template.id } } }))
  return basedOn(template, read, part, ({ version }) => version)
}

/** The part of a schedule that a person sets. */
function settingsOf({ cronExpression, timeZone, isEnabled, launch }: ScheduleView) {
  return { cronExpression, timeZone, isEnabled, launch }
}

/** The schedule on which a template starts sessions. */
export function ScheduleDialog({ id, name, onClose }: { id: string; name: string; onClose: () => void }) {
  const { template, reload } = useTemplate(id)
  return (
    <Dialog title={`Schedule of ${name}`} isOpen onClose={onClose}>
      {template.isError && <Problem error={template.error} />}
      {template.data === undefined ? template.isPending && <Empty>Loading …</Empty> : <Schedule template={template.data} reload={reload} />}
      <div className={s.dialogFoot}>
        <Button onClick={onClose}>Close</Button>
      </div>
    </Dialog>
  )
}

function Schedule({ template, reload }: { template: TemplateView; reload: () => void }) {
  const schedule = template.schedule ?? undefined
  const path = { id: template.id }
  const header = () => templateHeader(template, ({ schedule }) => (schedule == null ? null : settingsOf(schedule)))
  const set = async (body: unknown) =>
    api.PUT('/api/agents/templates/{id}/schedule', { params: { path, header: await header() }, body: body as never })
  const initial: Values =
    schedule === undefined
      ? { timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone }
      : {
          cronExpression: schedule.cronExpression,
          timeZone: schedule.timeZone,
          isEnabled: schedule.isEnabled,
          ...Object.fromEntries(Object.entries(schedule.launch).filter(([, value]) => value != null)),
        }
  return (
    <div className={s.stack}>
      {schedule === undefined ? (
        <p className={s.muted}>This template has no schedule.</p>
      ) : (
        <>
          <dl className={s.facts}>
            <dt>Times</dt>
            <dd>
              <code>{schedule.cronExpression}</code>, {schedule.timeZone}{' '}
              <Badge tone={schedule.isEnabled ? 'good' : 'plain'}>{schedule.isEnabled ? 'enabled' : 'disabled'}</Badge>
            </dd>
            <dt>Next run</dt>
            <dd>{schedule.nextRunAt == null ? 'none' : <Ago at={schedule.nextRunAt} />}</dd>
            <dt>Last run</dt>
            <dd>
              <LastRun schedule={schedule} />
            </dd>
            <dt>Directory</dt>
            <dd>
              <code>{schedule.launch.workingDirectory}</code>
            </dd>
          </dl>
          <Code label="Objective">{schedule.launch.objective}</Code>
        </>
      )}
      <div className={s.row}>
        <RequestButton
          title={schedule === undefined ? 'New schedule' : 'Edit the schedule'}
          submit="Save the schedule"
          // The parameters of the sessions are fields of the same form.
          schema={(named) => {
            const { properties = {}, required = [] } = named('ScheduleInput')
            const launch = named('LaunchInput')
            const times = Object.entries(properties).filter(([name]) => name !== 'launch')
            return {
              properties: { ...Object.fromEntries(times), ...launch.properties },
              required: [...required, ...(launch.required ?? [])],
            }
          }}
          first={['cronExpression', 'timeZone', 'objective', 'workingDirectory', 'name', 'isEnabled']}
          initial={initial}
          prefix="launch."
          send={({ objective, workingDirectory, name, ...times }) => set({ ...times, launch: { objective, workingDirectory, name } })}
          done={reload}
          failed={reload}
        >
          {schedule === undefined ? 'New schedule' : 'Edit'}
        </RequestButton>
        {schedule !== undefined && (
          <>
            <ActionButton action={() => set({ ...settingsOf(schedule), isEnabled: !schedule.isEnabled }).finally(reload)}>
              {schedule.isEnabled ? 'Disable' : 'Enable'}
            </ActionButton>
            <ConfirmButton
              question="Remove the schedule?"
              consequence="No more sessions start on this schedule. Sessions that it started continue."
              action={async () =>
                api.DELETE('/api/agents/templates/{id}/schedule', { params: { path, header: await header() } })
              }
              reload={reload}
            >
              Remove
            </ConfirmButton>
          </>
        )}
      </div>
    </div>
  )
}

function LastRun({ schedule: { lastRun } }: { schedule: ScheduleView }) {
  if (lastRun == null) return 'none yet'
  return (
    <>
      <Ago at={lastRun.scheduledFor} />,{' '}
      {lastRun.sessionId == null ? (
        'skipped'
      ) : (
        <Link to="/sessions/$id" params={{ id: lastRun.sessionId }}>
          its session
        </Link>
      )}
    </>
  )
}
