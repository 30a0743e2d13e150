// Installs the dependencies and bundles the console into `dist`, each only after a change. Cargo's build script runs it.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'

const INPUTS = ['index.html', 'package-lock.json', 'public', 'scripts/build.mjs', 'src', 'tsconfig.json', 'vite.config.ts']
const INSTALLED = 'node_modules/.pilothouse-stamp'
const BUNDLED = 'dist/.stamp'

function files(path) {
  if (!statSync(path).isDirectory()) return [path]
  return readdirSync(path).sort().flatMap((name) => files(join(path, name)))
}

function digest(inputs) {
  const hash = createHash('sha256')
  for (const path of inputs.flatMap(files)) hash.update(path).update('\0').update(readFileSync(path)).update('\0')
  return hash.digest('hex')
}

function isStamped(stamp, value) {
  return existsSync(stamp) && readFileSync(stamp, 'utf8') === value
}

/** Shorter than the limit of `embed/build.rs`, which would leave npm running. */
const TIMEOUT_MS = 4 * 60_000

/** Runs a program. After a failure, the last line of output names the program; `embed/build.rs` shows this line. */
function run(what, program, args) {
  try {
    execFileSync(program, args, { stdio: 'inherit', timeout: TIMEOUT_MS })
  } catch (error) {
    console.error(`${what} failed (${error.code ?? `exit code ${error.status}`})`)
    process.exit(1)
  }
}

const lock = digest(['package-lock.json'])
if (process.argv[2] === 'installed') {
  // After `npm ci` by a developer, with the tools for tests.
  writeFileSync(INSTALLED, lock)
  process.exit()
}
if (!isStamped(INSTALLED, lock)) {
  const retries = ['--fetch-retries=1', '--fetch-retry-mintimeout=1000', '--fetch-timeout=60000']
  run('npm ci', 'npm', ['ci', '--omit=dev', '--ignore-scripts', '--prefer-offline', '--no-progress', ...retries])
  writeFileSync(INSTALLED, lock)
}
const sources = digest(INPUTS)
if (!isStamped(BUNDLED, sources)) {
  rmSync('dist', { recursive: true, force: true })
  run('vite build', process.execPath, ['node_modules/vite/bin/vite.js', 'build', '--logLevel', 'warn'])
  for (const path of files('dist')) {
    if (path === join('dist', 'index.html')) continue
    writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }))
    rmSync(path)
  }
  writeFileSync(BUNDLED, sources)
}
