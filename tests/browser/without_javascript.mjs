// What a person does in a browser without JavaScript.

import assert from 'node:assert/strict'
import { personAt } from './person.mjs'
import { watchedPage } from './watched_browser.mjs'

/**
 * Logs in, makes a key of this tenant, looks at its usage, saves what it may do, tries it, and revokes it. `statusOf`
 * asks with a key.
 */
export async function withoutJavaScript(browser, origin, tenant, statusOf) {
  const page = await watchedPage(browser, origin, { javaScriptEnabled: false })
  const person = personAt(page, origin)
  await person.go('/keys/new')
  await person.logIn('alice')
  // Who has logged in is where they wanted to be.
  await person.heading('Create a key').waitFor()
  await page.getByLabel('Tenant', { exact: true }).selectOption({ label: tenant })
  await person.fill('Name', 'Plain')
  await person.press('Create the key')
  await person.heading('The key is made: Plain').waitFor()
  assert.equal(await page.getByRole('button', { name: 'Copy' }).count(), 0, 'a button does nothing')
  const key = await page.locator('#made-1').textContent()
  assert.equal(await statusOf(key), 200)
  await person.go('/try?method=eth_chainId')
  await person.fill('Key', key)
  await person.press('Call it')
  await page.locator('#answer-text', { hasText: '"result"' }).waitFor()
  await person.go('/keys')
  await person.follow('Plain')
  await page.getByRole('heading', { level: 2, name: 'Usage' }).waitFor()
  await person.fill('Methods', 'eth_blockNumber')
  await person.press('Save')
  await person.notice('Saved')
  assert.equal(await statusOf(key), 403)
  await person.follow('Revoke …')
  await person.press('Revoke the key')
  await person.notice('revoked')
  assert.equal(await statusOf(key), 401)
  await person.press('Log out')
  await person.notice('You have logged out')
  await page.context().close()
}
