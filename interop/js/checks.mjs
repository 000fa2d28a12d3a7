// Runs named checks one after the other and prints one line for each.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';

const PATIENCE = 30_000;

/** Runs the functions of `checks`; ends the process. */
export async function run(client, checks) {
  let failed = 0;
  for (const [name, check] of Object.entries(checks)) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error('it took too long')), PATIENCE);
    });
    try {
      await Promise.race([check(), late]);
      console.log(`ok   ${client}: ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAIL ${client}: ${name}: ${String(error).replaceAll('\n', ' ')}`);
      console.error(error);
    } finally {
      clearTimeout(timer);
    }
  }
  process.exit(failed ? 1 : 0);
}

export async function all(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

/** Waits for something that must fail with `kind`, itself or as the cause. */
export async function refused(promise, kind) {
  await assert.rejects(promise, (error) => {
    assert.ok(error instanceof kind || error.cause instanceof kind, `no ${kind.name}: ${error}`);
    return true;
  });
}

// The name of a request in 1.0 and in 0.3, and its HTTP+JSON path.
const OPERATIONS = [
  ['SendMessage', 'message/send', /^POST \/message:send$/],
  ['SendStreamingMessage', 'message/stream', /^POST \/message:stream$/],
  ['GetTask', 'tasks/get', /^GET \/tasks\/[^/:]+$/],
  ['ListTasks', 'tasks/list', /^GET \/tasks$/],
  ['CancelTask', 'tasks/cancel', /^POST \/tasks\/[^/:]+:cancel$/],
  ['SubscribeToTask', 'tasks/resubscribe', /^(GET|POST) \/tasks\/[^/:]+:subscribe$/],
  [
    'CreateTaskPushNotificationConfig',
    'tasks/pushNotificationConfig/set',
    /^POST \/tasks\/[^/]+\/pushNotificationConfigs$/,
  ],
  [
    'ListTaskPushNotificationConfigs',
    'tasks/pushNotificationConfig/list',
    /^GET \/tasks\/[^/]+\/pushNotificationConfigs$/,
  ],
  ['ListTaskPushNotificationConfig', 'tasks/pushNotificationConfig/list', /^never$/],
  [
    'GetTaskPushNotificationConfig',
    'tasks/pushNotificationConfig/get',
    /^GET \/tasks\/[^/]+\/pushNotificationConfigs\/[^/]+$/,
  ],
  [
    'DeleteTaskPushNotificationConfig',
    'tasks/pushNotificationConfig/delete',
    /^DELETE \/tasks\/[^/]+\/pushNotificationConfigs\/[^/]+$/,
  ],
  ['GetExtendedAgentCard', 'agent/getAuthenticatedExtendedCard', /^GET \/extendedAgentCard$/],
  ['GetAgentCard', 'agent/getAuthenticatedExtendedCard', /^GET \/card$/],
  ['TaskSubscription', 'tasks/resubscribe', /^never$/],
];

/** `fetch`, which notes the operation and A2A-Version of every call in `calls`. */
export function noting(calls) {
  return (url, init) => {
    const version = new Headers(init?.headers).get('A2A-Version');
    const path = decodeURIComponent(new URL(url).pathname);
    const rpc = init?.method === 'POST' && ['/', '/a2a/1.0', '/a2a/0.3'].includes(path);
    const old = path.startsWith('/v1/');
    const place = `${init?.method ?? 'GET'} ${old ? path.slice(3) : path}`;
    const known = OPERATIONS.find(([, , at]) => at.test(place));
    if (rpc) calls.push([JSON.parse(init.body).method, version]);
    else if (known) calls.push([known[old ? 1 : 0], version]);
    return fetch(url, init);
  };
}

/** Options of a gRPC call that note the same. */
export function notingCalls(calls, { InterceptingCall }) {
  const note = (options, next) =>
    new InterceptingCall(next(options), {
      start(metadata, listener, forward) {
        const [path, name] = options.method_definition.path.split('/').slice(1);
        const known = OPERATIONS.find(([current]) => current === name);
        const old = path === 'a2a.v1.A2AService';
        calls.push([old ? known[1] : name, metadata.get('a2a-version')[0] ?? null]);
        forward(metadata, listener);
      },
    });
  return { interceptors: [note] };
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** The development-tool extension. */
export const EXTENSION =
  'https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md';

/** The part of the extended card that says how sessions are set up. */
export const SETUP = 'urn:loggia:a2a:setup:v1';

/** A webhook that keeps what it is told and says yes to everything. */
export async function webhook() {
  const calls = [];
  const waiting = [];
  const server = createServer((request, response) => {
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      response.end();
      calls.push({ headers: request.headers, body: JSON.parse(Buffer.concat(chunks)) });
      waiting.forEach((look) => look());
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/hook`,
    /** All calls, once the body of one of them fits. */
    until: (fits) =>
      new Promise((resolve) => {
        const look = () => calls.some(({ body }) => fits(body)) && resolve([...calls]);
        waiting.push(look);
        look();
      }),
  };
}
