// Compares the schemas of an OpenRPC document with those of execution-apis, for the methods that both have:
//
//   node execution_apis.mjs DOCUMENT THEIRS CALLS
//
// THEIRS has their methods and schemas, and CALLS is what openrpc.mjs takes. The values of calls are checked by both
// schemas, and so are results; and the schemas have to name the same members of the same types. Prints one line for each
// difference that no row below allows and for each row that allows none, then what was compared.

import { readFileSync } from 'node:fs'
import Ajv from 'ajv'

const [ours, theirs, calls] = process.argv.slice(2).map((file) => JSON.parse(readFileSync(file, 'utf8')))

// Differences that are meant, each with its reason.
const ALLOWED = [
  // What one of them accepts.
  [/(index|blockCount): theirs alone accepts "0x[1-9a-f][0-9a-f]{16,}"$/, 'an index or a count has at most 64 bits'],
  [/(Block|Filter): theirs alone accepts .*"0x([89a-f][0-9a-f]{15}|[1-9a-f][0-9a-f]{16,62})"/, 'a block number has at most 63 bits'],
  [/Filter: theirs alone accepts \{.*"blockHash":"0x[0-9a-f]{64}","(from|to)Block":"\w+"/, 'one block is no range; geth refuses both too'],
  [/Filter: theirs alone accepts \{"(from|to)Block":"0x[0-9a-f]{64}"\}$/, 'a block number has at most 63 bits'],
  [/Filter: theirs alone accepts \{"topics":\[(null,){4}/, 'a log has at most four topics'],
  [/Requests: theirs alone accepts \{"0x1":/, 'the name of a member is an address here; theirs does not say'],
  [/Requests: theirs alone accepts \{\}$/, 'no request has no answer'],
  [/StorageKeys: theirs alone accepts \["0x1",("0x1",?)+\]$/, 'the number of storage keys is bounded'],
  [/: ours alone accepts .*"(0X[0-9a-fA-F]*|0x[0-9a-fA-F]*[A-F][0-9a-fA-F]*)"/, 'geth takes upper case too'],
  [/: ours alone accepts "(?!0x)[0-9a-fA-F]*"$/, 'geth takes a storage key without the prefix'],
  [/Filter identifier: ours alone accepts "/, 'a text that is no id is that of no filter, as in geth'],
  [/Block: ours alone accepts null$/, 'geth takes null for latest'],
  [/(StorageKeys|Filter): ours alone accepts .*null/, 'geth takes null for a value that is not given'],
  [/Block: ours alone accepts \{/, 'a block may be an object (EIP-1898), as in geth'],
  [/Filter: ours alone accepts .*"pending"/, 'a filter may name pending, whose logs are none'],
  [/rewardPercentiles: theirs alone accepts \[(-0\.1|100\.1)\]$/, 'a percentile is from 0 to 100'],
  [/Transaction: theirs alone accepts \{"(gas|value|maxFeePerGas)":"0x10+"\}$/, 'gas, prices and values have bounds'],
  [/^the result of eth_getFilterChanges .* exactly one schema/, 'theirs has no array that is empty: it is of hashes and of logs'],
  // What one of them names.
  [/^ours alone names eth_(baseFee|blobBaseFee) result: null$/, 'there is none before London or Cancun, as in geth'],
  [/^ours alone names eth_config result\.current: null$/, 'no fork before Shanghai has a configuration, as in geth'],
  [/^ours alone names eth_config result\.\w+\.blobSchedule: null$/, 'there are no blobs before Cancun, as in geth'],
  [/^ours alone names .* Block(\.|: object|: null)/, 'a block may be an object (EIP-1898) or null, as in geth'],
  [/^ours alone names eth_(getLogs|newFilter) Filter\..*: null$/, 'geth takes null for a value that is not given'],
  [/^ours alone names .* Transaction\..*: null$/, 'geth takes null for a value that is not given'],
  [/^ours alone names .* Transaction\.data: string$/, 'the older name of input'],
  [/^ours alone names eth_getProof StorageKeys: null$/, 'geth takes null for no keys'],
  [/^ours alone names .*\.slotNumber: string$/, 'a header of Amsterdam has it (EIP-7843)'],
  [/^ours alone names .*\.totalDifficulty: (string|null)$/, 'nodes give it for blocks before the merge'],
  [/^theirs alone names .* Transaction\.type: string$/, 'the other members of a call say its type'],
  [/^theirs alone names .* Transaction\.(blobs|commitments|proofs)/, 'a call has the hashes of its blobs alone'],
  [/^eth_simulateV1 Payload: theirs alone accepts/, 'theirs has no schema of a block, and no type of the whole'],
  [/^ours alone names eth_simulateV1 Block tag(\.|: object|: null)/, 'a block may be an object (EIP-1898) or null, as in geth'],
  [/^eth_simulateV1 Block tag: theirs alone accepts "0x(8|d22637)/, 'a block number has at most 63 bits, a hash 64 digits'],
  [/^the result of eth_simulateV1 .* (must match pattern|must be equal to constant|exactly one schema)/, 'the EVM says why it ended a call; the vectors have that too'],
  [/^(ours|theirs) alone names eth_simulateV1 Payload/, 'theirs gives the members of a block to the array of blocks'],
  [/^(ours|theirs) alone names eth_simulateV1 result.*\.error\.code: /, 'a code is an integer'],
  [/^ours alone names eth_simulateV1 result.*\.error\.data: string$/, 'what a contract reverts with'],
  [/^theirs alone names eth_accounts result\[\]: string$/, 'nearhead has no accounts'],
  [/^theirs alone names eth_(getLogs|getFilterLogs) result\[\]: string$/, 'hashes are what other kinds of filters find'],
]
const used = new Set()
const reported = new Set()

function differ(text) {
  const row = ALLOWED.find(([pattern]) => pattern.test(text))
  if (row) return used.add(row)
  if (reported.size < 60 && !reported.has(text)) console.log(`differs: ${text}`.slice(0, 400))
  reported.add(text)
}

// strict: the schemas have titles beside references.
const ajv = new Ajv({ strict: false, validateFormats: false })
ajv.addSchema(ours, 'ours')
ajv.addSchema({ components: { schemas: theirs.schemas } }, 'theirs')
const compiled = new Map()
/** The check of a schema of one of the documents. */
function check(document, schema) {
  const text = JSON.stringify(schema).replaceAll('"#/', `"${document}#/`)
  if (!compiled.has(text)) compiled.set(text, ajv.compile(JSON.parse(text)))
  return compiled.get(text)
}

/** Types of a schema without its parts. */
function types({ type, pattern, enum: values, const: value }) {
  if (type) return [type].flat()
  const constants = values ?? (value === undefined ? [] : [value])
  if (constants.length > 0) return constants.map((one) => typeof one)
  return pattern ? ['string'] : []
}

/** Adds the members that a schema names, and their types: `.transactions[].hash: string`. */
function addMembers(found, schema, schemas, path) {
  const { $ref, properties = {}, items, additionalProperties } = schema
  if ($ref) addMembers(found, schemas[$ref.split('/').at(-1)], schemas, path)
  for (const part of ['anyOf', 'oneOf', 'allOf'].flatMap((kind) => schema[kind] ?? [])) {
    addMembers(found, part, schemas, path)
  }
  for (const type of types(schema)) found.add(`${path}: ${type}`)
  for (const [name, member] of Object.entries(properties)) addMembers(found, member, schemas, `${path}.${name}`)
  if (items) addMembers(found, items, schemas, `${path}[]`)
  if (typeof additionalProperties === 'object') addMembers(found, additionalProperties, schemas, `${path}.*`)
  return found
}

const methods = new Map()
for (const method of ours.methods) {
  const other = theirs.methods[method.name]
  if (!other) continue
  methods.set(method.name, [method, other])
  const pairs = [['result', method.result.schema, other.result.schema]]
  // Overrides are geth's: execution-apis has none.
  for (const [index, { name, schema }] of method.params.slice(0, other.params.length).entries()) {
    pairs.push([name, schema, other.params[index].schema])
  }
  for (const [what, one, another] of pairs) {
    const mine = addMembers(new Set(), one, ours.components.schemas, `${method.name} ${what}`)
    const their = addMembers(new Set(), another, theirs.schemas, `${method.name} ${what}`)
    for (const member of mine) if (!their.has(member)) differ(`ours alone names ${member}`)
    for (const member of their) if (!mine.has(member)) differ(`theirs alone names ${member}`)
  }
}

let [values, results] = [0, 0]
for (const { method: name, params, result } of calls) {
  if (!methods.has(name)) continue
  const [method, other] = methods.get(name)
  const given = Array.isArray(params) ? params.slice(0, other.params.length) : []
  for (const [index, value] of given.entries()) {
    const isOurs = check('ours', method.params[index].schema)(value)
    const isTheirs = check('theirs', other.params[index].schema)(value)
    values += 1
    if (isOurs === isTheirs) continue
    differ(`${name} ${method.params[index].name}: ${isOurs ? 'ours' : 'theirs'} alone accepts ${JSON.stringify(value)}`)
  }
  if (result === undefined) continue
  results += 1
  const isTheirs = check('theirs', other.result.schema)
  if (!isTheirs(result)) differ(`the result of ${name} ${JSON.stringify(params)}: ${ajv.errorsText(isTheirs.errors)}`)
}
for (const row of ALLOWED) if (!used.has(row)) console.log(`allows nothing: ${row[0]}`)
console.log(`methods: ${methods.size}, values: ${values > 1000 ? 'many' : values}, results: ${results > 200 ? 'many' : results}`)
