import { expect, expectAccessible, press, test } from './fixture'

const SCRIPT = {
  steps: [
    {
      turn: {
        steps: [
          { say: 'I read the invoices first.' },
          { question: { id: 'q1', questions: [{ question: 'Which currency?' }] } },
          { say: 'I add them up.' },
          { waitForMessage: {} },
          { say: 'I heard: {{message}}' },
          { tool: { name: 'Edit', input: { file_path: 'sums.py', old_string: 'total = 0', new_string: 'total = sum(y)' }, result: 'ok' } },
          { say: 'The sums are right now.' },
        ],
        output: { filesChanged: 1, testsAdded: 1, allTestsPassing: true },
      },
    },
  ],
}

// A person who has only opened the link of the server. Nothing here uses the command line or the API.
test('a newcomer starts an agent, answers, steers, reviews and approves', async ({ server, console: page }) => {
  const goTo = async (screen: string) => {
    await press(page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: screen }))
    await expect(page.getByRole('heading', { name: screen, level: 1 })).toBeVisible()
  }
  await expect(page.getByText('Nothing waits for you.')).toBeVisible()

  await press(page.getByRole('button', { name: 'New session' }))
  const form = page.getByRole('dialog', { name: 'New session' })
  await form.getByRole('textbox', { name: 'What to do' }).fill('Add up the invoices')
  await form.getByRole('textbox', { name: 'Directory' }).fill(server.work)
  await press(form.getByText('More options'))
  await form.getByRole('textbox', { name: 'Name' }).fill('invoices')
  await form.getByRole('textbox', { name: 'Adapter options' }).fill(JSON.stringify({ script: SCRIPT }))
  await press(form.getByRole('button', { name: 'Start' }))
  await expect(page.getByRole('heading', { name: 'invoices', level: 1 })).toBeVisible()
  const timeline = page.getByRole('region', { name: 'Timeline' })
  await expect(timeline).toContainText('I read the invoices first.')

  await goTo('Inbox')
  await press(page.getByRole('list', { name: 'Waiting decisions' }).getByRole('button', { name: /Which currency/ }))
  const card = page.getByRole('article')
  await card.getByRole('textbox', { name: 'Which currency?' }).fill('Euro')
  await press(card.getByRole('button', { name: /^Answer/ }))
  await expect(card.getByRole('status')).toContainText('local answered “Euro”')
  await press(card.getByRole('link', { name: 'invoices' }))
  await expect(timeline).toContainText('I add them up.')

  const message = page.getByRole('form', { name: 'Message to the agent' })
  await message.getByRole('textbox', { name: 'Message to the agent' }).fill('Round to cents')
  await press(message.getByRole('button', { name: /^Send/ }))
  await expect(timeline).toContainText('I heard: Round to cents')

  await expect(timeline).toContainText('The sums are right now.')
  await press(card.getByRole('button', { name: 'Review the changes' }))
  await expect(card.getByRole('group', { name: 'Change of sums.py' })).toContainText('+ total = sum(y)')
  await expectAccessible(page)
  await press(card.getByRole('button', { name: /^Approve/ }))
  await expect(page.getByRole('main').getByText('Completed', { exact: true })).toBeVisible()

  await goTo('Sessions')
  await expect(page.getByRole('heading', { name: 'Done (1)' })).toBeVisible()
  await goTo('Inbox')
  await expect(page.getByRole('main').getByText('0 waiting')).toBeVisible()
})
