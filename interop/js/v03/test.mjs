// @a2a-js/sdk 0.3.14 against a running server: node test.mjs URL WORKSPACE BINDING
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';

import * as grpc from '@grpc/grpc-js';

import {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
  ServiceParameters,
  TaskNotCancelableError,
  TaskNotFoundError,
  UnsupportedOperationError,
  withA2AExtensions,
} from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';

import {
  EXTENSION,
  SETUP,
  all,
  noting,
  notingCalls,
  refused,
  run,
  sleep,
  webhook,
} from './checks.mjs';

const [URL_, WORKSPACE, BINDING] = process.argv.slice(2);
const NOWHERE = randomUUID();

async function connect(path = '') {
  const calls = [];
  const fetchImpl = noting(calls);
  const grpcCallOptions = notingCalls(calls, grpc);
  const transport = {
    JSONRPC: () => new JsonRpcTransportFactory({ fetchImpl }),
    'HTTP+JSON': () => new RestTransportFactory({ fetchImpl }),
    GRPC: () => new GrpcTransportFactory({ grpcCallOptions }),
  }[BINDING]();
  const factory = new ClientFactory({
    transports: [transport],
    cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
  });
  // The last part of a base address is replaced unless it ends in a slash.
  const client = await factory.createFromUrl(`${URL_}${path}/`, '.well-known/agent-card.json');
  return { client, calls };
}

const message = (text, taskId = undefined, configuration = undefined) => ({
  message: {
    kind: 'message',
    messageId: randomUUID(),
    role: 'user',
    parts: [{ kind: 'text', text }],
    taskId,
  },
  configuration,
});
const BLOCKING = { blocking: true };
const callback = ({ url }) => ({
  url,
  token: 'a-token',
  authentication: { schemes: ['Bearer'], credentials: 'a-secret' },
});
const over = (body) => body.status.state === 'completed';
const told = (calls) =>
  calls.map(({ headers, body }) => {
    assert.equal(headers.authorization, 'Bearer a-secret');
    assert.equal(headers['x-a2a-notification-token'], 'a-token');
    return body;
  });
const text = (parts) => parts.map((part) => part.text ?? '').join('');
const said = (task) => (task.artifacts ?? []).map((artifact) => text(artifact.parts)).join('');
const streamed = (events) =>
  events
    .filter((event) => event.kind === 'artifact-update')
    .map((event) => text(event.artifact.parts))
    .join('');
const last = (events) => {
  assert.equal(events.at(-1).kind, 'status-update');
  assert.equal(events.at(-1).final, true);
  return events.at(-1).status.state;
};
const file = (name) => join(WORKSPACE, name);

