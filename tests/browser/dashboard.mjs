// What a person does in the dashboard, in a real browser, with pictures of every page.
//
//   node dashboard.mjs LINK PUBLIC FOLDER
//
// LINK is the printed one of the first account, PUBLIC the URL of the public listener, and FOLDER where pictures are
// kept. The service has to be a new one.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { setPasswordOf, tokens } from './accounts.mjs'
import { newSigner } from './client_token.mjs'
import { call, callAndListen, openSession, serve } from './foreign_site.mjs'
import { PASSWORD, personAt } from './person.mjs'
import { drawn, folder, show, take } from './screenshots.mjs'
import { finish, step, until } from './steps.mjs'
import { checkFocus, checkStill, launch, violations, watchedPage } from './watched_browser.mjs'
import { withoutJavaScript } from './without_javascript.mjs'

const [link, publicUrl, picturesFolder] = process.argv.slice(2)
const { origin } = new URL(link)
const OTHER_PASSWORD = 'a sentence is a good password'
// Names that would run if a page took them for HTML.
const TENANT = '<img src=x onerror="window.ran=1">'
const KEY = '"><script>window.ran=1</script>'
const USER_AGENT = "Mozilla/5.0 <img src=x onerror='window.ran=1'>"

const kept = folder(picturesFolder)
const browser = await launch()
const page = await watchedPage(browser, origin)
const alice = personAt(page, origin)
const { at, heading, press, follow, fill, notice, alert, logIn } = alice
const holderPage = await watchedPage(browser, origin)
const bob = personAt(holderPage, origin)
const site = await serve()
const dapp = await (await browser.newContext({ userAgent: USER_AGENT })).newPage()
await dapp.goto(site.origin)

const urlOf = (one) => `${publicUrl}/v3/${one}`
const madeKey = () => page.locator('#made-1').textContent()
/** Makes a key by the form, and returns it. */
async function createKey(name) {
  await page.goto(at('/keys/new'))
  await page.getByLabel('Tenant', { exact: true }).selectOption({ label: TENANT })
  await fill('Name', name)
  await press('Create the key')
  return madeKey()
}
/** The status of a call from the page of another site. */
const statusOf = async (one, authorization) => (await call(dapp, urlOf(one), 'eth_chainId', { authorization })).status

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
    const answer = await call(dapp, urlOf(key), 'eth_blockNumber')
    assert.deepEqual([answer.status, answer.headers['x-nearhead-units']], [200, '1'])
  }
  await call(dapp, urlOf(key), 'eth_getLogs', { params: [{ fromBlock: 'latest' }] })
  await call(dapp, urlOf(key), 'eth_getBlockByHash', { params: ['0x1', false] })
  await until('usage', async () => {
    await page.goto(at(`${keyPage}?last=15m`))
    return (await page.locator('#usage-methods').count()) > 0
  })
  const chart = page.getByRole('img', { name: /answered/ })
  const row = page.getByRole('row', { name: /eth_blockNumber/ })
  // The page is made before its chart asks for the numbers: usage may be written in between.
  await until('the chart and the table', async () => {
    await page.reload()
    await drawn(page)
    const label = await chart.getAttribute('aria-label')
    return /^21 answered, 1 errors, at most \d+ per minute$/.test(label) && /eth_blockNumber20/.test(await row.textContent())
  })
  await show(page, kept, 'key', at(`${keyPage}?last=15m`))
})

await step('export', async () => {
  for (const [name, expected] of [['CSV', /^[\w,]+\r?\n.*eth_getLogs/s], ['JSON', /"method":\s*"eth_getLogs"/]]) {
    const [download] = await Promise.all([page.waitForEvent('download'), follow(name)])
    assert.match(readFileSync(await download.path(), 'utf8'), expected)
  }
})

