// What a person does on a page: finds things by what they are called, fills in, presses, follows.

/** The password of every account, unless it is changed. */
export const PASSWORD = 'correct horse battery staple'

/** A person in front of this page, whose paths are those of `origin`. */
export function personAt(page, origin) {
  const person = {
    at: (path) => `${origin}${path}`,
    go: (path) => page.goto(person.at(path)),
    heading: (name) => page.getByRole('heading', { level: 1, name, exact: true }),
    press: (name) => page.getByRole('button', { name, exact: true }).click(),
    follow: (name) => page.getByRole('link', { name, exact: true }).click(),
    fill: (label, text) => page.getByLabel(label, { exact: true }).fill(text),
    notice: (text) => page.getByRole('status').filter({ hasText: text }).waitFor(),
    alert: (text) => page.getByRole('alert').filter({ hasText: text }).waitFor(),
    /** The text of the main part of the page. */
    text: () => page.getByRole('main').innerText(),

    async logIn(name, password = PASSWORD) {
      await person.fill('Name', name)
      await person.fill('Password', password)
      await person.press('Log in')
    },

    /** Opens the printed link, and makes the first account, `alice`. */
    async makeFirstAccount(link) {
      await page.goto(link)
      await person.fill('Name', 'alice')
      await person.fill('Password', PASSWORD)
      await person.fill('Password again', PASSWORD)
      await person.press('Make the account')
    },

    async createTenant(name) {
      await person.go('/tenants/new')
      await person.fill('Name', name)
      await person.press('Create the tenant')
      await person.heading(name).waitFor()
    },
  }
  return person
}
