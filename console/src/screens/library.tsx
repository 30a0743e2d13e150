import { useQueryClient } from '@tanstack/react-query'
import { Button, s } from '../ui'
import c from './screens.module.css'
import { Skills } from './skills'
import { Templates } from './templates'
import { Webhooks } from './webhooks'
import { Workers } from './workers'

/** Skills, templates with their schedules, workers and webhooks. */
export function LibraryScreen() {
  const client = useQueryClient()
  return (
    <div className={s.stack}>
      <div className={c.head} style={{ marginBottom: 0 }}>
        <h1>Library</h1>
        <Button
          onClick={() => {
            for (const kind of ['skills', 'templates', 'workers', 'webhooks']) void client.invalidateQueries({ queryKey: [kind] })
          }}
        >
          Read again
        </Button>
      </div>
      <Skills />
      <Templates />
      <Workers />
      <Webhooks />
    </div>
  )
}
