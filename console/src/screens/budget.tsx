import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { api, ApiProblem, data, etag } from '../api/client'
import type { SessionView } from '../api/types'
import { Button, Dialog, Field, RequestForm, s } from '../ui'
import { dollars } from '../ui/money'

/** Attempts at a change while the agent changes other parts of the session. */
const ATTEMPTS = 5

/** Changes the cap, unless somebody else has changed it since the person read it. */
export function BudgetEditor({
  session,
  onClose,
  onChanged,
}: {
  session: SessionView
  onClose: () => void
  onChanged: (session: SessionView) => void
}) {
  const [seen, setSeen] = useState(session)
  const [cap, setCap] = useState(session.budget.hardCapUsd)
  const params = { path: { id: session.id } }
  const set = async (known: SessionView, attempt = 1): Promise<SessionView> => {
    try {
      return await data(
        api.PATCH('/api/agents/sessions/{id}/budget', {
          params: { ...params, header: { 'If-Match': etag(known.version) } as never },
          body: { capUsd: cap.trim() } as never,
        }),
      )
    } catch (error) {
      if (!(error instanceof ApiProblem) || error.code !== 'precondition-failed' || attempt >= ATTEMPTS) throw error
      const current = await data(api.GET('/api/agents/sessions/{id}', { params }))
      setSeen(current)
      if (current.budget.hardCapUsd !== known.budget.hardCapUsd) throw error
      return set(current, attempt + 1)
    }
  }
  const change = useMutation({
    mutationFn: () => set(seen),
    onSuccess: (session) => {
      onChanged(session)
      onClose()
    },
  })
  return (
    <Dialog title="Cap of the session" isOpen onClose={onClose}>
      <RequestForm request={change}>
        <Field label="Dollars" hint={`The session pauses when it has spent this. Now it is ${dollars(seen.budget.hardCapUsd)}.`}>
          <input
            className={s.input}
            inputMode="decimal"
            value={cap}
            onChange={({ target }) => {
              setCap(target.value)
            }}
          />
        </Field>
        <div className={s.dialogFoot}>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={change.isPending}>
            Set the cap
          </Button>
        </div>
      </RequestForm>
    </Dialog>
  )
}
