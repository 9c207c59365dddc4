// What every page does with JavaScript besides showing itself: it copies, and keeps its numbers fresh.

for (const button of document.querySelectorAll('[data-copy]')) {
  const source = document.getElementById(button.dataset.copy)
  button.hidden = false
  button.setAttribute('aria-live', 'polite')
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(source.textContent)
      button.textContent = 'Copied'
    } catch {
      // Without a secure context there is no clipboard: the text is selected, to be copied by hand.
      getSelection().selectAllChildren(source)
      button.textContent = 'Selected'
    }
    setTimeout(() => {
      button.textContent = 'Copy'
    }, 2000)
  })
}

// The page is fetched again, and its parts that are marked `data-live` take the place of the old ones. So the server
// alone decides how a number is written. A part that has the focus or a selection in it stays.
const seconds = Number(document.body.dataset.refresh)

function isInUse(part) {
  const selection = getSelection()
  return part.contains(document.activeElement) || (!selection.isCollapsed && selection.containsNode(part, true))
}

// Whether somebody has begun to fill in a form, so that the page may not be loaded again.
let isTyping = false
addEventListener('input', () => {
  isTyping = true
})

async function refresh() {
  const answer = await fetch(location.href, { headers: { accept: 'text/html' }, redirect: 'error' })
  if (!answer.ok) return
  const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html')
  for (const part of document.querySelectorAll('[data-live][id]')) {
    const other = fresh.getElementById(part.id)
    // What was empty has got a content, which is another part of the page.
    if (!other && part.hasAttribute('data-until-gone') && !isTyping) return location.reload()
    if (other && !isInUse(part) && other.innerHTML !== part.innerHTML) part.replaceChildren(...other.childNodes)
  }
  document.dispatchEvent(new Event('refreshed'))
}

if (seconds > 0) {
  const again = () =>
    setTimeout(async () => {
      if (!document.hidden) await refresh().catch(() => {})
      again()
    }, seconds * 1000)
  again()
}
