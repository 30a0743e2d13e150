import Markdown from 'react-markdown'
import s from './ui.module.css'

/** Renders the Markdown of an agent. HTML in it is shown as text, and images are not loaded. */
export default function AgentText({ children }: { children: string }) {
  return (
    <div className={s.markdown}>
      <Markdown
        disallowedElements={['img']}
        unwrapDisallowed
        components={{
          a: ({ href, children }) => (
            <a href={href} target="_blank" rel="noopener noreferrer">
              {children}
            </a>
          ),
          h1: ({ children }) => <strong>{children}</strong>,
          h2: ({ children }) => <strong>{children}</strong>,
          h3: ({ children }) => <strong>{children}</strong>,
          h4: ({ children }) => <strong>{children}</strong>,
          h5: ({ children }) => <strong>{children}</strong>,
          h6: ({ children }) => <strong>{children}</strong>,
        }}
      >
        {children}
      </Markdown>
    </div>
  )
}
