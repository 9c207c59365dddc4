// What a person does in the dashboard, in a real browser, with pictures of every page.
//
//   node dashboard.mjs LINK PUBLIC FOLDER
//
// LINK is the printed one of the first account, PUBLIC the URL of the public listener, and FOLDER where pictures are
// kept. The service has to be a new one.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { call, openSession, serve } from './foreign_site.mjs'
import { folder, show, take } from './screenshots.mjs'
import { launch, violations, watchedPage } from './watched_browser.mjs'

const [link, publicUrl, picturesFolder] = process.argv.slice(2)
const { origin } = new URL(link)
const PASSWORD = 'correct horse battery staple'
const OTHER_PASSWORD = 'a sentence is a good password'
// Names that would run if a page took them for HTML.
const TENANT = '<img src=x onerror="window.ran=1">'
const KEY = '"><script>window.ran=1</script>'
const USER_AGENT = "Mozilla/5.0 <img src=x onerror='window.ran=1'>"

const kept = folder(picturesFolder)
const browser = await launch()
const page = await watchedPage(browser, origin)
const site = await serve()
const dapp = await (await browser.newContext({ userAgent: USER_AGENT })).newPage()
await dapp.goto(site.origin)

const began = Date.now()
const at = (path) => `${origin}${path}`
const heading = (name) => page.getByRole('heading', { level: 1, name, exact: true })
const press = (name) => page.getByRole('button', { name, exact: true }).click()
const follow = (name) => page.getByRole('link', { name, exact: true }).click()
const fill = (label, text) => page.getByLabel(label, { exact: true }).fill(text)
const notice = (text) => page.getByRole('status').filter({ hasText: text }).waitFor()
const alert = (text) => page.getByRole('alert').filter({ hasText: text }).waitFor()
const madeKey = () => page.locator('#made-1').textContent()

async function step(name, run) {
  const from = Date.now()
  await run()
  console.log(`${((Date.now() - from) / 1000).toFixed(1)} s  ${name}`)
}

/** Waits until a question has another answer than before; the page is loaded again each time. */
async function until(what, holds) {
  const deadline = Date.now() + 20_000
  while (!(await holds())) {
    assert(Date.now() < deadline, `${what}: not within 20 s`)
    await page.waitForTimeout(200)
  }
}

async function logIn(name, password) {
  await fill('Name', name)
  await fill('Password', password)
  await press('Log in')
}

let key
let keyPage
let tenantPage

await step('the first account', async () => {
  await page.goto(at('/'))
  await heading('Log in').waitFor()
  await take(page, kept, 'login')
  await page.goto(link)
  await take(page, kept, 'first-account')
  await fill('Name', 'alice')
  await fill('Password', PASSWORD)
  await fill('Password again', OTHER_PASSWORD)
  await press('Make the account')
  await alert('type the same password twice')
  await fill('Password', PASSWORD)
  await fill('Password again', PASSWORD)
  await press('Make the account')
  await heading('Overview').waitFor()
  // Used up.
  const again = await page.context().newPage()
  await again.goto(link)
  await again.getByLabel('Name').fill('mallory')
  await again.getByLabel('Password', { exact: true }).fill(PASSWORD)
  await again.getByLabel('Password again').fill(PASSWORD)
  await again.getByRole('button').click()
  await again.getByRole('alert').waitFor()
  await again.close()
})

await step('what there is at first', async () => {
  for (const path of ['keys', 'tenants', 'keys/new']) await show(page, kept, `first-${path.replace('/', '-')}`, at(`/${path}`))
})

await step('a tenant and a key', async () => {
  await page.goto(at('/tenants/new'))
  await fill('Name', TENANT)
  await fill('Requests a second', '1000')
  await fill('Units a day', '1000000')
  await press('Create the tenant')
  await heading(TENANT).waitFor()
  tenantPage = new URL(page.url()).pathname
  await follow('Create a key')
  await fill('Name', KEY)
  await press('Create the key')
  await heading(`The key is made: ${KEY}`).waitFor()
  key = await madeKey()
  assert.match(key, /^[\w-]{43}$/)
  const curl = await page.locator('#snippet-1').textContent()
  assert(curl.includes(`/v3/${key}`), curl)
  // Not the pictures of others: they would have the key.
  await take(page, kept, 'key-made')
  await follow('Go to the key')
  await heading(KEY).waitFor()
  keyPage = new URL(page.url()).pathname
  assert(!(await page.content()).includes(key), 'a key is shown once')
})

