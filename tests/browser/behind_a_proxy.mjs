// The dashboard behind a proxy, in a browser that knows it by the proxy's name alone.
//
//   node behind_a_proxy.mjs NAME ADDRESS CASES
//
// The browser resolves NAME to ADDRESS. CASES is a JSON array: each has the URL of a page of the dashboard, and either
// `refusal`, a part of the message with which a log-in is refused, or `publicUrl`, the URL in the examples of a key.

import assert from 'node:assert/strict'
import { PASSWORD, personAt } from './person.mjs'
import { finish, step } from './steps.mjs'
import { launch, violations, watchedPage } from './watched_browser.mjs'

const [name, address, cases] = process.argv.slice(2)
const browser = await launch([`--host-resolver-rules=MAP ${name} ${address}`])

for (const [at, { url, refusal, publicUrl, isFirst }] of JSON.parse(cases).entries()) {
  await step(url, async () => {
    const { origin } = new URL(url)
    const page = await watchedPage(browser, origin, { ignoreHTTPSErrors: true })
    const alice = personAt(page, origin)
    await page.goto(url)
    if (refusal) {
      // The page of the log-in is refused, or what it sends.
      if ((await page.getByLabel('Name').count()) > 0) await alice.logIn('alice', PASSWORD)
      await page.getByText(refusal).waitFor()
    } else {
      if (isFirst) await alice.makeFirstAccount(url)
      else await alice.logIn('alice', PASSWORD)
      await alice.heading('Overview').waitFor()
      const [login] = await page.context().cookies()
      assert.equal(login.secure, url.startsWith('https:'))
      await alice.createTenant(`Tenant ${at}`)
      await alice.follow('Create a key')
      await alice.fill('Name', 'Wallet')
      await alice.press('Create the key')
      const curl = await page.locator('#snippet-1').textContent()
      assert(curl.includes(`${publicUrl}/v3/`), curl)
      await alice.press('Log out')
      await alice.heading('Log in').waitFor()
    }
    await page.context().close()
  })
}

await browser.close()
assert.deepEqual(violations, [])
finish()
