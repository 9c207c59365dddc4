// Signs tokens as the owner of a key does, whose clients present them beside the key.

import { generateKeyPairSync, sign } from 'node:crypto'

const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** A new pair of keys: the public one in PEM, and what signs with the private one. */
export function newSigner(kid) {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return {
    publicKey: publicKey.export({ type: 'spki', format: 'pem' }),

    /** A token for the key with this public id, for a minute. */
    token(audience) {
      const header = encode({ alg: 'ES256', kid, typ: 'JWT' })
      const claims = encode({ aud: audience, exp: Math.floor(Date.now() / 1000) + 60 })
      const signed = `${header}.${claims}`
      const signature = sign('sha256', Buffer.from(signed), { key: privateKey, dsaEncoding: 'ieee-p1363' })
      return `${signed}.${signature.toString('base64url')}`
    },
  }
}
