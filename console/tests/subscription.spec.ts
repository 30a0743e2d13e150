import { expect, test } from '@playwright/test'
import { Subscription, SubscriptionFailure } from '../src/live/subscription'

const SESSION = { sessionId: '0197b1c0-0000-7000-8000-000000000001' }

function queue(cursor: string): string {
  return JSON.stringify({ cursor, type: 'queue', data: { event: 'e' } })
}

function caughtUp(cursor: string): string {
  return JSON.stringify({ cursor, type: 'caught_up', data: {} })
}

test('a session is subscribed to after the last message', { tag: '@quick' }, () => {
  const subscription = new Subscription(SESSION, undefined)
  expect(JSON.parse(subscription.request())).toEqual({ action: 'subscribe', ...SESSION })
  expect(subscription.accept(queue('j4'))).toMatchObject({ type: 'queue', cursor: 'j4' })
  expect(subscription.accept(caughtUp('j4'))).toMatchObject({ type: 'caught_up' })
  expect(JSON.parse(subscription.request())).toEqual({ action: 'subscribe', ...SESSION, after: 'j4' })
})

test('a repeated message of a session is dropped', { tag: '@quick' }, () => {
  const subscription = new Subscription(SESSION, 'j4.1')
  for (const repeated of ['j3', 'j4', 'j4.1']) expect(subscription.accept(queue(repeated))).toBeUndefined()
  for (const next of ['j4.2', 'j5', 'j10']) expect(subscription.accept(queue(next)), next).toBeDefined()
  expect(subscription.accept(queue('j9'))).toBeUndefined()
  expect(subscription.accept(caughtUp('j10'))).toBeDefined()
  expect(subscription.accept(caughtUp('j10')), 'the answer to a renewal').toBeUndefined()
})

test('a list without cursor is read again after each renewal', { tag: '@quick' }, () => {
  const subscription = new Subscription({ topic: 'decisions' }, undefined)
  const answer = JSON.stringify({ type: 'caught_up', data: {} })
  for (let time = 0; time < 2; time++) {
    expect(JSON.parse(subscription.request())).toEqual({ action: 'subscribe', topic: 'decisions' })
    expect(subscription.accept(answer)).toMatchObject({ type: 'caught_up' })
  }
})

test('a project is confirmed and continues at its cursor', { tag: '@quick' }, () => {
  const followed = { projectId: '0197b1c0-0000-7000-8000-000000000002' }
  const subscription = new Subscription(followed, 'abc')
  expect(subscription.accept(JSON.stringify({ type: 'subscribed', data: {} }))).toBeUndefined()
  expect(subscription.accept(JSON.stringify({ type: 'brake', cursor: 'def' }))).toBeDefined()
  expect(JSON.parse(subscription.request())).toEqual({ action: 'subscribe', ...followed, after: 'def' })
})

test('a refusal and a failure of the gateway are no messages', { tag: '@quick' }, () => {
  const subscription = new Subscription(SESSION, undefined)
  const refusal = { type: 'problem', data: { status: 401, detail: 'the token has ended' } }
  expect(() => subscription.accept(JSON.stringify(refusal))).toThrow('the token has ended')
  const failure = { message: 'Internal server error', connectionId: 'c', requestId: 'r' }
  expect(() => subscription.accept(JSON.stringify(failure))).toThrow(SubscriptionFailure)
})
