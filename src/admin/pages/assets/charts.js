// Draws the charts: usage over time, as the API answers it. Sizes are fixed by the style, so that nothing moves.

const DAY = 86400

// What one period is called, by its length in milliseconds.
const PERIODS = { 60000: 'minute', 3600000: 'hour', 86400000: 'day' }

// The steps of an axis of whole numbers.
const WHOLE = [...Array(16).keys()].flatMap((power) => [1, 2, 5].map((step) => step * 10 ** power))

// What each kind of chart shows: its series, with the class of each colour. A value is of one row, or of none.
const KINDS = {
  requests: {
    unit: (period) => `per ${period}`,
    steps: WHOLE,
    series: [
      { name: 'answered', colour: 'accent', value: (row) => (row ? row.requests - row.errors : 0), fill: true },
      { name: 'errors', colour: 'bad', value: (row) => (row ? row.errors : 0) },
    ],
  },
  units: {
    unit: (period) => `per ${period}`,
    steps: WHOLE,
    series: [{ name: 'units', colour: 'accent', value: (row) => (row ? row.units : 0), fill: true }],
  },
  latency: {
    unit: () => 'ms, at most',
    series: [
      { name: 'p50', colour: 'accent', value: (row) => row?.latency.p50 ?? null },
      { name: 'p95', colour: 'second', value: (row) => row?.latency.p95 ?? null },
    ],
  },
}

// A day and a time, as the place of the browser writes them, and always with 24 hours.
const TIME = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
const DATE = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric' })
const SHORT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })
const LONG = new Intl.NumberFormat('en', { maximumFractionDigits: 2 })

function colours() {
  const style = getComputedStyle(document.documentElement)
  const of = (name) => style.getPropertyValue(name).trim()
  return { accent: of('--accent'), bad: of('--bad'), second: of('--muted'), muted: of('--muted'), line: of('--line') }
}

// One value for each period, also for those without usage.
function table(usage, kind) {
  const rows = new Map(usage.rows.map((row) => [row.at, row]))
  const times = []
  for (let at = usage.from; at < usage.to; at += usage.period) times.push(at)
  const values = kind.series.map((series) => times.map((at) => series.value(rows.get(at))))
  return [times.map((at) => at / 1000), ...values]
}

function legend(figure, kind, period, data, at) {
  const place = figure.querySelector('.legend')
  const parts = kind.series.map((series, index) => {
    const part = document.createElement('span')
    const mark = document.createElement('i')
    mark.className = series.colour
    const value = at === null ? null : data[index + 1][at]
    part.append(mark, value === null || value === undefined ? series.name : `${series.name} ${LONG.format(value)}`)
    return part
  })
  const unit = document.createElement('span')
  unit.textContent =
    at === null ? kind.unit(period) : `${DATE.format(data[0][at] * 1000)}, ${TIME.format(data[0][at] * 1000)}`
  place.replaceChildren(...parts, unit)
}

// What a chart shows, for those who do not see it.
function describe(figure, plot, kind, period, data) {
  const largest = Math.max(
    0,
    ...data
      .slice(1)
      .flat()
      .filter((value) => value !== null),
  )
  const sums =
    kind === KINDS.latency
      ? []
      : kind.series.map(
          (series, index) => `${LONG.format(data[index + 1].reduce((sum, value) => sum + value, 0))} ${series.name}`,
        )
  plot.setAttribute('role', 'img')
  plot.setAttribute('aria-label', [...sums, `at most ${LONG.format(largest)} ${kind.unit(period)}`].join(', '))
  figure.dataset.drawn = String(data[0].length)
}

function draw(figure, usage, isNew) {
  const kind = KINDS[figure.dataset.kind]
  const period = PERIODS[usage.period] ?? 'period'
  const data = table(usage, kind)
  const plot = figure.querySelector('.plot')
  describe(figure, plot, kind, period, data)
  if (figure.chart && !isNew) return figure.chart.setData(data)
  const colour = colours()
  figure.chart?.destroy()
  plot.replaceChildren()
  const axis = { stroke: colour.muted, grid: { stroke: colour.line, width: 1 }, ticks: { show: false } }
  const font = `12px ${getComputedStyle(document.body).fontFamily}`
  const span = data[0].length ? data[0].at(-1) - data[0][0] : 0
  figure.chart = new uPlot(
    {
      width: plot.clientWidth,
      height: plot.clientHeight,
      padding: [8, 20, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
      scales: {
        x: { time: true },
        // From zero, and with room for one even if nothing was used.
        y: { range: (_, low, high) => [0, Math.max(1, (high ?? 0) * 1.1)] },
      },
      axes: [
        {
          ...axis,
          font,
          size: 28,
          grid: { show: false },
          space: 60,
          values: (_, ticks) => ticks.map((tick) => (span > 2 * DAY ? DATE : TIME).format(tick * 1000)),
        },
        { ...axis, font, size: 52, ...(kind.steps && { incrs: kind.steps }), values: (_, ticks) => ticks.map((tick) => SHORT.format(tick)) },
      ],
      series: [
        {},
        ...kind.series.map((series) => ({
          label: series.name,
          stroke: colour[series.colour],
          width: 1.5,
          fill: series.fill ? `color-mix(in srgb, ${colour[series.colour]} 14%, transparent)` : undefined,
          points: { show: true, size: 5, filter: alone },
          paths: kind === KINDS.latency ? uPlot.paths.stepped({ align: 1 }) : uPlot.paths.linear(),
        })),
      ],
      hooks: { setCursor: [(chart) => legend(figure, kind, period, chart.data, chart.cursor.idx ?? null)] },
    },
    data,
    plot,
  )
  legend(figure, kind, period, data, null)
}

// The values that no line leads to, which would not be seen without a point.
function alone(chart, series) {
  const values = chart.data[series]
  const isThere = (at) => values[at] !== null && values[at] !== undefined
  return [...values.keys()].filter((at) => isThere(at) && !isThere(at - 1) && !isThere(at + 1))
}

function message(figure, text) {
  const place = document.createElement('p')
  place.className = 'message'
  place.textContent = text
  figure.chart?.destroy()
  figure.chart = undefined
  figure.querySelector('.plot').replaceChildren(place)
}

const figures = [...document.querySelectorAll('.chart[data-src]')]

async function load() {
  // Charts of the same usage share one request.
  for (const source of new Set(figures.map((figure) => figure.dataset.src))) {
    const shown = figures.filter((figure) => figure.dataset.src === source)
    try {
      const answer = await fetch(source, { headers: { accept: 'application/json' } })
      if (!answer.ok) throw new Error(String(answer.status))
      const usage = await answer.json()
      for (const figure of shown) {
        figure.usage = usage
        draw(figure, usage, false)
      }
    } catch {
      for (const figure of shown) if (!figure.usage) message(figure, 'Usage cannot be read now. It is asked for again.')
    }
  }
}

const redraw = () =>
  figures.forEach((figure) => {
    if (figure.usage) draw(figure, figure.usage, true)
  })

for (const figure of figures) message(figure, '…')
load()
document.addEventListener('refreshed', load)
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw)
let resized
addEventListener('resize', () => {
  clearTimeout(resized)
  resized = setTimeout(redraw, 100)
})
