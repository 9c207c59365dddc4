// Pictures of pages: light, dark, and at a phone's width.

import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { checkAccess, checkStill, checkWidth } from './watched_browser.mjs'

const DESKTOP = { width: 1280, height: 860 }
const PHONE = { width: 390, height: 844 }
const LOOKS = [
  ['light', 'light', DESKTOP],
  ['dark', 'dark', DESKTOP],
  ['phone', 'light', PHONE],
]

/** The folder that pictures are kept in, empty at first. */
export function folder(path) {
  rmSync(path, { recursive: true, force: true })
  mkdirSync(path, { recursive: true })
  return path
}

/** Waits until all charts of the page are drawn. */
export async function drawn(page) {
  await page.waitForFunction(() => [...document.querySelectorAll('.chart')].every((chart) => chart.dataset.drawn))
}

/** Takes the pictures of the page that is shown, and checks each. */
export async function take(page, kept, name) {
  await drawn(page)
  await page.evaluate(() => scrollTo(0, 0))
  for (const [look, colorScheme, viewport] of LOOKS) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
    await page.setViewportSize(viewport)
    // Charts take the width of the window a moment after it changes.
    await page.waitForFunction(() => [...document.querySelectorAll('.uplot')].every(
      (chart) => chart.clientWidth <= chart.parentElement.clientWidth))
    if (viewport === PHONE) await checkWidth(page, `${name}, ${look}`)
    await page.screenshot({ path: join(kept, `${name}-${look}.png`), fullPage: true, animations: 'disabled' })
    if (look !== 'phone') await checkAccess(page, `${name}, ${look}`)
  }
  await page.emulateMedia({ colorScheme: 'light' })
  await page.setViewportSize(DESKTOP)
}

/** Opens a page, checks that nothing of it moves, and takes its pictures. */
export async function show(page, kept, name, url) {
  await page.goto(url)
  await drawn(page)
  await checkStill(page, name)
  await take(page, kept, name)
}
