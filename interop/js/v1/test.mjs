// @a2a-js/sdk 1.3.0 against a running server: node test.mjs URL WORKSPACE BINDING
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';

import { ListTasksRequest, Role, SendMessageRequest, StreamResponse, TaskState } from '@a2a-js/sdk';
import * as grpc from '@grpc/grpc-js';

import {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
  ServiceParameters,
  withA2AExtensions,
} from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import {
  A2A_ERROR_CODE,
  TaskNotCancelableError,
  TaskNotFoundError,
  UnsupportedOperationError,
} from '@a2a-js/sdk/errors';

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
const { TASK_STATE_CANCELED, TASK_STATE_COMPLETED, TASK_STATE_INPUT_REQUIRED } = TaskState;

async function connect(path = '', legacyCompat = undefined) {
  const calls = [];
  const fetchImpl = noting(calls);
  const grpcCallOptions = notingCalls(calls, grpc);
  const transport = {
    JSONRPC: () => new JsonRpcTransportFactory({ fetchImpl, legacyCompat }),
    'HTTP+JSON': () => new RestTransportFactory({ fetchImpl, legacyCompat }),
    GRPC: () => new GrpcTransportFactory({ legacyCompat, grpcCallOptions }),
  }[BINDING]();
  const factory = new ClientFactory({
    transports: [transport],
    cardResolver: new DefaultAgentCardResolver({ fetchImpl, legacyCompat }),
  });
  // The last part of a base address is replaced unless it ends in a slash.
  const client = await factory.createFromUrl(`${URL_}${path}/`, '.well-known/agent-card.json');
  return { client, calls };
}

const message = (text, taskId = '', configuration = undefined) =>
  SendMessageRequest.fromJSON({
    message: { messageId: randomUUID(), role: 'ROLE_USER', parts: [{ text }], taskId },
    configuration,
  });
const plain = (id) => ({ id, tenant: '' });
const words = ({ content }) => (content.$case === 'text' ? content.value : '');
const text = (parts) => parts.map(words).join('');
const said = (task) => task.artifacts.map((artifact) => text(artifact.parts)).join('');
const kinds = (events) => events.map((event) => event.payload.$case);
const values = (events, kind) =>
  events.filter((event) => event.payload.$case === kind).map((event) => event.payload.value);
const streamed = (events) =>
  values(events, 'artifactUpdate').map((update) => text(update.artifact.parts)).join('');
const last = (events) => {
  assert.equal(kinds(events).at(-1), 'statusUpdate');
  return events.at(-1).payload.value.status.state;
};
const file = (name) => join(WORKSPACE, name);
const over = (body) =>
  (body.statusUpdate ?? body.task)?.status.state === 'TASK_STATE_COMPLETED';