await step('use it, and see its usage', async () => {
  for (let count = 0; count < 20; count += 1) {
    const answer = await call(dapp, `${publicUrl}/v3/${key}`, 'eth_blockNumber')
    assert.deepEqual([answer.status, answer.units], [200, '1'])
  }
  await call(dapp, `${publicUrl}/v3/${key}`, 'eth_getLogs', [{ fromBlock: 'latest' }])
  await call(dapp, `${publicUrl}/v3/${key}`, 'eth_getBlockByHash', ['0x1', false])
  await until('usage', async () => {
    await page.goto(at(`${keyPage}?last=15m`))
    return (await page.locator('#usage-methods').count()) > 0
  })
  const chart = page.getByRole('img', { name: /answered/ })
  await until('the chart', async () => {
    await page.reload()
    return /^21 answered, 1 errors, at most \d+ per minute$/.test(await chart.getAttribute('aria-label'))
  })
  const row = page.getByRole('row', { name: /eth_blockNumber/ })
  assert.match(await row.textContent(), /eth_blockNumber20/)
  await show(page, kept, 'key', at(`${keyPage}?last=15m`))
})

await step('export', async () => {
  for (const [name, expected] of [['CSV', /^[\w,]+\r?\n.*eth_getLogs/s], ['JSON', /"method":\s*"eth_getLogs"/]]) {
    const [download] = await Promise.all([page.waitForEvent('download'), follow(name)])
    assert.match(readFileSync(await download.path(), 'utf8'), expected)
  }
})

await step('restrict its origins', async () => {
  const url = `${publicUrl}/v3/${key}`
  const restrict = async (origins) => {
    await page.goto(at(keyPage))
    await fill('Origins', origins)
    await press('Save')
  }
  await restrict('https://app.example.org\nnot an origin')
  await alert('Origins: “not an origin”')
  assert.equal(await page.getByLabel('Origins', { exact: true }).inputValue(), 'https://app.example.org\nnot an origin')
  await restrict('https://app.example.org')
  await notice('Saved')
  const refused = await call(dapp, url, 'eth_blockNumber')
  assert.deepEqual([refused.status, refused.body.error.code], [403, -32002])
  await restrict(`https://app.example.org\n${site.origin}`)
  await notice('Saved')
  assert.equal((await call(dapp, url, 'eth_blockNumber')).status, 200)
})

await step('rotate', async () => {
  await page.goto(at(keyPage))
  await follow('Rotate …')
  await take(page, kept, 'rotate')
  await page.getByLabel('The old key still works for').selectOption('1h')
  await press('Rotate the key')
  const old = key
  key = await madeKey()
  assert.notEqual(key, old)
  for (const one of [old, key]) assert.equal((await call(dapp, `${publicUrl}/v3/${one}`, 'eth_chainId')).status, 200)
  await follow('Go to the key')
  keyPage = new URL(page.url()).pathname
})

await step('revoke it with an open session', async () => {
  const session = await openSession(dapp, `${publicUrl.replace('http', 'ws')}/ws/v3/${key}`)
  await page.goto(at(keyPage))
  await follow('Revoke …')
  await take(page, kept, 'revoke')
  await press('Revoke the key')
  await notice('revoked')
  const from = Date.now()
  const [code] = await session.closed()
  assert.equal(code, 4401)
  assert(Date.now() - from < 2_000, 'the session was closed late')
  assert.equal((await call(dapp, `${publicUrl}/v3/${key}`, 'eth_chainId')).status, 401)
  await show(page, kept, 'key-revoked', at(keyPage))
})

await step('a holder', async () => {
  await page.goto(at('/accounts/new'))
  await fill('Name', 'bob')
  await page.getByLabel('Role').selectOption('holder')
  await page.getByLabel('Tenant of a holder').selectOption({ label: TENANT })
  await fill('Password', PASSWORD)
  await fill('Password again', PASSWORD)
  await take(page, kept, 'account-new')
  await press('Create the account')
  await notice('account is made')
  await page.goto(at('/tokens/new'))
  await fill('Name', 'deploy')
  await press('Create the token')
  await heading('The API token is made: deploy').waitFor()
  await show(page, kept, 'accounts', at('/accounts'))
})

