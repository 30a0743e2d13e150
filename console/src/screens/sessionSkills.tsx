import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api, data } from '../api/client'
import type { MemoryPillStatus, SessionView, SkillSummary } from '../api/types'
import { skillsQuery } from '../app/lists'
import { useReadAgain } from '../app/queries'
import type { LiveSession, SessionFollower } from '../live/session'
import { ActionButton, Card, Choice, Problem, s } from '../ui'
import { Badge, type Tone } from '../ui/status'
import c from './screens.module.css'

const PILL: Record<MemoryPillStatus, Tone> = { Active: 'info', Consolidated: 'good', Dismissed: 'plain' }

/** Loads a change of the skills into the agent that runs. Its next message waits until then. */
async function reload(follower: SessionFollower): Promise<void> {
  follower.take(await data(api.POST('/api/agents/sessions/{id}/reload', { params: { path: { id: follower.id } } })))
}

async function changed(follower: SessionFollower, session: SessionView): Promise<void> {
  follower.take(session)
  if (session.reloadNeeded) await reload(follower)
}

/** The skills of the session with their memory pills. They change between turns, and the agent loads each change at once. */
export function SessionSkills({ follower, live, session }: { follower: SessionFollower; live: LiveSession; session: SessionView }) {
  const { id, enabledSkillIds, status, reloading, reloadNeeded } = session
  const followed = useReadAgain(skillsQuery.queryKey, live.isCaughtUp ? session.metrics.turnCount : undefined)
  const { data: skills, error } = useQuery({ ...skillsQuery, ...followed })
  const [chosen, setChosen] = useState('')
  const canChange = status === 'Idle' || status === 'Interrupted'
  const others = skills?.items.filter((skill) => skill.isActive && !enabledSkillIds.includes(skill.id)) ?? []
  const skillId = others.some((other) => other.id === chosen) ? chosen : ''
  return (
    <Card title={`Skills (${String(enabledSkillIds.length)})`}>
      <div className={s.stack}>
        {error !== null && <Problem error={error} />}
        {enabledSkillIds.length === 0 && <p className={s.muted}>No skill is enabled.</p>}
        <ul className={c.list} aria-label="Enabled skills">
          {enabledSkillIds.map((skillId) => (
            <EnabledSkill
              key={skillId}
              id={skillId}
              skill={skills?.items.find(({ id }) => id === skillId)}
              changes={live.isCaughtUp ? live.changes.records : undefined}
            >
              {canChange && (
                <ActionButton
                  disabled={reloading}
                  aria-label={`Disable ${skills?.items.find(({ id }) => id === skillId)?.name ?? skillId}`}
                  action={async () => {
                    const path = '/api/agents/sessions/{id}/skills/{skillId}'
                    await changed(follower, await data(api.DELETE(path, { params: { path: { id, skillId } } })))
                  }}
                >
                  Disable
                </ActionButton>
              )}
            </EnabledSkill>
          ))}
        </ul>
        <p className={`${s.muted ?? ''} ${s.small ?? ''}`} role="status" aria-label="State of the skills">
          {reloading
            ? 'The agent loads the change. Messages wait until then.'
            : reloadNeeded
              ? 'The agent has not loaded the last change.'
              : enabledSkillIds.length > 0 && 'The agent has these skills.'}
        </p>
        {reloadNeeded && canChange && !reloading && <ActionButton action={() => reload(follower)}>Load the change</ActionButton>}
        {canChange && others.length > 0 && (
          <div className={s.row}>
            <Choice
              label="Skill to enable"
              any="Choose a skill"
              options={others.map(({ id, name }) => [id, name])}
              value={skillId}
              onChange={setChosen}
            />
            <ActionButton
              disabled={skillId === '' || reloading}
              action={async () => {
                const path = '/api/agents/sessions/{id}/skills/{skillId}/enable'
                await changed(follower, await data(api.POST(path, { params: { path: { id, skillId } } })))
              }}
            >
              Enable
            </ActionButton>
          </div>
        )}
        {!canChange && session.completedAt == null && (
          <p className={`${s.muted ?? ''} ${s.small ?? ''}`}>Skills can change while the session is idle or interrupted.</p>
        )}
      </div>
    </Card>
  )
}

function EnabledSkill({
  id,
  skill,
  changes,
  children,
}: {
  id: string
  skill: SkillSummary | undefined
  changes: number | undefined
  children: React.ReactNode
}) {
  const [isOpen, setOpen] = useState(false)
  return (
    <li>
      <div className={s.cardHead} style={{ marginBottom: 0 }}>
        <strong>{skill?.name ?? id}</strong>
        {children}
      </div>
      {skill !== undefined && (
        <p className={s.muted}>
          {skill.description} {!skill.isActive && <Badge>inactive</Badge>}
        </p>
      )}
      <details
        onToggle={({ currentTarget: { open } }) => {
          setOpen(open)
        }}
      >
        <summary>Memory pills{skill !== undefined && ` (${String(skill.activePillCount)} active)`}</summary>
        {isOpen && <Pills skillId={id} changes={changes} />}
      </details>
    </li>
  )
}

function Pills({ skillId, changes }: { skillId: string; changes: number | undefined }) {
  const key = [...skillsQuery.queryKey, skillId]
  const followed = useReadAgain(key, changes)
  const { data: skill, error } = useQuery({
    queryKey: key,
    queryFn: () => data(api.GET('/api/agents/skills/{id}', { params: { path: { id: skillId } } })),
    ...followed,
  })
  if (error !== null) return <Problem error={error} />
  if (skill?.memoryPills.length === 0) return <p className={s.muted}>None yet.</p>
  return (
    <ul className={c.list} aria-label={`Memory pills of ${skill?.name ?? 'the skill'}`}>
      {skill?.memoryPills.map(({ id, content, category, status }) => (
        <li key={id}>
          <Badge>{category}</Badge> <Badge tone={PILL[status]}>{status}</Badge>
          <p style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>{content}</p>
        </li>
      ))}
    </ul>
  )
}
