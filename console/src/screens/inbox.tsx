import { useNavigate } from '@tanstack/react-router'
import { useEffect, useRef, useState } from 'react'
import { useKeys } from '../app/keyboard'
import { inbox } from '../live/inbox'
import { useStore } from '../live/store'
import { Button, Empty, s } from '../ui'
import { Ago } from '../ui/time'
import { DecisionCard, DecisionFacts, headline, isDecidable, outcomeText } from './decision'
import c from './screens.module.css'

/**
 * The open decisions. Only the person moves the selection: a decision that ends elsewhere stays selected and shows its outcome until
 * the person selects another one.
 */
export function InboxScreen() {
  const { isLoaded, open, ended } = useStore(inbox)
  const navigate = useNavigate()
  const [chosen, setChosen] = useState<string>()
  const [isDetailOpen, setDetailOpen] = useState(false)
  const list = useRef<HTMLUListElement>(null)
  const known = [...open, ...ended]
  if (chosen === undefined && open[0] !== undefined) {
    // The first decision is chosen, so that a more important one does not take its place under a finger.
    setChosen(open[0].id)
  }
  const selected = known.find(({ id }) => id === chosen) ?? open[0]
  const at = open.findIndex(({ id }) => id === selected?.id)
  const move = (step: number) => {
    // From a decision that has ended, both directions lead to the first one that is open.
    const next = at === -1 ? open[0] : open[Math.min(Math.max(at + step, 0), open.length - 1)]
    if (next !== undefined) setChosen(next.id)
  }
  useEffect(() => {
    list.current?.querySelector('[aria-current="true"]')?.scrollIntoView({ block: 'nearest' })
  }, [selected?.id])
  useKeys({
    j: () => {
      move(1)
    },
    k: () => {
      move(-1)
    },
    ArrowDown: () => {
      move(1)
    },
    ArrowUp: () => {
      move(-1)
    },
    o: () => {
      if (selected?.sessionId !== undefined) void navigate({ to: '/sessions/$id', params: { id: selected.sessionId } })
    },
  })
  return (
    <>
      <div className={c.head}>
        <h1>Inbox</h1>
        <span className={s.muted} role="status">
          {isLoaded ? `${String(open.length)} waiting` : 'Loading …'}
        </span>
      </div>
      {isLoaded && open.length === 0 && selected === undefined && (
        <Empty>Nothing waits for you. Decisions of your agents appear here at once.</Empty>
      )}
      <div className={c.split}>
        <div className={`${s.stack ?? ''} ${isDetailOpen ? (c.onlyWide ?? '') : ''}`}>
          <ul className={c.list} ref={list} aria-label="Waiting decisions">
            {open.map((decision) => (
              <li key={decision.id}>
                <button
                  type="button"
                  className={c.item}
                  data-severity={decision.severity ?? undefined}
                  aria-current={decision.id === selected?.id}
                  onClick={() => {
                    setChosen(decision.id)
                    setDetailOpen(true)
                  }}
                >
                  <DecisionFacts decision={decision} />
                  <span className={c.clip}>{headline(decision)}</span>
                  <small className={s.muted}>
                    {decision.sessionName !== undefined && `${decision.sessionName}, `}
                    <Ago at={decision.createdAt} />
                  </small>
                </button>
              </li>
            ))}
          </ul>
          {ended.length > 0 && (
            <section aria-label="Decided while this page was open" className={s.stack}>
              <h2 className={s.muted}>Over</h2>
              <ul className={c.list}>
                {ended.slice(0, 8).map((decision) => (
                  <li key={decision.id} className={c.ended}>
                    <button
                      type="button"
                      className={c.item}
                      aria-current={decision.id === selected?.id}
                      onClick={() => {
                        setChosen(decision.id)
                        setDetailOpen(true)
                      }}
                    >
                      <span className={c.clip}>{headline(decision)}</span>
                      <small>{outcomeText(decision)}</small>
                    </button>
                  </li>
                ))}
              </ul>
            </section>
          )}
        </div>
        {selected !== undefined && (
          <div className={isDetailOpen ? undefined : c.onlyWide}>
            <div className={c.onlyNarrow} style={{ marginBottom: '0.6rem' }}>
              <Button
                onClick={() => {
                  setDetailOpen(false)
                }}
              >
                ← All decisions
              </Button>
            </div>
            <DecisionCard key={selected.id} decision={selected} hasKeys>
              {!isDecidable(selected) && open.length > 0 && (
                <div>
                  <Button
                    look="primary"
                    onClick={() => {
                      move(1)
                    }}
                  >
                    Next decision <kbd>j</kbd>
                  </Button>
                </div>
              )}
            </DecisionCard>
          </div>
        )}
      </div>
    </>
  )
}
