// A browser that notices what no page of the dashboard may do: load something from elsewhere, break its own policy, write
// an error to the console, or run what somebody typed.

import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { delimiter, join } from 'node:path'
import { chromium } from 'playwright-core'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome']
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** The browser of the system, as tests/setup finds or installs it. */
function executable() {
  const folders = process.env.PATH.split(delimiter)
  const files = NAMES.flatMap((name) => folders.map((folder) => join(folder, name)))
  const found = process.env.NEARHEAD_BROWSER ?? files.find(existsSync)
  if (!found) throw new Error('no browser: run tests/setup')
  return found
}

/** Launches the browser, with these arguments besides. */
export async function launch(args = []) {
  return chromium.launch({ executablePath: executable(), args: ['--disable-gpu', ...args] })
}

/** What pages did that they may not do, a line each. */
export const violations = []

/**
 * Opens a page whose violations are noticed. `origin` is where all that it loads has to come from.
 */
export async function watchedPage(browser, origin, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, acceptDownloads: true, ...options })
  context.setDefaultTimeout(15_000)
  const page = await context.newPage()
  const report = (what) => violations.push(`${page.url()}: ${what}`)
  context.on('request', (request) => {
    const url = new URL(request.url())
    if (url.origin !== origin && url.protocol !== 'data:') report(`loads ${request.url()}`)
  })
  page.on('websocket', (socket) => report(`opens a session at ${socket.url()}`))
  page.on('pageerror', (error) => report(`throws ${error}`))
  page.on('dialog', (dialog) => {
    report(`shows a dialog: ${dialog.message()}`)
    dialog.dismiss()
  })
  page.on('console', (message) => {
    // A status such as 403 of a form that is refused on purpose.
    const isStatus = message.text().startsWith('Failed to load resource: the server responded with a status of 4')
    // Without TLS, the browser says that it ignores one of the headers.
    const isWithoutTls = message.text().startsWith('The Cross-Origin-Opener-Policy header has been ignored')
    if (['error', 'warning'].includes(message.type()) && !isStatus && !isWithoutTls) report(`writes to the console: ${message.text()}`)
  })
  await context.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => {
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`)
    })
    window.shifts = []
    new PerformanceObserver((list) => {
      for (const shift of list.getEntries()) if (!shift.hadRecentInput) window.shifts.push(shift.value)
    }).observe({ type: 'layout-shift', buffered: true })
  })
  return page
}

/** Fails if the page is not accessible: names of fields, contrast, landmarks, and so on (axe-core). */
export async function checkAccess(page, name) {
  await page.evaluate(AXE)
  const { violations: found } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }))
  for (const { id, help, nodes } of found) {
    const places = nodes.slice(0, 3).map((node) => `${node.target.join(' ')} ${node.any.map((any) => any.message).join('; ')}`)
    violations.push(`${name}: ${id}: ${help}: ${places.join(' | ')}`)
  }
}

/** Fails if something of the page moved after it was shown. */
export async function checkStill(page, name) {
  const shifts = await page.evaluate(() => window.shifts)
  const sum = shifts.reduce((all, shift) => all + shift, 0)
  if (sum > 0.01) violations.push(`${name}: moves by ${sum}`)
}

/** Fails if the page is wider than the window. */
export async function checkWidth(page, name) {
  const [content, window_] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth])
  if (content > window_) violations.push(`${name}: is ${content} px wide, the window ${window_}`)
}

/** Fails if something that the keyboard reaches on the page does not show that it has the focus. */
export async function checkFocus(page, name) {
  await page.evaluate(() => document.activeElement.blur())
  const seen = new Set()
  for (;;) {
    await page.keyboard.press('Tab')
    const focused = await page.evaluate(() => {
      const element = document.activeElement
      if (element === document.body) return null
      window.places ??= new Map()
      if (!window.places.has(element)) window.places.set(element, window.places.size)
      const { outlineStyle, outlineWidth, outlineOffset } = getComputedStyle(element)
      const [width, offset] = [outlineWidth, outlineOffset].map(parseFloat)
      const { left, top, right, bottom } = element.getBoundingClientRect()
      // What an ancestor cuts off of the outline is not seen.
      let [l, t, r, b] = [left - offset, top - offset, right + offset, bottom + offset]
      for (let parent = element.parentElement; parent; parent = parent.parentElement) {
        if (getComputedStyle(parent).overflow === 'visible') continue
        const box = parent.getBoundingClientRect()
        ;[l, t, r, b] = [Math.max(l, box.left), Math.max(t, box.top), Math.min(r, box.right), Math.min(b, box.bottom)]
      }
      const isCut = l > left - offset || t > top - offset || r < right + offset || b < bottom + offset
      return {
        place: window.places.get(element),
        what: `${element.tagName.toLowerCase()} ${element.id || element.textContent.trim().slice(0, 30)}`,
        isShown: outlineStyle !== 'none' && width >= 2 && !isCut,
      }
    })
    if (!focused || seen.has(focused.place)) return seen.size
    seen.add(focused.place)
    if (!focused.isShown) violations.push(`${name}: ${focused.what} does not show the focus`)
  }
}