await step('restrict its origins', async () => {
  const url = urlOf(key)
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

await step('a secret beside it', async () => {
  // With the secret, a request may have any origin.
  await page.goto(at(keyPage))
  await fill('Origins', 'https://app.example.org')
  await press('Save')
  await notice('Saved')
  assert.equal(await statusOf(key), 403)
  await page.getByLabel('Refuse requests without it').check()
  await page.getByLabel('A request with it may have any origin and any user agent').check()
  await press('Make a secret')
  await heading(`The secret is made: ${KEY}`).waitFor()
  const secret = await madeKey()
  assert.match(secret, /^[\w-]{43}$/)
  await take(page, kept, 'secret-made')
  await follow('Go to the key')
  await heading(KEY).waitFor()
  assert(!(await page.content()).includes(secret), 'a secret is shown once')
  const basic = (text) => `Basic ${Buffer.from(`:${text}`).toString('base64')}`
  for (const [authorization, status] of [
    [undefined, 401], [basic(secret), 200], [`Bearer ${secret}`, 200], [basic('another'), 401], ['Bearer another', 401],
  ]) assert.equal(await statusOf(key, authorization), status, authorization)
  await page.locator('#secret').getByRole('link', { name: 'Remove …' }).click()
  await heading(`Remove the secret of ${KEY}`).waitFor()
  await take(page, kept, 'secret-remove')
  await press('Remove the secret')
  await notice('secret')
  // It exempts from nothing any more.
  assert.equal(await statusOf(key, basic(secret)), 403)
  await fill('Origins', '')
  await press('Save')
  await notice('Saved')
  assert.equal(await statusOf(key), 200)
})

await step('tokens of its clients', async () => {
  const [signer, other] = [newSigner('backend'), newSigner('backend')]
  const id = keyPage.split('/').at(-1)
  const add = async (pem) => {
    await page.getByText('Add a public key').click()
    await fill('kid', 'backend')
    await fill('Public key', pem)
    await press('Add')
  }
  await page.goto(at(keyPage))
  await add('-----BEGIN PUBLIC KEY-----')
  await page.getByRole('alert').waitFor()
  await page.goto(at(keyPage))
  await add(signer.publicKey)
  await notice('Saved')
  await take(page, kept, 'key-with-tokens')
  for (const [token, status] of [
    [undefined, 401], [signer.token(id), 200], [other.token(id), 401], [signer.token('another'), 401],
  ]) assert.equal(await statusOf(key, token && `Bearer ${token}`), status)
  await page.locator('#public-keys').getByRole('link', { name: 'Remove …' }).click()
  await heading('Remove the public key backend').waitFor()
  await take(page, kept, 'public-key-remove')
  await press('Remove the public key')
  await notice('Saved')
  assert.equal(await statusOf(key), 200)
})

await step('what scripts may read', async () => {
  const limited = await createKey('Metered')
  await follow('Go to the key')
  await fill('Requests a second', '1')
  await fill('Requests at once', '1')
  await press('Save')
  await notice('Saved')
  const answers = []
  for (let count = 0; count < 2; count += 1) answers.push(await callAndListen(dapp, urlOf(limited), 'eth_chainId'))
  assert.deepEqual(answers.map(({ status }) => status), [200, 429])
  const isOurs = (name) => /^(x-|ratelimit-|retry-after$)/.test(name)
  for (const { headers, sent } of answers) {
    for (const name of Object.keys(sent).filter(isOurs)) assert.equal(headers[name], sent[name], `${name} is hidden`)
  }
  const sent = new Set(answers.flatMap((answer) => Object.keys(answer.sent)))
  for (const name of ['x-nearhead-units', 'ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset', 'retry-after']) {
    assert(sent.has(name), `${name} is not sent`)
  }
})

await step('two administrators at once', async () => {
  await page.goto(at(keyPage))
  const other = await page.context().newPage()
  await other.goto(at(keyPage))
  await other.getByLabel('Units a day', { exact: true }).fill('7000000')
  await other.getByRole('button', { name: 'Save', exact: true }).click()
  await other.getByText('It is in force').waitFor()
  await other.close()
  await fill('Units a day', '5000000')
  await press('Save')
  await page.getByText('Somebody has changed it since this page was opened').waitFor()
  await page.getByRole('cell', { name: '7,000,000', exact: true }).waitFor()
  await take(page, kept, 'key-stale')
  await press('Save')
  await notice('It is in force')
  assert.equal(await page.getByLabel('Units a day', { exact: true }).inputValue(), '5000000')
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
  for (const one of [old, key]) assert.equal(await statusOf(one), 200)
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
  assert.equal(await statusOf(key), 401)
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
  await page.goto(at('/accounts/new'))
  await fill('Name', 'carol')
  await fill('Password', PASSWORD)
  await fill('Password again', PASSWORD)
  await press('Create the account')
  await notice('account is made')
})

await step('another’s password', () => setPasswordOf(browser, alice, page, origin, kept))

await step('API tokens', () => tokens(alice, page, origin, kept))

await step('every other page', async () => {
  const pages = [
    ['overview', '/'], ['keys', '/keys'], ['tenants', '/tenants'], ['tenant', `${tenantPage}?last=15m`], ['usage', '/usage?last=15m'], ['nodes', '/nodes'], ['audit', '/audit'],
    ['account', '/account'], ['tenant-new', '/tenants/new'], ['not-found', '/keys/0000000000000000'],
    ['search', '/keys?search=nothing'],
  ]
  for (const [name, path] of pages) await show(page, kept, name, at(path))
})

await step('try a method', async () => {
  key = await createKey('Wallet, production')
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

await step('without JavaScript', () => withoutJavaScript(browser, origin, TENANT, statusOf))

await step('numbers that change move nothing', async () => {
  await page.goto(at('/'))
  await drawn(page)
  const refreshed = page.evaluate(() => new Promise((done) => {
    let left = 2
    document.addEventListener('refreshed', () => (left -= 1) || done())
  }))
  const before = await page.locator('#tiles').textContent()
  for (let count = 0; count < 1_100; count += 100) {
    await Promise.all(Array.from({ length: 100 }, () => statusOf(key)))
  }
  await refreshed
  assert.notEqual(await page.locator('#tiles').textContent(), before, 'nothing has changed')
  await drawn(page)
  await checkStill(page, 'overview, refreshed')
})

await step('by keyboard', async () => {
  await page.goto(at('/keys'))
  await page.keyboard.press('Tab')
  const skip = page.getByRole('link', { name: 'Skip to the content' })
  assert(await skip.evaluate((link) => link === document.activeElement && link.getBoundingClientRect().left >= 0))
  await page.keyboard.press('Enter')
  await page.keyboard.press('Tab')
  assert(await page.evaluate(() => document.querySelector('main').contains(document.activeElement)))
  for (const path of ['/', '/keys', keyPage, '/accounts', '/try']) {
    await page.goto(at(path))
    assert((await checkFocus(page, path)) > 10, path)
  }
})

await step('remove a key that is over', async () => {
  await page.goto(at(keyPage))
  await follow('Remove …')
  await take(page, kept, 'key-remove')
  await press('Remove the key')
  await notice('The key is removed')
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
  await bob.go('/')
  await bob.logIn('bob')
  await bob.heading('Your keys').waitFor()
  await take(holderPage, kept, 'holder-keys')
  await bob.follow('Wallet, production')
  await bob.heading('Wallet, production').waitFor()
  await take(holderPage, kept, 'holder-key')
  assert.equal(await holderPage.getByRole('link', { name: 'Revoke …' }).count(), 0)
  for (const path of ['/tenants', '/accounts', '/nodes', `${keyPage}/revoke`]) {
    assert.equal((await bob.go(path)).status(), 403, path)
  }
  await take(holderPage, kept, 'forbidden')
  await bob.go('/keys')
  await bob.follow('Wallet, production')
  await bob.follow('Rotate …')
  await bob.press('Rotate the key')
  key = await holderPage.locator('#made-1').textContent()
  assert.match(key, /^[\w-]{43}$/)
})

await step('remove an account', async () => {
  await logIn('alice', OTHER_PASSWORD)
  await page.goto(at('/accounts'))
  await page.getByRole('row', { name: /carol/ }).getByRole('link', { name: 'Remove …' }).click()
  await heading('Remove the account carol').waitFor()
  assert.match(await alice.text(), /carol can log in no more/)
  await take(page, kept, 'account-remove')
  await press('Remove the account')
  await notice('removed')
  assert.equal(await page.getByRole('row', { name: /carol/ }).count(), 0)
  // The last administrator stays.
  await page.getByRole('row', { name: /alice/ }).getByRole('link', { name: 'Remove …' }).click()
  await press('Remove the account')
  assert.match(await page.getByRole('main').innerText(), /only administrator is alice/)
  await take(page, kept, 'account-last')
})

await step('remove the tenant', async () => {
  const session = await openSession(dapp, `${publicUrl.replace('http', 'ws')}/ws/v3/${key}`)
  await page.goto(at(tenantPage))
  await follow('Remove …')
  await heading(`Remove ${TENANT}`).waitFor()
  const destroyed = await alice.text()
  for (const named of [TENANT, /\d+ keys/, 'bob', 'their open sessions']) {
    assert(named instanceof RegExp ? named.test(destroyed) : destroyed.includes(named), `${named}: ${destroyed}`)
  }
  await take(page, kept, 'tenant-remove')
  await press('Remove the tenant and its keys')
  await notice('removed')
  assert.equal((await session.closed())[0], 4401)
  assert.equal(await statusOf(key), 401)
  await holderPage.reload()
  await bob.heading('Log in').waitFor()
})

for (const one of [page, holderPage]) assert.equal(await one.evaluate(() => window.ran), undefined)
await browser.close()
site.close()
assert.deepEqual(violations, [])
finish()
