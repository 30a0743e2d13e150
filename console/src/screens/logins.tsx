import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useMemo } from 'react'
import { renderSVG } from 'uqr'
import { consoleRequest } from '../api/client'
import { ActionButton, Button, Card, Problem, s } from '../ui'
import { Ago } from '../ui/time'
import { DeviceRow } from './deviceRow'
import c from './screens.module.css'

interface Login {
  id: string
  device: string
  createdAt: string
  lastSeenAt: string
}

const KEY = ['console-logins'] as const

/** The browsers that are logged in, with a button that logs one out. */
export function Logins({ own }: { own: string | undefined }) {
  const queries = useQueryClient()
  const list = useQuery({ queryKey: KEY, queryFn: () => consoleRequest<{ items: Login[] }>('logins') })
  return (
    <Card title="Where you are logged in">
      {list.isError && <Problem error={list.error} />}
      <ul className={s.stack} aria-label="Logins">
        {list.data?.items.map(({ id, device, createdAt, lastSeenAt }) => (
          <DeviceRow
            key={id}
            name={device}
            isThis={id === own}
            details={
              <>
                since <Ago at={createdAt} />, seen <Ago at={lastSeenAt} />
              </>
            }
          >
            {id !== own && (
              <ActionButton
                aria-label={`Log out ${device}`}
                action={() => consoleRequest(`logins/${id}`, undefined, 'DELETE')}
                done={() => void queries.invalidateQueries({ queryKey: KEY })}
              >
                Log out
              </ActionButton>
            )}
          </DeviceRow>
        ))}
      </ul>
      <p className={s.muted}>
        Tokens that programs sign themselves are not listed: a program that can read the key in the data folder can sign another one.
      </p>
    </Card>
  )
}

/** A picture of the link for the camera of a phone. An image, because text of others is never shown as HTML. */
function QrCode({ link }: { link: string }) {
  const address = useMemo(
    () => `data:image/svg+xml,${encodeURIComponent(renderSVG(link, { border: 2 }))}`,
    [link],
  )
  return <img className={c.qr} src={address} alt="QR code of the link" />
}

/** Makes a link that logs another device in, as a text and as a QR code. */
export function AnotherDevice() {
  const code = useMutation({
    mutationFn: () => consoleRequest<{ code: string; expiresInSeconds: number }>('codes', {}),
  })
  const isLocal = ['localhost', '127.0.0.1', '[::1]'].includes(location.hostname)
  const link = code.data === undefined ? undefined : `${location.origin}/login#code=${code.data.code}`
  return (
    <Card title="Another device">
      <div className={s.stack}>
        <p>
          Point the camera of a phone at the code, or open the link there. It logs one browser in, within 15 minutes.
          {isLocal && (
            <>
              {' '}
              This address works on this machine only: start the server with <code>--listen</code> and an address of your
              network, which must be trusted, and open the console by that address.
            </>
          )}
        </p>
        {code.isError && <Problem error={code.error} />}
        <div>
          <Button
            disabled={code.isPending}
            onClick={() => {
              code.mutate()
            }}
          >
            Make a link
          </Button>
        </div>
        {link !== undefined && (
          <>
            <QrCode link={link} />
            <code>{link}</code>
          </>
        )}
      </div>
    </Card>
  )
}
