// The trivial agent on @a2a-js/sdk with express, as its sample has it: node server.mjs PORT
import { randomUUID } from 'node:crypto';

import { AGENT_CARD_PATH, A2A_PROTOCOL_VERSION, TaskState } from '@a2a-js/sdk';
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server';
import { UserBuilder, agentCardHandler, jsonRpcHandler } from '@a2a-js/sdk/server/express';
import express from 'express';

const port = Number(process.argv[2]);

let release;
const released = new Promise((resolve) => {
  release = resolve;
});

class Agent {
  async execute({ taskId, contextId, userMessage }, bus) {
    const status = (state) => ({
      state,
      timestamp: new Date().toISOString(),
      message: undefined,
    });
    const update = (state) =>
      bus.publish(
        AgentEvent.statusUpdate({ taskId, contextId, status: status(state), metadata: {} }),
      );
    const artifact = (name, text) =>
      bus.publish(
        AgentEvent.artifactUpdate({
          taskId,
          contextId,
          artifact: {
            artifactId: randomUUID(),
            name,
            description: '',
            parts: [
              {
                content: { $case: 'text', value: text },
                metadata: undefined,
                filename: '',
                mediaType: 'text/plain',
              },
            ],
            metadata: {},
            extensions: [],
          },
          append: false,
          lastChunk: true,
          metadata: {},
        }),
      );
    bus.publish(
      AgentEvent.task({
        id: taskId,
        contextId,
        status: status(TaskState.TASK_STATE_SUBMITTED),
        artifacts: [],
        history: [userMessage],
        metadata: {},
      }),
    );
    update(TaskState.TASK_STATE_WORKING);
    const [word, count] = userMessage.parts[0].content.value.split(' ');
    if (word === 'burst') {
      await released;
      for (let number = 0; number < Number(count); number += 1) artifact('line', `line ${number}`);
    } else if (word === 'release') {
      release();
    } else {
      artifact('answer', 'hi');
    }
    update(TaskState.TASK_STATE_COMPLETED);
    bus.finished();
  }

  async cancelTask() {}
}

const card = {
  name: 'peer',
  description: 'The trivial agent.',
  supportedInterfaces: [
    {
      url: `http://127.0.0.1:${port}/`,
      protocolBinding: 'JSONRPC',
      tenant: '',
      protocolVersion: A2A_PROTOCOL_VERSION,
    },
  ],
  version: '1.0.0',
  capabilities: {
    streaming: true,
    pushNotifications: false,
    extensions: [],
    extendedAgentCard: false,
  },
  securitySchemes: {},
  securityRequirements: [],
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  skills: [],
  documentationUrl: '',
  signatures: [],
};
const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Agent());
const app = express();
app.use(`/${AGENT_CARD_PATH}`, agentCardHandler({ agentCardProvider: requestHandler }));
app.use(jsonRpcHandler({ requestHandler, userBuilder: UserBuilder.noAuthentication }));
app.listen(port, '127.0.0.1');
