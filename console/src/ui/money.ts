/** Decimal places of a sum. Amounts are decimal texts of the server, and are added and shown without rounding. */
const SCALE = 12

function units(amount: string): bigint {
  const [whole = '0', fraction = ''] = amount.replace('-', '').split('.')
  const value = BigInt(whole + fraction.slice(0, SCALE).padEnd(SCALE, '0'))
  return amount.startsWith('-') ? -value : value
}

export function add(amounts: readonly string[]): string {
  const total = amounts.reduce((sum, amount) => sum + units(amount), 0n)
  const digits = (total < 0n ? -total : total).toString().padStart(SCALE + 1, '0')
  const fraction = digits.slice(-SCALE).replace(/0+$/, '')
  return `${total < 0n ? '-' : ''}${digits.slice(0, -SCALE)}${fraction === '' ? '' : `.${fraction}`}`
}

export function compareAmounts(a: string, b: string): number {
  const difference = units(a) - units(b)
  return difference < 0n ? -1 : difference > 0n ? 1 : 0
}

/** The share of `part` in `whole` in percent, for a bar. */
export function share(part: string, whole: string): number {
  const all = units(whole)
  return all === 0n ? 0 : Number((units(part) * 10_000n) / all) / 100
}

export function dollars(amount: string): string {
  const [whole = '0', fraction = ''] = add([amount]).replace('-', '').split('.')
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ',')
  return `${amount.startsWith('-') ? '-' : ''}$${grouped}.${fraction.padEnd(2, '0')}`
}
