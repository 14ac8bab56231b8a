// Prints a card that the official SDK signed, and the set of keys to verify it
// with: one pair each of ES256, RS256 and EdDSA. ORIGIN is where work goes.
import { AgentCard, generateAgentCardSignature } from '@a2a-js/sdk';
import * as jose from 'jose';

const origin = process.env.ORIGIN;
const out = [];
for (const alg of ['ES256', 'RS256', 'EdDSA']) {
  const { publicKey, privateKey } = await jose.generateKeyPair(alg);
  const card = AgentCard.fromJSON({
    name: 'signed – “by the SDK”', description: '', version: '1.0', supportedInterfaces: [{ url: `${origin}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
    capabilities: { streaming: false, extensions: [{ uri: 'https://x.example/e', required: false, params: { b: 1.5, a: [1e30, 0.000001, '\u000f€"\\/'] } }] },
    defaultInputModes: ['text/plain'], defaultOutputModes: [], skills: [{ id: 's', name: 's', description: 'd', tags: [] }],
  });
  const signed = await generateAgentCardSignature(privateKey, { alg, kid: alg, typ: 'JOSE', jku: `${origin}/keys` })(card);
  out.push({ card: JSON.stringify(AgentCard.toJSON(signed)), key: { ...(await jose.exportJWK(publicKey)), kid: alg, alg } });
}
console.log(JSON.stringify(out));
