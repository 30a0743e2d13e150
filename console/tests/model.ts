import { spawn, type ChildProcess } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PROGRAMS } from './server'

/** A reply of the model: a text, or calls of tools. `tests/model-server/src/script.rs` describes it. */
export interface Reply {
  text?: string
  tools?: readonly { name: string; input: unknown; id?: string }[]
}

/** The key of the provider. The model accepts any. */
export const KEY = 'sk-ant-the-key-of-a-test'

/** A model with scripted replies, behind the protocols of the providers. The agents that call it are real. */
export class Model {
  private constructor(
    readonly url: string,
    private readonly child: ChildProcess,
    private readonly folder: string,
  ) {}

  /** `offers` is a tool of the conversation, which tells its requests from others of the agent. */
  static async start(offers: string, steps: readonly Reply[]): Promise<Model> {
    const folder = await mkdtemp(join(tmpdir(), 'pilothouse-model-'))
    const file = join(folder, 'script.json')
    await writeFile(file, JSON.stringify({ conversations: [{ offers, progress: 'history', steps }] }))
    const child = spawn(join(PROGRAMS, 'pilothouse-model-server'), [file], { stdio: ['ignore', 'pipe', 'pipe'] })
    let errors = ''
    child.stderr.on('data', (text: Buffer) => (errors += text.toString()))
    const url = await new Promise<string>((done, fail) => {
      child.stdout.once('data', (text: Buffer) => {
        done(text.toString().trim())
      })
      child.once('error', (error) => {
        fail(new Error(`${error.message}; build it with \`cargo build --package pilothouse-model-server\``))
      })
      child.once('exit', () => {
        fail(new Error(`the model server ended: ${errors}`))
      })
    })
    return new Model(url, child, folder)
  }

  /** Why the model refused requests. A provider would refuse them as well. */
  async refusals(): Promise<string[]> {
    const response = await fetch(`${this.url}/_script/requests`)
    const requests = (await response.json()) as { refused: string | null }[]
    return requests.flatMap(({ refused }) => refused ?? [])
  }

  async stop(): Promise<void> {
    this.child.removeAllListeners()
    this.child.kill('SIGKILL')
    await rm(this.folder, { recursive: true, force: true })
  }
}
