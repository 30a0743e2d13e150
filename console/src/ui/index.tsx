import * as RadixDialog from '@radix-ui/react-dialog'
import { useMutation } from '@tanstack/react-query'
import { useId, useState } from 'react'
import { messageOf } from '../api/client'
import { toast } from './toasts'
import s from './ui.module.css'

export { s }

type ButtonProps = React.ComponentProps<'button'> & { look?: 'primary' | 'danger' | 'stop' | 'quiet' | 'icon' }

export function Button({ look, className, type = 'button', ...rest }: ButtonProps) {
  const looks = look === 'icon' ? `${s.quiet ?? ''} ${s.icon ?? ''}` : look === undefined ? '' : (s[look] ?? '')
  return <button type={type} className={`${s.button ?? ''} ${looks} ${className ?? ''}`} {...rest} />
}

/** A button that is disabled while its request runs, and shows a failure. */
export function ActionButton({
  action,
  done,
  ...rest
}: Omit<ButtonProps, 'onClick'> & { action: () => Promise<unknown>; done?: () => void }) {
  const mutation = useMutation({ mutationFn: action, onSuccess: done, onError: showProblem })
  return (
    <Button
      {...rest}
      disabled={rest.disabled === true || mutation.isPending}
      onClick={() => {
        mutation.mutate()
      }}
    />
  )
}

export function showProblem(error: unknown): void {
  toast(messageOf(error), 'bad')
}

export function Problem({ error }: { error: unknown }) {
  return (
    <p className={s.problem} role="alert">
      {messageOf(error)}
    </p>
  )
}

export function Card({
  title,
  aside,
  children,
}: {
  title?: React.ReactNode
  aside?: React.ReactNode
  children: React.ReactNode
}) {
  const id = useId()
  return (
    <section className={s.card} aria-labelledby={title === undefined ? undefined : id}>
      {title !== undefined && (
        <div className={s.cardHead}>
          <h2 id={id}>{title}</h2>
          {aside}
        </div>
      )}
      {children}
    </section>
  )
}

export function Field({ label, hint, children }: { label: string; hint?: string; children: React.ReactNode }) {
  return (
    <label className={s.field}>
      <span>{label}</span>
      {children}
      {hint !== undefined && <small className={s.muted}>{hint}</small>}
    </label>
  )
}

/** The button that loads the next page of a list. */
export function More({ pages, text }: { pages: { hasMore: boolean; more: (() => void) | undefined }; text: string }) {
  if (!pages.hasMore) return null
  return (
    <div>
      <Button disabled={pages.more === undefined} onClick={pages.more}>
        {text}
      </Button>
    </div>
  )
}

