import { useState } from 'react'
import { ActionButton, Button, Dialog, s } from '.'

/** A button whose action the person confirms in a dialog. Its text is also that of the button that confirms. */
export function ConfirmButton({
  children,
  label,
  question,
  consequence,
  action,
  reload,
}: {
  children: string
  /** The name of the button for screen readers, if several have the same text. */
  label?: string
  question: string
  consequence: string
  action: () => Promise<unknown>
  /** Runs after success, and after a failure, which may be due to a newer version. */
  reload: () => void
}) {
  const [isAsking, setAsking] = useState(false)
  const close = () => {
    setAsking(false)
  }
  return (
    <>
      <Button
        aria-label={label}
        onClick={() => {
          setAsking(true)
        }}
      >
        {children} …
      </Button>
      <Dialog title={question} description={consequence} isOpen={isAsking} onClose={close}>
        <div className={s.dialogFoot}>
          <Button onClick={close}>Cancel</Button>
          <ActionButton
            look="danger"
            action={() => action().finally(reload)}
            done={close}
          >
            {children}
          </ActionButton>
        </div>
      </Dialog>
    </>
  )
}
