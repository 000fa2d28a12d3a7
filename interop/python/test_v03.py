"""a2a-sdk 0.3.26 against a running server: test_v03.py URL WORKSPACE BINDING."""

import asyncio
import pathlib
import sys
import uuid

import httpx

from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientHTTPError, A2AClientJSONRPCError
from a2a.types import (
    DataPart,
    GetTaskPushNotificationConfigParams,
    Message,
    Part,
    PushNotificationAuthenticationInfo,
    PushNotificationConfig,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TaskState,
    TaskStatusUpdateEvent,
    TextPart,
)

from checks import Webhook, equal, noting_channel, operation, refused, run

URL, WORKSPACE, BINDING = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
NOWHERE = str(uuid.uuid4())
EXTENSION = (
    'https://github.com/google-gemini/gemini-cli/blob/main/'
    'docs/a2a/developer-profile/v0/spec.md'
)
NOT_FOUND, NOT_CANCELABLE, UNSUPPORTED, PARAMS = -32001, -32002, -32004, -32602


class Connected:
    """A client of the card at `path`, and the operations it called."""

    def __init__(self, path='', **config):
        self.path, self.config, self.calls = path, config, []

    async def note(self, request):
        if name := operation(request):
            self.calls.append(name)

    def note_call(self, name, _metadata):
        self.calls.append(name)

    async def __aenter__(self):
        self.http = httpx.AsyncClient(timeout=20, event_hooks={'request': [self.note]})
        self.card = await A2ACardResolver(self.http, URL + self.path).get_agent_card()
        config = ClientConfig(
            httpx_client=self.http,
            supported_transports=[BINDING],
            use_client_preference=True,
            grpc_channel_factory=noting_channel(self.note_call),
            **self.config,
        )
        self.client = ClientFactory(config).create(self.card)
        return self

    async def __aexit__(self, *_):
        await self.http.aclose()

    def start(self, text, task=None):
        part = Part(root=TextPart(text=text))
        return self.client.send_message(
            Message(message_id=str(uuid.uuid4()), role=Role.user, parts=[part], task_id=task)
        )

    async def events(self, text, task=None):
        return [event async for event in self.start(text, task)]

    async def send(self, text, task=None):
        ((task, update),) = await self.events(text, task)
        equal(update, None)
        return task

    async def get(self, task, **more):
        return await self.client.get_task(TaskQueryParams(id=task, **more))

    async def cancel(self, task):
        return await self.client.cancel_task(TaskIdParams(id=task))

    async def resubscribe(self, task):
        return [e async for e in self.client.resubscribe(TaskIdParams(id=task))]


def blocking(path=''):
    return Connected(path, streaming=False)


# The form of an error: a code in JSON-RPC, a status in HTTP, a name in gRPC.
ERRORS = {
    NOT_FOUND: (404, 'NOT_FOUND'),
    NOT_CANCELABLE: (409, 'FAILED_PRECONDITION'),
    UNSUPPORTED: (501, 'UNIMPLEMENTED'),
    PARAMS: (422, 'INVALID_ARGUMENT'),
}


async def refused_with(awaitable, code, status=None):
    usual, name = ERRORS[code]
    status = status or usual
    match BINDING:
        case 'JSONRPC':
            equal((await refused(awaitable, A2AClientJSONRPCError)).error.code, code)
        case 'HTTP+JSON':
            equal((await refused(awaitable, A2AClientHTTPError)).status_code, status)
        case 'GRPC':
            from grpc.aio import AioRpcError

            equal((await refused(awaitable, AioRpcError)).code().name, name)


def said(task):
    return ''.join(p.root.text for artifact in task.artifacts or [] for p in artifact.parts)


def streamed(events):
    updates = [u for _, u in events if isinstance(u, TaskArtifactUpdateEvent)]
    return ''.join(part.root.text for update in updates for part in update.artifact.parts)


def last(events):
    """The state of the last event, which must be a final one."""
    update = events[-1][1]
    equal(type(update), TaskStatusUpdateEvent)
    equal(update.final, True)
    return update.status.state


def kind(event):
    """The extension's kind of an event."""
    update = event[1]
    return ((update and update.metadata) or {}).get(EXTENSION, {}).get('kind')


async def card():
    async with Connected() as c:
        equal(c.card.name, 'Loggia')
        equal(c.card.capabilities.streaming, True)
        equal((c.card.preferred_transport, c.card.protocol_version[:3]), ('JSONRPC', '0.3'))
        equal([e.required for e in c.card.capabilities.extensions], [False])


