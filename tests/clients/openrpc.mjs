// Validates an OpenRPC document against the meta-schema of OpenRPC 1.4, and calls against the document:
//
//   node openrpc.mjs DOCUMENT CALLS
//
// CALLS is an array of { method, params, accepted, result, code }: whether the service accepts the parameters has to be
// what the document says, a result has to match its schema, and the code of an error has to be one of the method's. Prints one line for each mistake, then the number of calls.

import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import Ajv from 'ajv'

const require = createRequire(import.meta.url)
const [document, calls] = process.argv.slice(2).map((file) => JSON.parse(readFileSync(file, 'utf8')))

// strict: the meta-schemas have keywords of their own.
const ajv = new Ajv({ strict: false, validateFormats: false })

function mistake(what, errors) {
  console.log(`mistake: ${what}${errors ? `: ${ajv.errorsText(errors)}` : ''}`.slice(0, 600))
}

const jsonSchema = require('@json-schema-tools/meta-schema/schema.json')
ajv.addMetaSchema(jsonSchema, undefined, false)
// OpenRPC's meta-schema refers to it without the slash at its end.
const { $id } = jsonSchema
ajv.addSchema({ $ref: $id }, $id.replace(/\/$/, ''))
const isDocument = ajv.compile(require('@open-rpc/spec/1_4/schema.json'))
if (!isDocument(document)) mistake('the document', isDocument.errors)

// What the specification demands beyond the meta-schema.
const methods = new Map(document.methods.map((method) => [method.name, method]))
if (methods.size !== document.methods.length) mistake('a method is there twice')
for (const { name, params } of methods.values()) {
  if (new Set(params.map((param) => param.name)).size !== params.length) mistake(`${name}: a parameter is there twice`)
  const optional = params.findIndex((param) => !param.required)
  if (optional >= 0 && params.slice(optional).some((param) => param.required)) mistake(`${name}: required after optional`)
}

ajv.addSchema(document, 'document')
const compiled = new Map()
/** The check of a schema that is a reference into the document. */
function check({ $ref }) {
  if (!compiled.has($ref)) compiled.set($ref, ajv.compile({ $ref: `document${$ref}` }))
  return compiled.get($ref)
}

/** Why the document refuses these parameters, if it does. */
function refusal({ params: descriptions }, params) {
  if (params === undefined || params === null) params = []
  if (!Array.isArray(params)) return 'not an array'
  if (params.length > descriptions.length) return 'too many'
  for (const [index, { name, required, schema }] of descriptions.entries()) {
    if (index >= params.length) {
      if (required) return `${name} is missing`
    } else if (!check(schema)(params[index])) {
      return `${name}: ${ajv.errorsText(check(schema).errors)}`
    }
  }
}

/** The codes of the method's errors, each of which is a reference into the document. */
function errorCodes({ errors }) {
  return errors.map(({ $ref }) => document.components.errors[$ref.split('/').at(-1)].code)
}

for (const { method: name, params, accepted, result, code } of calls) {
  const method = methods.get(name)
  const call = `${name} ${JSON.stringify(params)}`.slice(0, 300)
  const refused = refusal(method, params)
  if (accepted && refused) mistake(`${call} is answered, but ${refused}`)
  if (!accepted && !refused) mistake(`${call} is refused, but matches`)
  if (code !== undefined && !errorCodes(method).includes(code)) {
    mistake(`${call} is answered with the error ${code}, which is not among the method's errors`)
  }
  if (result !== undefined && !check(method.result.schema)(result)) {
    mistake(`the result of ${call}`, check(method.result.schema).errors)
  }
}

// Examples are calls too.
for (const method of methods.values()) {
  for (const { name, params, result } of method.examples) {
    const refused = refusal(method, params.map((param) => param.value))
    if (refused) mistake(`${method.name}, example ${name}: ${refused}`)
    if (!check(method.result.schema)(result.value)) {
      mistake(`${method.name}, example ${name}`, check(method.result.schema).errors)
    }
  }
}
console.log(`calls: ${calls.length}`)