await run(`js 1.3.0 ${BINDING}`, {
  async card() {
    const { client } = await connect();
    const card = await client.getAgentCard();
    assert.equal(card.name, 'Loggia');
    assert.equal(card.capabilities.streaming, true);
    assert.equal(client.protocolVersion, '1.0');
    assert.ok(card.capabilities.extensions.every((extension) => !extension.required));
  },

  // The public card names an extended card, and the client requests it.
  async 'extended card'() {
    const { client, calls } = await connect();
    const card = await client.getAgentCard();
    assert.equal(calls.at(-1)[0], 'GetExtendedAgentCard');
    const setup = card.capabilities.extensions.find(({ uri }) => uri === SETUP).params;
    assert.deepEqual([setup.mode, setup.workspace], ['ask', realpathSync(WORKSPACE)]);
    assert.ok(card.skills.some((skill) => skill.id === 'run_shell_command'));
  },

  async 'card of 1.0'() {
    const { client, calls } = await connect('/a2a/1.0');
    assert.equal(said(await client.sendMessage(message('say pure'))), 'pure');
    assert.deepEqual(calls, [['SendMessage', '1.0']]);
  },

  async 'card of 0.3 through the compatibility layer'() {
    const { client, calls } = await connect('/a2a/0.3', { enabled: true });
    assert.equal(said(await client.sendMessage(message('say old'))), 'old');
    const events = await all(client.sendMessageStream(message('say older')));
    assert.equal(streamed(events), 'older');
    assert.equal(last(events), TASK_STATE_COMPLETED);
    assert.deepEqual(calls.map(([method]) => method), ['message/send', 'message/stream']);
  },

  async send() {
    const { client, calls } = await connect();
    const task = await client.sendMessage(message('say hello'));
    assert.equal(task.status.state, TASK_STATE_COMPLETED);
    assert.equal(said(task), 'hello');
    assert.deepEqual(task.history.map((one) => one.role), [Role.ROLE_USER, Role.ROLE_AGENT]);
    assert.deepEqual(calls, [['SendMessage', '1.0']]);
  },

  async 'send and return at once'() {
    const { client } = await connect();
    let task = await client.sendMessage(
      message('wait 2s\nsay later', '', { returnImmediately: true }),
    );
    assert.notEqual(task.status.state, TASK_STATE_COMPLETED);
    while (task.status.state !== TASK_STATE_COMPLETED) {
      await sleep(100);
      task = await client.getTask(plain(task.id));
    }
    assert.equal(said(task), 'later');
  },

  async stream() {
    const { client, calls } = await connect();
    const events = await all(client.sendMessageStream(message('say hello')));
    assert.equal(kinds(events)[0], 'task');
    assert.equal(last(events), TASK_STATE_COMPLETED);
    assert.equal(streamed(events), 'hello');
    assert.deepEqual(calls, [['SendStreamingMessage', '1.0']]);
  },

  async get() {
    const { client } = await connect();
    const sent = await client.sendMessage(message('say again'));
    assert.deepEqual(await client.getTask(plain(sent.id)), sent);
    const short = await client.getTask({ ...plain(sent.id), historyLength: 1 });
    assert.equal(short.history.length, 1);
    const none = await client.getTask({ ...plain(sent.id), historyLength: 0 });
    assert.equal(none.history.length, 0);
  },

  async 'list of tasks'() {
    const { client } = await connect();
    const one = await client.sendMessage(message('say one'));
    const two = await client.sendMessage(message('say two'));
    const list = (json) => client.listTasks(ListTasksRequest.fromJSON(json));
    const first = await list({ pageSize: 1 });
    assert.deepEqual(first.tasks.map((task) => task.id), [two.id]);
    assert.equal(first.tasks[0].artifacts.length, 0);
    const second = await list({
      pageSize: 1,
      pageToken: first.nextPageToken,
      includeArtifacts: true,
    });
    assert.deepEqual(second.tasks.map((task) => [task.id, said(task)]), [[one.id, 'one']]);
    const done = await list({
      contextId: one.contextId,
      status: 'TASK_STATE_COMPLETED',
      pageSize: 100,
    });
    assert.equal(done.totalSize, done.tasks.length);
    const ids = done.tasks.map((task) => task.id);
    assert.ok(ids.includes(one.id) && ids.includes(two.id));
    assert.equal((await list({ contextId: NOWHERE })).tasks.length, 0);
  },

  async 'subscribe to a running task'() {
    const { client, calls } = await connect();
    const stream = client.sendMessageStream(message('wait 2s\nsay done'));
    const { id } = (await stream.next()).value.payload.value;
    // Two clients join, and the first one leaves.
    const both = Promise.all([1, 2].map(() => all(client.resubscribeTask(plain(id)))));
    await sleep(300);
    await stream.return();
    for (const events of await both) {
      assert.equal(values(events, 'task')[0].id, id);
      assert.equal(last(events), TASK_STATE_COMPLETED);
      assert.equal(streamed(events), 'done');
    }
    assert.deepEqual(calls.slice(1), [['SubscribeToTask', '1.0'], ['SubscribeToTask', '1.0']]);
  },

  async 'subscribe to a finished task is refused'() {
    const { client } = await connect();
    const { id } = await client.sendMessage(message('say over'));
    await refused(all(client.resubscribeTask(plain(id))), UnsupportedOperationError);
  },

  async cancel() {
    const { client } = await connect();
    const stream = client.sendMessageStream(message('wait 60s'));
    const { id } = (await stream.next()).value.payload.value;
    const task = await client.cancelTask(plain(id));
    assert.equal(task.status.state, TASK_STATE_CANCELED);
    assert.equal(last(await all(stream)), TASK_STATE_CANCELED);
    assert.equal((await client.getTask(plain(id))).status.state, TASK_STATE_CANCELED);
    await refused(client.cancelTask(plain(id)), TaskNotCancelableError);
  },

  async 'follow-up: yes'() {
    const { client } = await connect();
    const task = await client.sendMessage(message('write yes.txt: hi'));
    assert.equal(task.status.state, TASK_STATE_INPUT_REQUIRED);
    assert.match(text(task.status.message.parts), /yes\.txt/);
    assert.ok(!existsSync(file('yes.txt')));
    await assert.rejects(client.sendMessage(message('perhaps', task.id)), (error) => {
      // Only JSON-RPC has a code for this error.
      const said = { JSONRPC: error.envelopeCode, 'HTTP+JSON': error.statusCode, GRPC: error.code };
      const wanted = { JSONRPC: A2A_ERROR_CODE.INVALID_PARAMS, 'HTTP+JSON': 400, GRPC: 3 };
      assert.equal(said[BINDING] ?? error.grpcCode ?? error.cause?.code, wanted[BINDING], error);
      return true;
    });
    const done = await client.sendMessage(message('yes', task.id));
    assert.deepEqual([done.id, done.contextId], [task.id, task.contextId]);
    assert.equal(done.status.state, TASK_STATE_COMPLETED);
    assert.equal(readFileSync(file('yes.txt'), 'utf8'), 'hi\n');
  },

  async 'follow-up: no, as a stream'() {
    const { client } = await connect();
    const asked = await all(client.sendMessageStream(message('write no.txt: hi')));
    assert.equal(last(asked), TASK_STATE_INPUT_REQUIRED);
    const { id } = asked[0].payload.value;
    const events = await all(client.sendMessageStream(message('no', id)));
    assert.equal(values(events, 'task')[0].id, id);
    assert.equal(last(events), TASK_STATE_COMPLETED);
    assert.ok(!existsSync(file('no.txt')));
  },

  async 'cancel while it asks'() {
    const { client } = await connect();
    const { id, status } = await client.sendMessage(message('write never.txt: hi'));
    assert.equal(status.state, TASK_STATE_INPUT_REQUIRED);
    assert.equal((await client.cancelTask(plain(id))).status.state, TASK_STATE_CANCELED);
    assert.ok(!existsSync(file('never.txt')));
  },

  async 'a finished task takes no more messages'() {
    const { client } = await connect();
    const { id } = await client.sendMessage(message('say over'));
    await refused(client.sendMessage(message('say more', id)), UnsupportedOperationError);
  },

  async 'unknown task'() {
    const { client } = await connect();
    await refused(client.getTask(plain(NOWHERE)), TaskNotFoundError);
    await refused(client.cancelTask(plain(NOWHERE)), TaskNotFoundError);
    await refused(all(client.resubscribeTask(plain(NOWHERE))), TaskNotFoundError);
    await refused(client.sendMessage(message('say x', NOWHERE)), TaskNotFoundError);
    await refused(all(client.sendMessageStream(message('say x', NOWHERE))), TaskNotFoundError);
  },

  async 'push with the message'() {
    const { client } = await connect();
    assert.equal((await client.getAgentCard()).capabilities.pushNotifications, true);
    const hook = await webhook();
    const authentication = { scheme: 'Bearer', credentials: 'a-secret' };
    const config = { url: hook.url, token: 'a-token', authentication };
    const asked = message('say pushed', '', { taskPushNotificationConfig: config });
    const events = await all(client.sendMessageStream(asked));
    const calls = await hook.until(over);
    assert.deepEqual(calls.map(({ body }) => StreamResponse.fromJSON(body)), events);
    for (const { headers } of calls) {
      assert.equal(headers.authorization, 'Bearer a-secret');
      assert.equal(headers['x-a2a-notification-token'], 'a-token');
    }
  },

  async 'push by method'() {
    const { client, calls } = await connect();
    const hook = await webhook();
    const { id: taskId } = await client.sendMessage(message('write pushed.txt: hi'));
    const authentication = { scheme: 'Bearer', credentials: 'a-secret' };
    const which = { tenant: '', id: 'mine', taskId };
    const config = { ...which, url: hook.url, token: 'a-token', authentication };
    const made = await client.createTaskPushNotificationConfig(config);
    assert.equal(calls.at(-1)[0], 'CreateTaskPushNotificationConfig');
    assert.deepEqual([made.taskId, made.id, made.url], [taskId, 'mine', hook.url]);
    // Secrets are sent to the webhook only.
    assert.deepEqual([made.token, made.authentication.credentials], ['', '']);
    assert.deepEqual(await client.getTaskPushNotificationConfig(which), made);
    const listed = { tenant: '', taskId, pageSize: 0, pageToken: '' };
    assert.deepEqual((await client.listTaskPushNotificationConfig(listed)).configs, [made]);
    await client.sendMessage(message('yes', taskId));
    const told = (await hook.until(over)).map(({ body }) => StreamResponse.fromJSON(body));
    assert.equal(told[0].payload.$case, 'task');
    assert.equal(told[0].payload.value.status.state, TASK_STATE_INPUT_REQUIRED);
    await client.deleteTaskPushNotificationConfig(which);
    await client.deleteTaskPushNotificationConfig(which);
    assert.deepEqual((await client.listTaskPushNotificationConfig(listed)).configs, []);
  },

  async 'approval through the extension'() {
    const { client } = await connect();
    const serviceParameters = ServiceParameters.create(withA2AExtensions(EXTENSION));
    const stream = (part, taskId) => {
      const said = { messageId: randomUUID(), role: 'ROLE_USER', parts: [part], taskId };
      const request = SendMessageRequest.fromJSON({ message: said });
      return all(client.sendMessageStream(request, { serviceParameters }));
    };
    const kind = (update) => update.metadata?.[EXTENSION]?.kind;
    const asked = await stream({ text: 'write told.txt: hi' });
    assert.equal(last(asked), TASK_STATE_INPUT_REQUIRED);
    assert.equal(kind(asked.at(-1).payload.value), 'STATE_CHANGE');
    const tools = values(asked, 'statusUpdate')
      .filter((update) => kind(update) === 'TOOL_CALL_UPDATE')
      .map((update) => update.status.message.parts[0].content.value);
    assert.deepEqual(tools.map((tool) => tool.status), ['PENDING']);
    const data = { tool_call_id: tools[0].tool_call_id, selected_option_id: 'proceed_once' };
    const events = await stream({ data }, asked[0].payload.value.id);
    assert.equal(last(events), TASK_STATE_COMPLETED);
    assert.equal(readFileSync(file('told.txt'), 'utf8'), 'hi\n');
  },
});