await step('every other page', async () => {
  const pages = [
    ['overview', '/'], ['keys', '/keys'], ['tenants', '/tenants'], ['tenant', `${tenantPage}?last=15m`],
    ['tenant-remove', `${tenantPage}/remove`], ['usage', '/usage?last=15m'], ['nodes', '/nodes'], ['audit', '/audit'],
    ['account', '/account'], ['tenant-new', '/tenants/new'], ['not-found', '/keys/0000000000000000'],
    ['search', '/keys?search=nothing'],
  ]
  for (const [name, path] of pages) await show(page, kept, name, at(path))
})

await step('try a method', async () => {
  await page.goto(at('/keys/new'))
  await page.getByLabel('Tenant', { exact: true }).selectOption({ label: TENANT })
  await fill('Name', 'Wallet, production')
  await press('Create the key')
  key = await madeKey()
  await page.goto(at('/try?method=eth_getBlockByNumber'))
  await fill('Key', key)
  await press('Call it')
  await page.locator('#answer-text', { hasText: '"parentHash"' }).waitFor()
  assert.equal(await page.locator('.tile', { hasText: 'Units' }).locator('dd').first().textContent(), '1')
  const curl = await page.locator('#answer-curl').textContent()
  assert(curl.includes('eth_getBlockByNumber') && !curl.includes(key), curl)
  await take(page, kept, 'try')
  await page.goto(at('/try?method=eth_getLogs'))
  await fill('Key', 'not-a-key')
  await press('Call it')
  await page.locator('#answer-text', { hasText: 'invalid project id' }).waitFor()
})

await step('without JavaScript', async () => {
  const plain = await watchedPage(browser, origin, {
    javaScriptEnabled: false,
    storageState: await page.context().storageState(),
  })
  await plain.goto(at(keyPage))
  await plain.getByRole('heading', { level: 2, name: 'Usage' }).waitFor()
  await plain.goto(at('/try?method=eth_chainId'))
  await plain.getByLabel('Key', { exact: true }).fill(key)
  await plain.getByRole('button', { name: 'Call it' }).click()
  await plain.locator('#answer-text', { hasText: '"result"' }).waitFor()
  await plain.context().close()
})

await step('by keyboard', async () => {
  await page.goto(at('/keys'))
  await page.keyboard.press('Tab')
  const skip = page.getByRole('link', { name: 'Skip to the content' })
  assert(await skip.evaluate((link) => link === document.activeElement && link.getBoundingClientRect().left >= 0))
  await page.keyboard.press('Enter')
  await page.keyboard.press('Tab')
  assert(await page.evaluate(() => document.querySelector('main').contains(document.activeElement)))
})

await step('log out', async () => {
  await page.goto(at('/account'))
  await fill('Present password', PASSWORD)
  await fill('New password', OTHER_PASSWORD)
  await fill('New password again', OTHER_PASSWORD)
  await press('Set the password')
  await notice('Log in with it')
  await logIn('alice', PASSWORD)
  await page.getByRole('alert').waitFor()
  await logIn('alice', OTHER_PASSWORD)
  await heading('Overview').waitFor()
  const [login] = await page.context().cookies()
  await press('Log out')
  await notice('You have logged out')
  // The cookie is worth nothing any more.
  await page.context().addCookies([login])
  await page.goto(at('/keys'))
  await heading('Log in').waitFor()
})

await step('the holder’s pages', async () => {
  await logIn('bob', PASSWORD)
  await heading('Your keys').waitFor()
  await take(page, kept, 'holder-keys')
  await follow('Wallet, production')
  await heading('Wallet, production').waitFor()
  await take(page, kept, 'holder-key')
  assert.equal(await page.getByRole('link', { name: 'Revoke …' }).count(), 0)
  for (const path of ['/tenants', '/accounts', '/nodes', `${keyPage}/revoke`]) {
    const answer = await page.goto(at(path))
    assert.equal(answer.status(), 403, path)
  }
  await page.goto(at('/keys'))
  await follow('Wallet, production')
  await follow('Rotate …')
  await press('Rotate the key')
  assert.match(await madeKey(), /^[\w-]{43}$/)
  await press('Log out')
})

assert.equal(await page.evaluate(() => window.ran), undefined)
await browser.close()
site.close()
assert.deepEqual(violations, [])
console.log(`${((Date.now() - began) / 1000).toFixed(1)} s  all`)
