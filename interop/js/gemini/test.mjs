// Gemini CLI's own client for remote agents against a running server: node test.mjs URL WORKSPACE
//
// Gemini CLI calls `A2AClientManager` when an agent definition names the URL of a card.
// `A2AResultReassembler` and `extractIdsFromResponse` turn the events into the text that
// its user sees and the ids of its next message.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { all, run, sleep } from './checks.mjs';

// The package exports only one entry point, which loads models and telemetry.
const agents = new URL('./node_modules/@google/gemini-cli-core/dist/src/agents/', import.meta.url);
const { A2AClientManager } = await import(new URL('a2a-client-manager.js', agents));
const { A2AResultReassembler, extractIdsFromResponse } = await import(
  new URL('a2aUtils.js', agents)
);

const [URL_, WORKSPACE] = process.argv.slice(2);
const NAME = 'loggia';

async function load(path = '') {
  const client = new A2AClientManager({ getProxy: () => undefined });
  const url = `${URL_}${path}/.well-known/agent-card.json`;
  const card = await client.loadAgent(NAME, { type: 'url', url });
  return { client, card };
}

/** What Gemini CLI's user sees, and what its next message carries. */
function shown(events) {
  const text = new A2AResultReassembler();
  let ids = {};
  for (const event of events) {
    text.update(event);
    const { contextId, taskId, clearTaskId } = extractIdsFromResponse(event);
    ids = {
      contextId: contextId ?? ids.contextId,
      taskId: clearTaskId ? undefined : (taskId ?? ids.taskId),
    };
  }
  return { text: text.toString(), ids };
}

const send = async ({ client }, text, options) =>
  all(client.sendMessageStream(NAME, text, options));
const states = (events) =>
  events.filter((event) => event.kind === 'status-update').map((event) => event.status.state);
const failed = (promise, words) =>
  assert.rejects(promise, (error) => {
    assert.match(String(error), words);
    return true;
  });

await run('gemini 0.61.0', {
  async 'load agent'() {
    const { client, card } = await load();
    assert.equal(card.name, 'Loggia');
    assert.deepEqual(client.getAgentCard(NAME), card);
  },

  async 'load agent from the card of 0.3'() {
    assert.match(shown(await send(await load('/a2a/0.3'), 'say pure')).text, /pure/);
  },

  async 'send message, as a stream'() {
    const events = await send(await load(), 'say hello');
    assert.equal(events[0].kind, 'task');
    assert.equal(states(events).at(-1), 'completed');
    const { text, ids } = shown(events);
    assert.match(text, /hello/);
    assert.equal(text.match(/hello/g).length, 1, 'said once');
    assert.equal(ids.contextId, events[0].contextId);
    assert.equal(ids.taskId, undefined, 'the next message opens a task of its own');
  },

  async 'a conversation: the next message in the same context'() {
    const agent = await load();
    const first = await send(agent, 'say one');
    const second = await send(agent, 'say two', shown(first).ids);
    assert.equal(second[0].contextId, first[0].contextId);
    assert.notEqual(second[0].id, first[0].id);
    assert.match(shown(second).text, /two/);
  },

  async 'get task'() {
    const agent = await load();
    const [{ id }] = await send(agent, 'say kept');
    const task = await agent.client.getTask(NAME, id);
    assert.deepEqual([task.id, task.status.state], [id, 'completed']);
    assert.match(shown([task]).text, /kept/);
  },

  async 'cancel task'() {
    const agent = await load();
    const stream = agent.client.sendMessageStream(NAME, 'wait 60s');
    const { id } = (await stream.next()).value;
    const canceled = await agent.client.cancelTask(NAME, id);
    assert.equal(canceled.status.state, 'canceled');
    assert.equal(states(await all(stream)).at(-1), 'canceled');
    await failed(agent.client.cancelTask(NAME, id), /cancelTask Error/);
  },

  async 'a question, answered in words'() {
    const agent = await load();
    const asked = await send(agent, 'write gemini.txt: hi');
    assert.equal(states(asked).at(-1), 'input-required');
    const { text, ids } = shown(asked);
    assert.match(text, /gemini\.txt/);
    assert.equal(ids.taskId, asked[0].id, 'the answer goes to the task that asks');
    assert.ok(!existsSync(join(WORKSPACE, 'gemini.txt')));
    const done = await send(agent, 'yes', ids);
    assert.equal(done[0].id, asked[0].id);
    assert.equal(states(done).at(-1), 'completed');
    assert.equal(readFileSync(join(WORKSPACE, 'gemini.txt'), 'utf8'), 'hi\n');
  },

  async 'its user leaves, the work goes on'() {
    const agent = await load();
    const leaving = new AbortController();
    const { signal } = leaving;
    const stream = agent.client.sendMessageStream(NAME, 'wait 1s\nsay done anyway', { signal });
    const { id } = (await stream.next()).value;
    leaving.abort();
    await assert.rejects(all(stream));
    let task = await agent.client.getTask(NAME, id);
    while (task.status.state !== 'completed') {
      await sleep(100);
      task = await agent.client.getTask(NAME, id);
    }
    assert.match(shown([task]).text, /done anyway/);
  },

  async 'a failure is told'() {
    const events = await send(await load(), 'fail on purpose');
    assert.equal(states(events).at(-1), 'failed');
    assert.match(shown(events).text, /on purpose/);
  },

  async 'an unknown task is told'() {
    const { client } = await load();
    await failed(client.getTask(NAME, 'nowhere'), /Task not found/);
    await failed(client.cancelTask(NAME, 'nowhere'), /Task not found/);
    await failed(all(client.sendMessageStream(NAME, 'say x', { taskId: 'nowhere' })), /not found/);
  },
});
