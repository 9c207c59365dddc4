// Steps of a test, each with the time that it takes.

const began = Date.now()
const seconds = (since) => `${((Date.now() - since) / 1000).toFixed(1)} s`

/** Does one step. */
export async function step(name, run) {
  const from = Date.now()
  await run()
  console.log(`${seconds(from)}  ${name}`)
}

/** Prints how long all of them took. */
export function finish() {
  console.log(`${seconds(began)}  all`)
}

/** Waits until this holds, which loads the page again each time. */
export async function until(what, holds) {
  const deadline = Date.now() + 20_000
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`${what}: not within 20 s`)
    await new Promise((again) => setTimeout(again, 200))
  }
}
