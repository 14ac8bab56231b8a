// Measures the client of @a2a-js/sdk 1.3.0, as Signalbox's own is measured by
// bench/a2aclient; see there for the arguments and what is printed.
import { randomUUID } from 'node:crypto';
import { ClientFactory } from '@a2a-js/sdk/client';
import { Role } from '@a2a-js/sdk';

const [what, card, times = '1'] = process.argv.slice(2);
const client = await new ClientFactory().createFromUrl(card, '');
const request = () => ({
  tenant: '', metadata: undefined,
  configuration: { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately: true },
  message: {
    role: Role.ROLE_USER, messageId: randomUUID(), taskId: '', contextId: '', metadata: undefined, extensions: [], referenceTaskIds: [],
    parts: [{ content: { $case: 'text', value: 'measure' }, mediaType: '', filename: '', metadata: undefined }],
  },
});
let bytes = 0;
const began = process.hrtime.bigint();
if (what === 'trips') {
  for (let i = 0; i < Number(times); i++) await client.sendMessage(request());
} else {
  for await (const event of client.sendMessageStream(request())) {
    if (event.payload?.$case !== 'artifactUpdate') continue;
    for (const part of event.payload.value.artifact.parts) bytes += part.content?.$case === 'text' ? Buffer.byteLength(part.content.value) : 0;
  }
}
console.log(JSON.stringify({ ns: Number(process.hrtime.bigint() - began), bytes }));
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
