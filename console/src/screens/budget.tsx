import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { api, data, etag } from '../api/client'
import type { SessionView } from '../api/types'
import { Button, Dialog, Field, RequestForm, s } from '../ui'

/** Changes the cap. The request carries the version that the person saw, so it cannot overwrite somebody else's change. */
export function BudgetEditor({
  session,
  onClose,
  onChanged,
}: {
  session: SessionView
  onClose: () => void
  onChanged: (session: SessionView) => void
}) {
  const [seen] = useState(session)
  const [cap, setCap] = useState(session.budget.hardCapUsd)
  const change = useMutation({
    mutationFn: () =>
      data(
        api.PATCH('/api/agents/sessions/{id}/budget', {
          params: { path: { id: seen.id }, header: { 'If-Match': etag(seen.version) } as never },
          body: { capUsd: cap.trim() } as never,
        }),
      ),
    onSuccess: (session) => {
      onChanged(session)
      onClose()
    },
  })
  return (
    <Dialog title="Cap of the session" isOpen onClose={onClose}>
      <RequestForm request={change}>
        <Field label="Dollars" hint="The session pauses when it has spent this.">
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
