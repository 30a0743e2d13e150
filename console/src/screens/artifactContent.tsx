import { useMutation, useQuery } from '@tanstack/react-query'
import { lazy, Suspense, useState } from 'react'
import { api, data } from '../api/client'
import { isCloud } from '../api/profile'
import type { ArtifactVersion } from '../api/types'
import { Button, Empty, Problem, s, showProblem } from '../ui'
import { Diff } from '../ui/diff'
import { download } from '../ui/download'
import { Code } from '../ui/toolInput'
import c from './screens.module.css'

const AgentText = lazy(() => import('../ui/markdown'))

/** The page shows and compares contents of at most this size. A person can download larger ones. */
const MAX_TEXT_BYTES = 500_000
/** In `aws`, the server answers with the address of a larger content, from which the policy of the page allows no request. */
const MAX_CLOUD_BYTES = 2_900_000

/** The text of a content; `null` if it is not text. */
async function textOf(content: Blob): Promise<string | null> {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await content.arrayBuffer())
    return text.includes('\0') ? null : text
  } catch {
    return null
  }
}

async function read(id: string, version: number): Promise<Blob> {
  const params = { path: { id, version: String(version) } }
  const content: unknown = await data(
    api.GET('/api/artifacts/{id}/versions/{version}/content', { params, parseAs: 'blob' }),
  )
  return content as Blob
}

/** The text of a version, which never changes. Its data is `null` if it is not text, or too large to show. */
function useText(id: string, { version, sizeBytes }: ArtifactVersion) {
  return useQuery({
    queryKey: ['artifact-text', id, version],
    queryFn: async () => (sizeBytes > MAX_TEXT_BYTES ? null : textOf(await read(id, version))),
    staleTime: Infinity,
  })
}

/** The content of a version: text, Markdown, or a download. It is text of an agent and is never shown as HTML. */
export function Content({ id, path, version }: { id: string; path: string; version: ArtifactVersion }) {
  const text = useText(id, version)
  const [isSource, setSource] = useState(false)
  const save = useMutation({
    mutationFn: async () => {
      download(await read(id, version.version), path.split('/').at(-1) ?? 'artifact')
    },
    onError: showProblem,
  })
  const isMarkdown = version.mimeType === 'text/markdown' || /\.(md|markdown)$/i.test(path)
  const label = `Content of ${path}`
  if (isCloud && version.sizeBytes > MAX_CLOUD_BYTES) {
    return (
      <p className={s.muted}>
        The content is too large for the console. Get it with <code>pilothouse --profile aws artifacts get</code>.
      </p>
    )
  }
  return (
    <div className={s.stack}>
      <div className={s.row}>
        <Button
          disabled={save.isPending}
          onClick={() => {
            save.mutate()
          }}
        >
          Download
        </Button>
        {isMarkdown && (
          <Button
            aria-pressed={isSource}
            onClick={() => {
              setSource(!isSource)
            }}
          >
            Show the source
          </Button>
        )}
      </div>
      {text.isError && <Problem error={text.error} />}
      {text.data === undefined && !text.isError && <Empty>Loading …</Empty>}
      {text.data === null && (
        <p className={s.muted}>
          {version.sizeBytes > MAX_TEXT_BYTES
            ? 'The content is too large to show. Download it.'
            : 'The content is not text. Download it to open it.'}
        </p>
      )}
      {text.data === '' && <p className={s.muted}>The content is empty.</p>}
      {typeof text.data === 'string' &&
        text.data !== '' &&
        (isMarkdown && !isSource ? (
          <Suspense fallback={<Code label={label}>{text.data}</Code>}>
            {/* A region with overflow must be reachable for the keyboard. */}
            {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
            <div className={c.document} role="group" aria-label={label} tabIndex={0}>
              <AgentText>{text.data}</AgentText>
            </div>
          </Suspense>
        ) : (
          <Code label={label}>{text.data}</Code>
        ))}
    </div>
  )
}

/** The difference between two versions. */
export function Difference({ id, before, after }: { id: string; before: ArtifactVersion; after: ArtifactVersion }) {
  const texts = [useText(id, before), useText(id, after)] as const
  const failed = texts.find(({ isError }) => isError)
  if (failed !== undefined) return <Problem error={failed.error} />
  const [old, latest] = [texts[0].data, texts[1].data]
  if (old === undefined || latest === undefined) return <Empty>Loading …</Empty>
  if (old === null || latest === null) {
    return <p className={s.muted}>Only texts of at most {MAX_TEXT_BYTES.toLocaleString()} bytes are compared.</p>
  }
  const label = `Changes from version ${String(before.version)} to ${String(after.version)}`
  return (
    <figure className={s.stack}>
      <figcaption className={s.muted}>{old === latest ? 'Both versions have the same text.' : label}</figcaption>
      {old !== latest && <Diff before={old} after={latest} label={label} />}
    </figure>
  )
}
