// People and programs that administer: their pages, and what they may do.

import assert from 'node:assert/strict'
import { PASSWORD, personAt } from './person.mjs'
import { show, take } from './screenshots.mjs'
import { watchedPage } from './watched_browser.mjs'

const OTHER_PASSWORD = 'what an administrator has set'

/** Sets the password of the account carol, who logs in with it alone. */
export async function setPasswordOf(browser, admin, page, origin, kept) {
  await admin.go('/accounts')
  await page.getByRole('row', { name: /carol/ }).getByRole('link', { name: 'Set password' }).click()
  await admin.heading('Set the password of carol').waitFor()
  await take(page, kept, 'password-of')
  await admin.fill('New password', OTHER_PASSWORD)
  await admin.fill('New password again', PASSWORD)
  await admin.press('Set the password')
  await admin.alert('type the same password twice')
  await admin.heading('Set the password of carol').waitFor()
  await take(page, kept, 'password-of-again')
  await admin.fill('New password', OTHER_PASSWORD)
  await admin.fill('New password again', OTHER_PASSWORD)
  await admin.press('Set the password')
  await admin.notice('The password is set')
  await admin.heading('Accounts').waitFor()
  const carolPage = await watchedPage(browser, origin)
  const carol = personAt(carolPage, origin)
  await carol.go('/login')
  await carol.logIn('carol', PASSWORD)
  await carolPage.getByRole('alert').waitFor()
  await carol.logIn('carol', OTHER_PASSWORD)
  await carol.heading('Overview').waitFor()
  await carolPage.context().close()
}

/** Makes an API token, which is let in until it is removed. */
export async function tokens(admin, page, origin, kept) {
  await admin.go('/tokens/new')
  await take(page, kept, 'token-new')
  await admin.fill('Name', 'deploy')
  await admin.press('Create the token')
  await admin.heading('The API token is made: deploy').waitFor()
  await take(page, kept, 'token-made')
  const token = await page.locator('#made-1').textContent()
  const status = async () => {
    const answer = await fetch(`${origin}/admin/api/v1/keys`, { headers: { authorization: `Bearer ${token}` } })
    return answer.status
  }
  assert.equal(await status(), 200)
  await show(page, kept, 'accounts', `${origin}/accounts`)
  assert(!(await page.content()).includes(token), 'a token is shown once')
  // A second one of the name.
  await admin.go('/tokens/new')
  await admin.fill('Name', 'deploy')
  await admin.press('Create the token')
  await page.getByRole('alert').waitFor()
  assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), 'deploy')
  await admin.go('/accounts')
  await page.getByRole('row', { name: /deploy/ }).getByRole('link', { name: 'Remove …' }).click()
  await admin.heading('Remove the API token deploy').waitFor()
  await take(page, kept, 'token-remove')
  await admin.press('Remove the API token')
  await admin.notice('The API token is removed')
  assert.equal(await status(), 401)
}