async def extended_card():
    async with Connected() as c:
        card = await c.client.get_card()
        equal(c.calls, ['agent/getAuthenticatedExtendedCard'])
        setup = {e.uri: e.params for e in card.capabilities.extensions}['urn:loggia:a2a:setup:v1']
        equal((setup['mode'], setup['workspace']), ('ask', str(WORKSPACE.resolve())))
        equal('run_shell_command' in [skill.id for skill in card.skills], True)


async def card_of_0_3():
    async with blocking('/a2a/0.3') as c:
        equal(said(await c.send('say pure')), 'pure')


async def send():
    async with blocking() as c:
        task = await c.send('say hello')
        equal(task.status.state, TaskState.completed)
        equal(said(task), 'hello')
        equal([m.role for m in task.history], [Role.user, Role.agent])
        equal(c.calls, ['message/send'])


async def send_and_return_at_once():
    async with Connected(streaming=False, polling=True) as c:
        task = await c.send('wait 2s\nsay later')
        if task.status.state == TaskState.completed:
            raise AssertionError('it waited')
        while task.status.state != TaskState.completed:
            await asyncio.sleep(0.1)
            task = await c.get(task.id)
        equal(said(task), 'later')


async def stream():
    async with Connected() as c:
        events = await c.events('say hello')
        equal(events[0][1], None)
        equal(last(events), TaskState.completed)
        equal(streamed(events), 'hello')
        equal(said(events[-1][0]), 'hello')
        equal(c.calls, ['message/stream'])


async def get():
    async with blocking() as c:
        sent = await c.send('say again')
        equal(await c.get(sent.id), sent)
        equal(len((await c.get(sent.id, history_length=1)).history), 1)


async def resubscribe_to_a_running_task():
    async with Connected() as c:
        stream = c.start('wait 2s\nsay done')
        task = (await anext(stream))[0].id
        # Two clients join, and the first one leaves.
        both = asyncio.gather(c.resubscribe(task), c.resubscribe(task))
        await asyncio.sleep(0.3)
        await stream.aclose()
        for events in await both:
            equal((events[0][0].id, events[0][1]), (task, None))
            equal(last(events), TaskState.completed)
            equal(streamed(events), 'done')
            equal(said(events[-1][0]), 'done')
        equal(c.calls[1:], ['tasks/resubscribe'] * 2)


async def cancel():
    async with Connected() as c:
        stream = c.start('wait 60s')
        task = (await anext(stream))[0].id
        equal((await c.cancel(task)).status.state, TaskState.canceled)
        equal(last([event async for event in stream]), TaskState.canceled)
        equal((await c.get(task)).status.state, TaskState.canceled)
        await refused_with(c.cancel(task), NOT_CANCELABLE)


async def follow_up_yes():
    async with blocking() as c:
        task = await c.send('write yes.txt: hi')
        equal(task.status.state, TaskState.input_required)
        if 'yes.txt' not in task.status.message.parts[0].root.text:
            raise AssertionError(task.status.message)
        equal((WORKSPACE / 'yes.txt').exists(), False)
        await refused_with(c.send('perhaps', task.id), PARAMS)
        done = await c.send('yes', task.id)
        equal((done.id, done.context_id), (task.id, task.context_id))
        equal(done.status.state, TaskState.completed)
        equal((WORKSPACE / 'yes.txt').read_text(), 'hi\n')


async def follow_up_no_as_a_stream():
    async with Connected() as c:
        events = await c.events('write no.txt: hi')
        equal(last(events), TaskState.input_required)
        task = events[0][0].id
        events = await c.events('no', task)
        equal(events[0][0].id, task)
        equal(last(events), TaskState.completed)
        equal((WORKSPACE / 'no.txt').exists(), False)


async def cancel_while_it_asks():
    async with blocking() as c:
        task = await c.send('write never.txt: hi')
        equal(task.status.state, TaskState.input_required)
        equal((await c.cancel(task.id)).status.state, TaskState.canceled)
        equal((WORKSPACE / 'never.txt').exists(), False)


async def a_finished_task_takes_no_more_messages():
    async with blocking() as c:
        task = await c.send('say over')
        await refused_with(c.send('say more', task.id), UNSUPPORTED)


