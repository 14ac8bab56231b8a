// A peer of A2A 1.0 on the official @a2a-js/sdk 1.3.0; with COMPAT=1 it speaks
// 0.3 at the same address too. It does what the peer on 0.3.14 does, see there.
import express from 'express';
import { randomUUID } from 'node:crypto';
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import { Role, TaskState } from '@a2a-js/sdk';

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const part = (text) => ({ content: { $case: 'text', value: text }, mediaType: 'text/plain', filename: '', metadata: undefined });
const cancelled = new Set();
let submissions = 0;

class Agent {
  async execute({ taskId, contextId, userMessage, task }, bus) {
    const said = userMessage.parts.filter((p) => p.content?.$case === 'text').map((p) => p.content.value).join(' ');
    const message = (text, task = taskId) => ({ role: Role.ROLE_AGENT, messageId: randomUUID(), taskId: task, contextId, parts: [part(text)], metadata: undefined, extensions: [], referenceTaskIds: [] });
    const at = (state, text) => ({ state, timestamp: new Date().toISOString(), message: text ? message(text) : undefined });
    const status = (state, text) => bus.publish(AgentEvent.statusUpdate({ taskId, contextId, metadata: undefined, status: at(state, text) }));
    const end = (state, text) => {
      status(state, text);
      bus.finished();
    };
    if (!task) submissions++;
    if (said.startsWith('msg')) {
      bus.publish(AgentEvent.message(message(`direct: ${said}`, '')));
      return bus.finished();
    }
    if (!task) bus.publish(AgentEvent.task({ id: taskId, contextId, status: at(TaskState.TASK_STATE_SUBMITTED), history: [userMessage], artifacts: [], metadata: undefined }));
    if (said.startsWith('ask') && !task) {
      status(TaskState.TASK_STATE_WORKING);
      return end(TaskState.TASK_STATE_INPUT_REQUIRED, 'which colour?');
    }
    if (said.startsWith('fail')) return end(TaskState.TASK_STATE_FAILED, 'boom');
    if (said.startsWith('reject')) return end(TaskState.TASK_STATE_REJECTED, 'no');
    status(TaskState.TASK_STATE_WORKING, 'started');
    const slow = /^slow (\d+)/.exec(said);
    const pieces = slow ? Number(slow[1]) : 1;
    for (let i = 0; i < pieces; i++) {
      if (slow) await pause(200);
      if (cancelled.has(taskId)) return end(TaskState.TASK_STATE_CANCELED, 'canceled by client');
      const artifact = { artifactId: 'out', name: 'out.txt', description: '', parts: [part(slow ? `chunk${i} ` : `answer: ${said}`)], metadata: undefined, extensions: [] };
      bus.publish(AgentEvent.artifactUpdate({ taskId, contextId, append: i > 0, lastChunk: i === pieces - 1, metadata: undefined, artifact }));
    }
    end(TaskState.TASK_STATE_COMPLETED);
  }

  cancelTask = async (taskId) => {
    cancelled.add(taskId);
  };
}

const compatible = process.env.COMPAT === '1';
const legacy = compatible ? { legacyCompat: { enabled: true } } : {};
const app = express();
const server = app.listen(Number(process.env.PORT || 0), '127.0.0.1', () => {
  const base = `http://127.0.0.1:${server.address().port}`;
  const versions = compatible ? ['1.0', '0.3'] : ['1.0'];
  const card = {
    name: 'peer-js1', description: 'a peer for tests', version: '0.0.1',
    supportedInterfaces: versions.map((protocolVersion) => ({ url: `${base}/rpc`, protocolBinding: 'JSONRPC', tenant: '', protocolVersion })),
    provider: { organization: 'o', url: 'https://peer.example' },
    skills: [{ id: 's', name: 's', description: 's', tags: ['t'], examples: [], inputModes: [], outputModes: [], securityRequirements: [] }],
    capabilities: { streaming: true, pushNotifications: false, extensions: [], extendedAgentCard: false },
    securitySchemes: {}, securityRequirements: [], defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'], documentationUrl: '', signatures: [],
  };
  const handler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Agent());
  app.get('/submissions', (_, res) => res.json(submissions));
  app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: handler, ...legacy }));
  app.use('/rpc', jsonRpcHandler({ requestHandler: handler, userBuilder: UserBuilder.noAuthentication, ...legacy }));
  console.log(JSON.stringify({ origin: base }));
});
process.on('SIGTERM', () => process.exit(0));
