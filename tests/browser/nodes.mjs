// The dashboard's pages of nodes that fail and recover.
//
//   node nodes.mjs LINK FOLDER EXPECTED AFTERWARDS
//
// LINK is the printed one of the first account, and FOLDER where pictures are kept. EXPECTED has the state of each node
// as a JSON array, and AFTERWARDS the states when `heal` was printed.

import assert from 'node:assert/strict'
import { personAt } from './person.mjs'
import { folder, show, take } from './screenshots.mjs'
import { finish, step } from './steps.mjs'
import { launch, violations, watchedPage } from './watched_browser.mjs'

const [link, picturesFolder, expected, afterwards] = process.argv.slice(2)
const { origin } = new URL(link)
const kept = folder(picturesFolder)
const browser = await launch()
const page = await watchedPage(browser, origin)
const alice = personAt(page, origin)

/** Waits until the page, which is not loaded again, shows these states. */
async function waitFor(states) {
  await page.waitForFunction((states) => {
    const shown = [...document.querySelectorAll('#nodes td[data-name="State"]')].map((cell) => cell.textContent.trim())
    return JSON.stringify(shown) === states
  }, states)
}

await step('nodes of which some fail', async () => {
  await alice.makeFirstAccount(link)
  await alice.heading('Overview').waitFor()
  await alice.go('/nodes')
  await waitFor(expected)
  for (const url of await page.locator('#nodes th[scope="row"]').allTextContents()) assert.match(url, /^http:\/\/127\.0\.0\.1/)
  const faults = await page.locator('#nodes td[data-name="Faults"]').allTextContents()
  assert(faults.some((text) => text.trim() === 'none') && faults.some((text) => /connection\s\d+/.test(text)), `${faults}`)
  await show(page, kept, 'nodes-failing', alice.at('/nodes'))
  await show(page, kept, 'overview-failing', alice.at('/'))
})

await step('nodes that recover', async () => {
  await alice.go('/nodes')
  await waitFor(expected)
  console.log('heal')
  await waitFor(afterwards)
  await take(page, kept, 'nodes-live')
})

await browser.close()
assert.deepEqual(violations, [])
finish()