async def unknown_task():
    async with Connected() as c, blocking() as b:
        await refused_with(c.get(NOWHERE), NOT_FOUND)
        await refused_with(c.cancel(NOWHERE), NOT_FOUND)
        # Over HTTP this SDK checks the content type before the status, and reports 400.
        await refused_with(c.resubscribe(NOWHERE), NOT_FOUND, status=400)
        await refused_with(b.send('say x', NOWHERE), NOT_FOUND)
        await refused_with(c.events('say x', NOWHERE), NOT_FOUND)


def callback(hook):
    """A configuration with all members."""
    secret = PushNotificationAuthenticationInfo(schemes=['Bearer'], credentials='a-secret')
    return PushNotificationConfig(url=hook.url, token='a-token', authentication=secret)


def told(calls):
    """The payloads of a webhook, parsed with the SDK's own type."""
    for headers, _ in calls:
        equal(headers['authorization'], 'Bearer a-secret')
        equal(headers['x-a2a-notification-token'], 'a-token')
    return [Task.model_validate(body) for _, body in calls]


def over(body):
    return body['status']['state'] == 'completed'


async def push_with_the_message():
    async with Webhook() as hook:
        async with Connected(push_notification_configs=[callback(hook)]) as c:
            equal(c.card.capabilities.push_notifications, True)
            events = await c.events('say pushed')
            tasks = told(await hook.until(over))
            equal({task.id for task in tasks}, {events[-1][0].id})
            equal(tasks[-1].status.state, TaskState.completed)
            equal(tasks[-1].artifacts[0].parts[0].root.text, 'pushed')


async def push_by_method():
    async with blocking() as c, Webhook() as hook:
        task = await c.send('write pushed.txt: hi')
        config = TaskPushNotificationConfig(
            task_id=task.id, push_notification_config=callback(hook)
        )
        made = await c.client.set_task_callback(config)
        equal(c.calls[-1], 'tasks/pushNotificationConfig/set')
        shown = made.push_notification_config
        equal((made.task_id, shown.id, shown.url), (task.id, task.id, hook.url))
        # Secrets are sent to the webhook only.
        equal((shown.token or '', shown.authentication.credentials or ''), ('', ''))
        # Without an id it is the only one; the SDK can express that over JSON-RPC only.
        name = None if BINDING == 'JSONRPC' else shown.id
        which = GetTaskPushNotificationConfigParams(id=task.id, push_notification_config_id=name)
        got = await c.client.get_task_callback(which)
        equal(got, made)
        await c.send('yes', task.id)
        tasks = told(await hook.until(over))
        equal(tasks[0].status.state, TaskState.input_required)
        equal({task.id for task in tasks}, {task.id})


async def push_to_a_private_address_is_refused():
    async with blocking() as c:
        task = await c.send('say x')
        for url in ['http://example.com/hook', 'https://10.0.0.1/', 'https://169.254.169.254/']:
            config = TaskPushNotificationConfig(
                task_id=task.id, push_notification_config=PushNotificationConfig(url=url)
            )
            await refused_with(c.client.set_task_callback(config), PARAMS)


async def approval_through_the_extension():
    async with Connected() as c:

        async def stream(part, task=None):
            message = Message(
                message_id=str(uuid.uuid4()), role=Role.user, parts=[Part(root=part)], task_id=task
            )
            return [e async for e in c.client.send_message(message, extensions=[EXTENSION])]

        events = await stream(TextPart(text='write told.txt: hi'))
        equal(last(events), TaskState.input_required)
        equal(kind(events[-1]), 'STATE_CHANGE')
        calls = [
            part.root.data
            for event in events
            if kind(event) == 'TOOL_CALL_UPDATE'
            for part in event[1].status.message.parts
        ]
        equal([call['status'] for call in calls], ['PENDING'])
        answer = {'tool_call_id': calls[0]['tool_call_id'], 'selected_option_id': 'proceed_once'}
        events = await stream(DataPart(data=answer), events[0][0].id)
        equal(last(events), TaskState.completed)
        equal((WORKSPACE / 'told.txt').read_text(), 'hi\n')


run(
    f'python 0.3.26 {BINDING}',
    [
        card,
        extended_card,
        card_of_0_3,
        send,
        send_and_return_at_once,
        stream,
        get,
        resubscribe_to_a_running_task,
        cancel,
        follow_up_yes,
        follow_up_no_as_a_stream,
        cancel_while_it_asks,
        a_finished_task_takes_no_more_messages,
        unknown_task,
        push_with_the_message,
        push_by_method,
        push_to_a_private_address_is_refused,
        approval_through_the_extension,
    ],
)
