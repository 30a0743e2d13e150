import { useMutation, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { violationsOf } from '../api/client'
import { useRequestKey } from '../api/requestKey'
import { Button, Dialog, Empty, Problem, RequestForm, s } from '../ui'
import { MoreOptions } from '../ui/moreOptions'
import { SchemaForm, type Options, type Schema, type Values } from '../ui/schemaForm'
import { openApiQuery } from './lists'

interface Request<T> {
  title: string
  submit: string
  /** The schema of the fields, from the named schemas of the API. */
  schema: (named: (name: string) => Schema) => Schema
  /** The fields that are shown at once, in this order. The others follow below "More options". */
  first: readonly string[]
  initial?: Values
  /** The values that the page knows for a field. */
  options?: Readonly<Record<string, Options>>
  /** The prefix of the paths of violations that the fields do not have. */
  prefix?: string
  send: (values: Values, header: never) => Promise<T>
  done: (result: T) => void
  /** Runs after a failure, which may be due to a newer version. */
  failed?: () => void
}

/** A button that opens a form with the fields of a request, as the API describes them. */
export function RequestButton<T>({
  children,
  look,
  ...request
}: Request<T> & { children: string; look?: 'primary' }) {
  const [opened, setOpened] = useState<symbol>()
  // A request may succeed after its form was closed. It must not close a later one.
  const close = () => {
    setOpened((now) => (now === opened ? undefined : now))
  }
  return (
    <>
      <Button
        {...(look === undefined ? {} : { look })}
        onClick={() => {
          setOpened(Symbol())
        }}
      >
        {children}
      </Button>
      {opened !== undefined && <RequestDialog {...request} onClose={close} />}
    </>
  )
}

function RequestDialog<T>({
  title,
  submit,
  schema,
  first,
  initial = {},
  options = {},
  prefix = '',
  send,
  done,
  failed,
  onClose,
}: Request<T> & { onClose: () => void }) {
  const document = useQuery(openApiQuery)
  const [values, setValues] = useState(initial)
  // The request is based on what the person saw when the form opened, also if the page has read a newer version since.
  const [sendSeen] = useState(() => send)
  const key = useRequestKey()
  const request = useMutation({
    mutationFn: () => sendSeen(values, key.header(values) as never),
    onSuccess: (result) => {
      key.renew()
      onClose()
      done(result)
    },
    onError: failed,
  })
  const violations = violationsOf(request.error, prefix)
  const { properties = {}, required = [] } =
    document.data === undefined ? {} : schema((name) => document.data.components.schemas[name] ?? {})
  const fields = (names: readonly string[]) => {
    const found = names.flatMap((name) => (properties[name] === undefined ? [] : [[name, properties[name]] as const]))
    return (
      <SchemaForm
        schema={{ properties: Object.fromEntries(found), required }}
        root={document.data}
        values={values}
        options={options}
        violations={violations}
        fixed={[]}
        onChange={setValues}
      />
    )
  }
  const others = Object.keys(properties).filter((name) => !first.includes(name))
  return (
    <Dialog title={title} isOpen onClose={onClose}>
      {document.isError && <Problem error={document.error} />}
      {document.isPending && <Empty>Loading …</Empty>}
      {document.data !== undefined && (
        <RequestForm request={request}>
          {fields(first)}
          {others.length > 0 && <MoreOptions isOpen={others.some((name) => violations.has(name))}>{fields(others)}</MoreOptions>}
          <div className={s.dialogFoot}>
            <Button onClick={onClose}>Cancel</Button>
            <Button type="submit" look="primary" disabled={request.isPending}>
              {submit}
            </Button>
          </div>
        </RequestForm>
      )}
    </Dialog>
  )
}