/** A list to choose one value from; `any` is the text of the empty value. Without `hasLabel`, only screen readers have the label. */
export function Choice({
  label,
  hasLabel = false,
  any,
  options,
  value,
  onChange,
}: {
  label: string
  hasLabel?: boolean
  any?: string
  options: readonly (readonly [value: string, text: string])[]
  value: string
  onChange: (value: string) => void
}) {
  return (
    <label className={hasLabel ? s.field : undefined}>
      <span className={hasLabel ? undefined : s.visuallyHidden}>{label}</span>
      <select
        className={s.input}
        value={value}
        onChange={({ target }) => {
          onChange(target.value)
        }}
      >
        {any !== undefined && <option value="">{any}</option>}
        {options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  )
}

/** A group of checkboxes. */
export function Checkboxes({
  legend,
  options,
  checked,
  onChange,
}: {
  legend: string
  options: readonly (readonly [value: string, text: string])[]
  checked: readonly string[]
  onChange: (checked: string[]) => void
}) {
  return (
    <fieldset className={s.field}>
      <legend>{legend}</legend>
      <div className={s.checkboxes}>
        {options.map(([value, text]) => (
          <label key={value} className={s.checkbox}>
            <input
              type="checkbox"
              checked={checked.includes(value)}
              onChange={({ target }) => {
                onChange(target.checked ? [...checked, value] : checked.filter((other) => other !== value))
              }}
            />
            <span>{text}</span>
          </label>
        ))}
      </div>
    </fieldset>
  )
}

/** A text that a person writes after a click. Ctrl and Enter submits it, Escape cancels. */
export function TextForm({
  label,
  submit,
  initial = '',
  isRequired = false,
  isDisabled = false,
  onSubmit,
  onCancel,
}: {
  label: string
  submit: string
  initial?: string
  isRequired?: boolean
  isDisabled?: boolean
  onSubmit: (text: string) => void
  onCancel: () => void
}) {
  const [text, setText] = useState(initial)
  return (
    <form
      className={s.stack}
      onSubmit={(event) => {
        event.preventDefault()
        if (!isDisabled && (!isRequired || text.trim() !== '')) onSubmit(text.trim())
      }}
    >
      <Field label={label}>
        <textarea
          className={s.input}
          rows={2}
          value={text}
          disabled={isDisabled}
          // The person has just asked for this field.
          // eslint-disable-next-line jsx-a11y/no-autofocus
          autoFocus
          onChange={({ target }) => {
            setText(target.value)
          }}
          onKeyDown={(event) => {
            if (event.key === 'Escape') onCancel()
            if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) event.currentTarget.form?.requestSubmit()
          }}
        />
      </Field>
      <div className={s.row}>
        <Button type="submit" look="primary" disabled={isDisabled || (isRequired && text.trim() === '')}>
          {submit}
        </Button>
        <Button onClick={onCancel}>Cancel</Button>
      </div>
    </form>
  )
}

/** A form that sends a request when it is submitted, and shows a failure above its fields. */
export function RequestForm({
  request,
  children,
}: {
  request: { mutate: () => void; isPending: boolean; isError: boolean; error: unknown }
  children: React.ReactNode
}) {
  return (
    <form
      className={s.stack}
      onSubmit={(event) => {
        event.preventDefault()
        if (!request.isPending) request.mutate()
      }}
    >
      {request.isError && <Problem error={request.error} />}
      {children}
    </form>
  )
}

export function Empty({ children }: { children: React.ReactNode }) {
  return <p className={s.empty}>{children}</p>
}

export function Dialog({
  title,
  description,
  isOpen,
  staysOpen = false,
  onClose,
  children,
}: {
  title: string
  description?: string
  isOpen: boolean
  /** A click beside the dialog does not close it. */
  staysOpen?: boolean
  onClose: () => void
  children: React.ReactNode
}) {
  return (
    <RadixDialog.Root
      open={isOpen}
      onOpenChange={(open) => {
        if (!open) onClose()
      }}
    >
      <RadixDialog.Portal>
        <RadixDialog.Overlay className={s.overlay} />
        <RadixDialog.Content
          className={s.dialog}
          onInteractOutside={(event) => {
            if (staysOpen) event.preventDefault()
          }}
          {...(description === undefined ? { 'aria-describedby': undefined } : {})}
        >
          <RadixDialog.Title>{title}</RadixDialog.Title>
          {description !== undefined && <RadixDialog.Description>{description}</RadixDialog.Description>}
          {children}
        </RadixDialog.Content>
      </RadixDialog.Portal>
    </RadixDialog.Root>
  )
}

/** A bar of a share in percent, with its text beside it. With a `warnAt` above 100, more is not worse. */
export function Meter({ percent, warnAt = 80, label }: { percent: number; warnAt?: number; label: string }) {
  const tone = percent < warnAt ? undefined : percent >= 100 ? 'bad' : 'warn'
  return (
    <div
      className={s.meter}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(Math.min(percent, 100))}
      aria-valuetext={`${String(percent)} %`}
    >
      <div className={s.meterFill} data-tone={tone} style={{ width: `${String(Math.min(percent, 100))}%` }} />
    </div>
  )
}
