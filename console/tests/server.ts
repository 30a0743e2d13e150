import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { mkdtemp, mkdir, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'

const ROOT = resolve(import.meta.dirname, '../..')
/** The folder with the programs. */
export const PROGRAMS = process.env.PILOTHOUSE_PROGRAMS ?? join(ROOT, 'target/debug')
const run = promisify(execFile)

async function freePort(): Promise<number> {
  return new Promise((done) => {
    const listener = createServer().listen(0, '127.0.0.1', () => {
      const { port } = listener.address() as { port: number }
      listener.close(() => {
        done(port)
      })
    })
  })
}

export type Steps = readonly Record<string, unknown>[]

/** Variables that a server gets besides those of the test. */
export type Environment = Readonly<Record<string, string>>

/** A real server with its own data folder. A restart keeps its port. */
export class Server {
  private child: ChildProcess | undefined
  private token: string | undefined
  /** The link that the server printed. */
  link = ''

  private constructor(
    readonly folder: string,
    private readonly port: number,
    private readonly environment: Environment,
  ) {}

  static async start(environment: Environment = {}): Promise<Server> {
    const folder = await mkdtemp(join(tmpdir(), 'pilothouse-console-'))
    await mkdir(join(folder, 'work'))
    const server = new Server(folder, await freePort(), environment)
    await server.up()
    return server
  }

  get url(): string {
    return `http://127.0.0.1:${String(this.port)}`
  }

  async up(): Promise<void> {
    const listen = `127.0.0.1:${String(this.port)}`
    const child = spawn(join(PROGRAMS, 'pilothouse'), ['--json', 'up', '--listen', listen, '--data', this.data], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...process.env,
        PILOTHOUSE_UNCONFINED: 'true',
        PILOTHOUSE_DEFAULT_ADAPTER: 'script',
        PILOTHOUSE_WEBHOOK_REACH: 'loopback',
        ...this.environment,
      },
    })
    this.child = child
    let errors = ''
    child.stderr.on('data', (text: Buffer) => (errors += text.toString()))
    const line = await new Promise<string>((done, fail) => {
      let text = ''
      child.stdout.on('data', (part: Buffer) => {
        text += part.toString()
        if (text.includes('\n')) done(text)
      })
      child.on('exit', () => {
        fail(new Error(`the server ended: ${errors}`))
      })
    })
    const { console: link } = JSON.parse(line) as { console: string | null }
    if (link === null) throw new Error('this build does not include the console')
    this.link = link
  }

  /** Ends the server as a crash does. Its agents continue to run. */
  async kill(): Promise<void> {
    const { child } = this
    if (child === undefined || child.exitCode !== null) return
    const ended = new Promise((done) => child.on('exit', done))
    child.kill('SIGKILL')
    await ended
  }

  async stop(): Promise<void> {
    // The sessions end first, so that no agent outlives its test.
    const sessions = await this.sessions().catch(() => [])
    await Promise.all(
      sessions.map(({ id }) => this.cli('cancel', id, '--force').catch(() => undefined)),
    )
    const { child } = this
    if (child?.exitCode === null) {
      const ended = new Promise((done) => child.on('exit', done))
      child.kill('SIGTERM')
      await ended
    }
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5 })
  }

  get data(): string {
    return join(this.folder, 'data')
  }

  get work(): string {
    return join(this.folder, 'work')
  }

  async cli(...args: string[]): Promise<string> {
    const { stdout } = await run(join(PROGRAMS, 'pilothouse'), args, {
      cwd: this.work,
      env: { ...process.env, PILOTHOUSE_DATA: this.data, PILOTHOUSE_URL: this.url, NO_COLOR: '1' },
    })
    return stdout
  }

  async json<T>(...args: string[]): Promise<T> {
    return JSON.parse(await this.cli('--json', ...args)) as T
  }

  /** A request of the API with a token. */
  async api<T>(method: string, path: string, body?: unknown): Promise<T> {
    this.token ??= (await this.cli('token')).trim()
    const { token } = this
    const response = await fetch(`${this.url}/api/${path}`, {
      method,
      headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    if (!response.ok) throw new Error(`${method} ${path}: ${String(response.status)} ${await response.text()}`)
    return (await response.json()) as T
  }

  async sessions(): Promise<{ id: string; name: string; status: string }[]> {
    return (await this.api<{ items: { id: string; name: string; status: string }[] }>('GET', 'agents/sessions')).items
  }

  async statusOf(id: string): Promise<string | undefined> {
    return (await this.sessions()).find((session) => session.id === id)?.status
  }

  /** Starts a session that plays steps, and returns its id. */
  async session(name: string, steps: Steps, ...options: string[]): Promise<string> {
    return this.play(name, { steps }, ...options)
  }

  /** Starts a session that plays a script, and returns its id. */
  async play(name: string, script: unknown, ...options: string[]): Promise<string> {
    const file = join(this.folder, `${name.replaceAll(/[^a-z0-9]/gi, '-').slice(0, 60)}.json`)
    await writeFile(file, JSON.stringify(script))
    const started = await this.json<{ session: { id: string } }>(
      ...['run', `Do the work of ${name}`, '--name', name, '--script', file, '--detach', ...options],
    )
    return started.session.id
  }

  /** Adds a dead letter to a queue. Only while the server does not run. */
  async addDeadLetter(queue: string, body: string, cause: string): Promise<void> {
    const program = `
import sqlite3, sys
database, queue, body, cause = sys.argv[1:]
with sqlite3.connect(database) as connection:
    insert = "INSERT INTO dead_letters (queue, grp, body, cause, receives) SELECT number, 'group', ?, ?, 5 FROM queues WHERE name = ?"
    assert connection.execute(insert, (body, cause, queue)).rowcount == 1`
    await run('python3', ['-c', program, join(this.data, 'pilothouse.db'), queue, body, cause])
  }

  /** A project without agents. Returns its id. */
  async project(): Promise<string> {
    const { id } = await this.json<{ id: string }>(
      ...['project', 'create', 'Shop', '--goal', 'Sell tea', '--rule', 'Never log card numbers'],
      ...['--workstream', 'api=The HTTP API', '--workstream', 'docs=Guides'],
    )
    return id
  }

  /** An agent of the only project that plays steps. Returns the id of its session. */
  async agent(role: string, workstream: string, steps: Steps): Promise<string> {
    const file = join(this.folder, `${role}.json`)
    await writeFile(file, JSON.stringify({ role, workstream, adapter: 'script', providerConfig: { script: { steps } } }))
    await this.cli('agent', 'spawn', `Do the work of the ${role}`, '--brief', file, '--dir', this.work)
    const { items } = await this.api<{ items: { sessionId: string; brief: { role: string } }[] }>('GET', 'agents')
    return items.find(({ brief }) => brief.role === role)?.sessionId ?? ''
  }

  /** An issue of the only project that a person reported. */
  async issue(title: string): Promise<{ id: string }> {
    const description = 'The guide says cents, the code says dollars.'
    return this.api('POST', 'coherence', { title, description, category: 'contradiction', affectedWorkstreams: ['docs'] })
  }

  /** A project with three agents, each of which waits for a decision. Returns its id. */
  async shop(): Promise<string> {
    const id = await this.project()
    const briefs = { builder: 'Build the order service', tester: 'Test the order service', writer: 'Write the guides' }
    for (const [brief, objective] of Object.entries(briefs)) {
      const file = join(ROOT, 'tests/fixtures/shop', `${brief}.json`)
      await this.cli('agent', 'spawn', objective, '--brief', file, '--dir', this.work)
    }
    return id
  }
}