await run(`js 0.3.14 ${BINDING}`, {
  async card() {
    const { client } = await connect();
    const card = await client.getAgentCard();
    assert.equal(card.name, 'Loggia');
    assert.equal(card.capabilities.streaming, true);
    assert.equal(card.preferredTransport, 'JSONRPC');
    assert.match(card.protocolVersion, /^0\.3/);
    assert.ok(card.capabilities.extensions.every((extension) => !extension.required));
  },

  // The public card names an extended card, and the client requests it.
  async 'extended card'() {
    const { client, calls } = await connect();
    const card = await client.getAgentCard();
    assert.equal(calls.at(-1)[0], 'agent/getAuthenticatedExtendedCard');
    const setup = card.capabilities.extensions.find(({ uri }) => uri === SETUP).params;
    assert.deepEqual([setup.mode, setup.workspace], ['ask', realpathSync(WORKSPACE)]);
    assert.ok(card.skills.some((skill) => skill.id === 'run_shell_command'));
  },

  async 'card of 0.3'() {
    const { client } = await connect('/a2a/0.3');
    assert.equal(said(await client.sendMessage(message('say pure'))), 'pure');
  },

  async send() {
    const { client, calls } = await connect();
    const task = await client.sendMessage(message('say hello'));
    assert.equal(task.kind, 'task');
    assert.equal(task.status.state, 'completed');
    assert.equal(said(task), 'hello');
    assert.deepEqual(task.history.map((one) => one.role), ['user', 'agent']);
    assert.deepEqual(calls.map(([method]) => method), ['message/send']);
  },

  async 'send and return at once'() {
    const { client } = await connect();
    let task = await client.sendMessage(
      message('wait 2s\nsay later', undefined, { blocking: false }),
    );
    assert.notEqual(task.status.state, 'completed');
    while (task.status.state !== 'completed') {
      await sleep(100);
      task = await client.getTask({ id: task.id });
    }
    assert.equal(said(task), 'later');
  },

  async stream() {
    const { client, calls } = await connect();
    const events = await all(client.sendMessageStream(message('say hello')));
    assert.equal(events[0].kind, 'task');
    assert.equal(last(events), 'completed');
    assert.equal(streamed(events), 'hello');
    assert.deepEqual(calls.map(([method]) => method), ['message/stream']);
  },

  async get() {
    const { client } = await connect();
    const sent = await client.sendMessage(message('say again'));
    assert.deepEqual(await client.getTask({ id: sent.id }), sent);
    const short = await client.getTask({ id: sent.id, historyLength: 1 });
    assert.equal(short.history.length, 1);
  },

  async 'resubscribe to a running task'() {
    const { client, calls } = await connect();
    const stream = client.sendMessageStream(message('wait 2s\nsay done'));
    const { id } = (await stream.next()).value;
    // Two clients join, and the first one leaves.
    const both = Promise.all([1, 2].map(() => all(client.resubscribeTask({ id }))));
    await sleep(300);
    await stream.return();
    for (const events of await both) {
      assert.deepEqual([events[0].kind, events[0].id], ['task', id]);
      assert.equal(last(events), 'completed');
      assert.equal(streamed(events), 'done');
    }
    const methods = calls.map(([method]) => method);
    assert.deepEqual(methods.slice(1), ['tasks/resubscribe', 'tasks/resubscribe']);
  },

  async cancel() {
    const { client } = await connect();
    const stream = client.sendMessageStream(message('wait 60s'));
    const { id } = (await stream.next()).value;
    assert.equal((await client.cancelTask({ id })).status.state, 'canceled');
    assert.equal(last(await all(stream)), 'canceled');
    assert.equal((await client.getTask({ id })).status.state, 'canceled');
    await refused(client.cancelTask({ id }), TaskNotCancelableError);
  },

  async 'follow-up: yes'() {
    const { client } = await connect();
    const task = await client.sendMessage(message('write yes.txt: hi'));
    assert.equal(task.status.state, 'input-required');
    assert.match(text(task.status.message.parts), /yes\.txt/);
    assert.ok(!existsSync(file('yes.txt')));
    await assert.rejects(client.sendMessage(message('perhaps', task.id)), (error) => {
      // This SDK passes on an unknown error code over JSON-RPC only.
      if (BINDING === 'JSONRPC') assert.equal(error.errorResponse.error.code, -32602);
      else assert.match(error.message, /`perhaps` is not one of the offered choices/);
      return true;
    });
    const done = await client.sendMessage(message('yes', task.id));
    assert.deepEqual([done.id, done.contextId], [task.id, task.contextId]);
    assert.equal(done.status.state, 'completed');
    assert.equal(readFileSync(file('yes.txt'), 'utf8'), 'hi\n');
  },

  async 'follow-up: no, as a stream'() {
    const { client } = await connect();
    const asked = await all(client.sendMessageStream(message('write no.txt: hi')));
    assert.equal(last(asked), 'input-required');
    const events = await all(client.sendMessageStream(message('no', asked[0].id)));
    assert.deepEqual([events[0].kind, events[0].id], ['task', asked[0].id]);
    assert.equal(last(events), 'completed');
    assert.ok(!existsSync(file('no.txt')));
  },

  async 'cancel while it asks'() {
    const { client } = await connect();
    const { id, status } = await client.sendMessage(message('write never.txt: hi'));
    assert.equal(status.state, 'input-required');
    assert.equal((await client.cancelTask({ id })).status.state, 'canceled');
    assert.ok(!existsSync(file('never.txt')));
  },

  async 'a finished task takes no more messages'() {
    const { client } = await connect();
    const { id } = await client.sendMessage(message('say over'));
    // Over gRPC this SDK has a class for it only if a stream is refused.
    const kind = BINDING === 'GRPC' ? Error : UnsupportedOperationError;
    await refused(client.sendMessage(message('say more', id)), kind);
  },

  async 'unknown task'() {
    const { client } = await connect();
    await refused(client.getTask({ id: NOWHERE }), TaskNotFoundError);
    await refused(client.cancelTask({ id: NOWHERE }), TaskNotFoundError);
    await refused(all(client.resubscribeTask({ id: NOWHERE })), TaskNotFoundError);
    await refused(client.sendMessage(message('say x', NOWHERE)), TaskNotFoundError);
    await refused(all(client.sendMessageStream(message('say x', NOWHERE))), TaskNotFoundError);
  },

  async 'push with the message'() {
    const { client } = await connect();
    assert.equal((await client.getAgentCard()).capabilities.pushNotifications, true);
    const hook = await webhook();
    const asked = message('say pushed', undefined, { pushNotificationConfig: callback(hook) });
    const events = await all(client.sendMessageStream(asked));
    const tasks = told(await hook.until(over));
    assert.ok(tasks.every((task) => task.kind === 'task' && task.id === events[0].id));
    assert.equal(said(tasks.at(-1)), 'pushed');
  },

  async 'push by method'() {
    const { client, calls } = await connect();
    const hook = await webhook();
    const { id } = await client.sendMessage(message('write pushed.txt: hi', undefined, BLOCKING));
    const config = { taskId: id, pushNotificationConfig: { ...callback(hook), id: 'mine' } };
    const made = await client.setTaskPushNotificationConfig(config);
    assert.equal(calls.at(-1)[0], 'tasks/pushNotificationConfig/set');
    // Secrets are sent to the webhook only.
    const { authentication, token, ...shown } = made.pushNotificationConfig;
    assert.deepEqual([made.taskId, shown], [id, { id: 'mine', url: hook.url }]);
    assert.deepEqual(authentication.schemes, ['Bearer']);
    assert.deepEqual([token ?? '', authentication.credentials ?? ''], ['', '']);
    const which = { id, pushNotificationConfigId: 'mine' };
    assert.deepEqual(await client.getTaskPushNotificationConfig(which), made);
    assert.deepEqual(await client.listTaskPushNotificationConfig({ id }), [made]);
    await client.sendMessage(message('yes', id, BLOCKING));
    const tasks = told(await hook.until(over));
    assert.equal(tasks[0].status.state, 'input-required');
    await client.deleteTaskPushNotificationConfig(which);
    await client.deleteTaskPushNotificationConfig(which);
    assert.deepEqual(await client.listTaskPushNotificationConfig({ id }), []);
  },

  async 'approval through the extension'() {
    const { client } = await connect();
    const serviceParameters = ServiceParameters.create(withA2AExtensions(EXTENSION));
    const stream = (part, taskId) => {
      const { message: said } = message('', taskId);
      const request = { message: { ...said, parts: [part] } };
      return all(client.sendMessageStream(request, { serviceParameters }));
    };
    const kind = (event) => event.metadata?.[EXTENSION]?.kind;
    const asked = await stream({ kind: 'text', text: 'write told.txt: hi' });
    assert.equal(last(asked), 'input-required');
    assert.equal(kind(asked.at(-1)), 'STATE_CHANGE');
    const tools = asked
      .filter((event) => kind(event) === 'TOOL_CALL_UPDATE')
      .map((event) => event.status.message.parts[0].data);
    assert.deepEqual(tools.map((tool) => tool.status), ['PENDING']);
    const data = { tool_call_id: tools[0].tool_call_id, selected_option_id: 'proceed_once' };
    const events = await stream({ kind: 'data', data }, asked[0].id);
    assert.equal(last(events), 'completed');
    assert.equal(readFileSync(file('told.txt'), 'utf8'), 'hi\n');
  },
});
