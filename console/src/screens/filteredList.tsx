import { Choice, Empty, More, Problem, s } from '../ui'
import c from './screens.module.css'
import { Split, useSelection } from './split'

export interface Filter {
  name: string
  label: string
  any: string
  options: readonly (readonly [value: string, text: string])[]
}

/** The list of a project that filters select, with the details of the selected entry beside it. */
export function FilteredList({
  head,
  filters,
  values,
  onFilter,
  pages,
  ids,
  chosen,
  onChoose,
  back,
  empty,
  list,
  details,
}: {
  /** The part above the filters. On a phone, an open entry hides both. */
  head?: React.ReactNode
  filters: readonly Filter[]
  /** The value of each filter that is set. */
  values: Readonly<Record<string, string | undefined>>
  onFilter: (name: string, value: string | undefined) => void
  pages: { error: Error | null; isLoaded: boolean; hasMore: boolean; more: (() => void) | undefined }
  /** The entries in the order of the list. */
  ids: readonly string[]
  chosen: string | undefined
  onChoose: (id: string | undefined) => void
  back: string
  empty: { all: string; filtered: string }
  list: (selected: string | undefined) => React.ReactNode
  details: (selected: string) => React.ReactNode
}) {
  const { error, isLoaded } = pages
  // The former list stays on the screen while another one loads; keys do not move in it.
  const { selected } = useSelection(isLoaded ? ids : [], chosen, onChoose, JSON.stringify(values))
  const isFiltered = Object.keys(values).length > 0
  return (
    <>
      <div className={`${s.stack ?? ''} ${chosen === undefined ? '' : (c.onlyWide ?? '')}`}>
        {head}
        <div className={c.filters} style={{ marginBottom: 0 }}>
          {filters.map(({ name, ...filter }) => (
            <Choice
              key={name}
              {...filter}
              value={values[name] ?? ''}
              onChange={(value) => {
                onFilter(name, value === '' ? undefined : value)
              }}
            />
          ))}
        </div>
      </div>
      {error !== null && <Problem error={error} />}
      {isLoaded && ids.length === 0 && <Empty>{isFiltered ? empty.filtered : empty.all}</Empty>}
      <Split
        selected={selected}
        isOpen={chosen !== undefined}
        back={back}
        onBack={() => {
          onChoose(undefined)
        }}
        list={
          <div className={s.stack}>
            {list(selected)}
            <More pages={pages} text="Show more" />
          </div>
        }
      >
        {selected !== undefined && details(selected)}
      </Split>
    </>
  )
}
