// A peer of A2A 0.3 on the official @a2a-js/sdk 0.3.14. It listens on loopback,
// prints one line of JSON when it is ready, and tells at /submissions how many
// tasks and direct messages it was asked for.
//
// What it does is in the first word of the message: "slow N" gives N pieces of
// one artifact, 200 ms apart, and can be cancelled; "ask" waits for input and
// then goes on; "msg" answers without a task; "fail" and "reject" do so; anything
// else gives one artifact.
import express from 'express';
import { randomUUID } from 'node:crypto';
import { DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, UserBuilder } from '@a2a-js/sdk/server/express';

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const cancelled = new Set();
let submissions = 0;

class Agent {
  async execute({ taskId, contextId, userMessage, task }, bus) {
    const said = userMessage.parts.filter((p) => p.kind === 'text').map((p) => p.text).join(' ');
    const message = (text) => ({ kind: 'message', role: 'agent', messageId: randomUUID(), taskId, contextId, parts: [{ kind: 'text', text }] });
    const status = (state, final, text) =>
      bus.publish({ kind: 'status-update', taskId, contextId, final, status: { state, timestamp: new Date().toISOString(), ...(text ? { message: message(text) } : {}) } });
    const end = (state, text) => {
      status(state, true, text);
      bus.finished();
    };
    if (!task) submissions++;
    if (said.startsWith('msg')) {
      bus.publish({ kind: 'message', role: 'agent', messageId: randomUUID(), contextId, parts: [{ kind: 'text', text: `direct: ${said}` }] });
      return bus.finished();
    }
    if (!task) bus.publish({ kind: 'task', id: taskId, contextId, status: { state: 'submitted', timestamp: new Date().toISOString() }, history: [userMessage], artifacts: [] });
    if (said.startsWith('ask') && !task) {
      status('working', false);
      return end('input-required', 'which colour?');
    }
    if (said.startsWith('fail')) return end('failed', 'boom');
    if (said.startsWith('reject')) return end('rejected', 'no');
    status('working', false, 'started');
    const slow = /^slow (\d+)/.exec(said);
    const pieces = slow ? Number(slow[1]) : 1;
    for (let i = 0; i < pieces; i++) {
      if (slow) await pause(200);
      if (cancelled.has(taskId)) return end('canceled', 'canceled by client');
      const parts = [{ kind: 'text', text: slow ? `chunk${i} ` : `answer: ${said}` }];
      bus.publish({ kind: 'artifact-update', taskId, contextId, append: i > 0, lastChunk: i === pieces - 1, artifact: { artifactId: 'out', name: 'out.txt', parts } });
    }
    end('completed');
  }

  cancelTask = async (taskId) => {
    cancelled.add(taskId);
  };
}

const app = express();
const server = app.listen(Number(process.env.PORT || 0), '127.0.0.1', () => {
  const base = `http://127.0.0.1:${server.address().port}`;
  const card = {
    name: 'peer-js03', description: 'a peer for tests', protocolVersion: '0.3.0', version: '0.0.1', url: `${base}/rpc`, preferredTransport: 'JSONRPC',
    skills: [{ id: 's', name: 's', description: 's', tags: ['t'] }], capabilities: { streaming: true, pushNotifications: false },
    defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'],
  };
  const handler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Agent());
  app.get('/submissions', (_, res) => res.json(submissions));
  app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: handler }));
  app.use('/rpc', jsonRpcHandler({ requestHandler: handler, userBuilder: UserBuilder.noAuthentication }));
  console.log(JSON.stringify({ origin: base }));
});
process.on('SIGTERM', () => process.exit(0));
