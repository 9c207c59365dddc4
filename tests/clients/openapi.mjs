// Validates an OpenAPI document against the meta-schema of OpenAPI 3.1, and calls against the document:
//
//   node openapi.mjs DOCUMENT CALLS
//
// CALLS is an array of { verb, path, body, status, answer }: what was sent to the service and what it answered. Prints
// one line for each mistake, then the names of the operations that were called with success.

import { readFileSync } from 'node:fs'
import Ajv2020 from 'ajv/dist/2020.js'

const [document, calls] = process.argv.slice(2).map((file) => JSON.parse(readFileSync(file, 'utf8')))

// strict: the document is no schema itself.
const ajv = new Ajv2020({ strict: false, validateFormats: false })

function mistake(what, errors) {
  console.log(`mistake: ${what}${errors ? `: ${ajv.errorsText(errors)}` : ''}`.slice(0, 600))
}

const metaSchema = 'node_modules/@seriousme/openapi-schema-validator/schemas/v3.1/schema.json'
const isDocument = ajv.compile(JSON.parse(readFileSync(new URL(metaSchema, import.meta.url), 'utf8')))
if (!isDocument(document)) mistake('the document', isDocument.errors)
// That leaves the schemas of the document to the meta-schema of JSON Schema.
for (const [name, schema] of Object.entries(document.components.schemas)) {
  if (!ajv.validateSchema(schema)) mistake(`the schema ${name}`, ajv.errors)
}

ajv.addSchema(document, 'document')
const compiled = new Map()

function check(pointer) {
  if (!compiled.has(pointer)) compiled.set(pointer, ajv.compile({ $ref: `document#${pointer}` }))
  return compiled.get(pointer)
}

const escaped = (name) => encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'))
const templates = Object.keys(document.paths).map((path) => ({
  path,
  pattern: new RegExp(`^${path.replaceAll('.', '\\.').replace(/\{\w+\}/g, '[^/]+')}$`),
}))
const done = new Set()

for (const { verb, path, body, status, answer } of calls) {
  const call = `${verb} ${path} ${JSON.stringify(body)}`.slice(0, 200)
  const plain = path.split('?')[0]
  // A path without a parameter comes first.
  const known = templates.find((one) => one.path === plain) ?? templates.find((one) => one.pattern.test(plain))
  const operation = known && document.paths[known.path][verb.toLowerCase()]
  if (!operation) {
    if (![404, 405].includes(status)) mistake(`${call}: ${status}, but it is not in the document`)
    continue
  }
  const place = `/paths/${escaped(known.path)}/${verb.toLowerCase()}`
  const described = operation.responses[status]
  if (!described) {
    if (status < 400) mistake(`${call}: status ${status} is not in the document`)
    if (!check('/components/schemas/Error')(answer)) mistake(`${call}: ${status}`, check('/components/schemas/Error').errors)
    continue
  }
  done.add(operation.operationId)
  const schemaOf = (content) => `${content}/content/application~1json/schema`
  if (body !== null) {
    if (!operation.requestBody) mistake(`${call}: takes no body`)
    else if (!check(schemaOf(`${place}/requestBody`))(body)) {
      mistake(`${call}: the body`, check(schemaOf(`${place}/requestBody`)).errors)
    }
  }
  if (described.content?.['application/json']) {
    const isAnswer = check(schemaOf(`${place}/responses/${status}`))
    if (!isAnswer(answer)) mistake(`the answer to ${call}`, isAnswer.errors)
  } else if (answer !== null) mistake(`${call}: an answer that is not in the document`)
}
console.log(`operations: ${[...done].sort().join(' ')}`)
