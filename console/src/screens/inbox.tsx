import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { useActions } from '../app/keyboard'
import { inbox } from '../live/inbox'
import { useStore } from '../live/store'
import { Button, Empty, s } from '../ui'
import { Ago } from '../ui/time'
import { DecisionCard, DecisionFacts, headline, isDecidable, outcomeText } from './decision'
import c from './screens.module.css'
import { Entry, Split, useSelection } from './split'

/**
 * The open decisions. Only the person moves the selection: a decision that ends elsewhere stays selected and shows its outcome until
 * the person selects another one.
 */
export function InboxScreen() {
  const { isLoaded, open, ended } = useStore(inbox)
  const navigate = useNavigate()
  const [chosen, setChosen] = useState<string>()
  const [isDetailOpen, setDetailOpen] = useState(false)
  const ids = open.map(({ id }) => id)
  const { selected: selectedId, next } = useSelection(ids, chosen, setChosen)
  const selected = [...open, ...ended].find(({ id }) => id === selectedId) ?? open[0]
  const sessionId = selected?.sessionId
  useActions(
    sessionId === undefined
      ? []
      : [
          {
            label: 'Open the session of the decision',
            key: 'o',
            run: () => void navigate({ to: '/sessions/$id', params: { id: sessionId } }),
          },
        ],
  )
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
      <Split
        selected={selected?.id}
        isOpen={isDetailOpen}
        back="All decisions"
        onBack={() => {
          setDetailOpen(false)
        }}
        list={
          <div className={s.stack}>
            <ul className={c.list} aria-label="Waiting decisions">
              {open.map((decision) => (
                <li key={decision.id}>
                  <Entry
                    severity={decision.severity ?? undefined}
                    isSelected={decision.id === selected?.id}
                    onOpen={() => {
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
                  </Entry>
                </li>
              ))}
            </ul>
            {ended.length > 0 && (
              <section aria-label="Decided while this page was open" className={s.stack}>
                <h2 className={s.muted}>Over</h2>
                <ul className={c.list}>
                  {ended.slice(0, 8).map((decision) => (
                    <li key={decision.id} className={c.ended}>
                      <Entry
                        isSelected={decision.id === selected?.id}
                        onOpen={() => {
                          setChosen(decision.id)
                          setDetailOpen(true)
                        }}
                      >
                        <span className={c.clip}>{headline(decision)}</span>
                        <small>{outcomeText(decision)}</small>
                      </Entry>
                    </li>
                  ))}
                </ul>
              </section>
            )}
          </div>
        }
      >
        {selected !== undefined && (
          <DecisionCard key={selected.id} decision={selected} hasKeys>
            {!isDecidable(selected) && open.length > 0 && (
              <div>
                <Button look="primary" onClick={next}>
                  Next decision <kbd>j</kbd>
                </Button>
              </div>
            )}
          </DecisionCard>
        )}
      </Split>
    </>
  )
}
