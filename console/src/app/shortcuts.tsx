import { Button, Dialog, s } from '../ui'
import c from './shell.module.css'

const KEYS = [
  ['Ctrl K', 'Find a session, a project or an action'],
  ['g i', 'Inbox'],
  ['g s', 'Sessions'],
  ['g p', 'Projects'],
  ['g c', 'Costs'],
  ['g l', 'Library'],
  ['g d', 'Dead letters'],
  ['g e', 'Settings'],
  ['c', 'New session'],
  ['!', 'Emergency brake'],
  ['?', 'This list'],
  ['j  k', 'Inbox, sessions, artifacts and issues: next, previous'],
  ['Enter', 'Sessions: open the selected one'],
  ['a', 'Inbox: approve; artifacts: accept'],
  ['A', 'Inbox: approve this and all like it'],
  ['r', 'Inbox and artifacts: reject'],
  ['m', 'Inbox: change the input'],
  ['d', 'Inbox: dismiss, if the agent has ended'],
  ['1 … 9', 'Inbox: choose an option'],
  ['t', 'Inbox: answer in your own words'],
  ['o', 'Inbox: open the session'],
  ['s', 'Session: write to the agent'],
  ['p', 'Session: pause or resume'],
  ['i', 'Session: interrupt'],
  ['← →', 'Session: move the position in the timeline, when it has the focus'],
  ['↑ ↓', 'Session: move a queued message, when its handle has the focus'],
  ['Ctrl Enter', 'Text fields: send or save'],
  ['Esc', 'Close, or leave the text field'],
] as const

export function Shortcuts({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard" isOpen onClose={onClose}>
      <dl className={c.keys}>
        {KEYS.map(([keys, effect]) => (
          <div key={keys} style={{ display: 'contents' }}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{effect}</dd>
          </div>
        ))}
      </dl>
      <div className={s.dialogFoot}>
        <Button onClick={onClose}>Close</Button>
      </div>
    </Dialog>
  )
}
