"""a2a-sdk 1.3.0 against a running server: test_v1.py URL WORKSPACE BINDING."""

import asyncio
import pathlib
import sys
import uuid

import httpx

from a2a.client import ClientCallContext, ClientConfig, create_client
from a2a.client.errors import A2AClientError
from a2a.types import (
    AuthenticationInfo,
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import (
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value

from checks import Webhook, equal, noting_channel, operation, refused, run

URL, WORKSPACE, BINDING = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
# Only JSON-RPC has a code for this error; on other bindings the SDK has classes for the errors of A2A only.
InvalidParams = InvalidParamsError if BINDING == 'JSONRPC' else A2AClientError
NOWHERE = str(uuid.uuid4())
EXTENSION = (
    'https://github.com/google-gemini/gemini-cli/blob/main/'
    'docs/a2a/developer-profile/v0/spec.md'
)


class Connected:
    """A client of the card at `path`, and the (operation, A2A-Version) of each of its calls."""

    def __init__(self, path='', **config):
        self.path, self.config, self.calls = path, config, []

    async def note(self, request):
        if name := operation(request):
            self.calls.append((name, request.headers.get('A2A-Version')))

    def note_call(self, name, metadata):
        self.calls.append((name, metadata.get('a2a-version')))

    async def __aenter__(self):
        self.http = httpx.AsyncClient(timeout=20, event_hooks={'request': [self.note]})
        config = ClientConfig(
            httpx_client=self.http,
            supported_protocol_bindings=[BINDING],
            use_client_preference=True,
            grpc_channel_factory=noting_channel(self.note_call),
            **self.config,
        )
        self.client = await create_client(URL + self.path, config)
        return self

    async def __aexit__(self, *_):
        await self.http.aclose()

    async def events(self, text, task='', **configuration):
        message = Message(
            message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)], task_id=task
        )
        request = SendMessageRequest(
            message=message, configuration=SendMessageConfiguration(**configuration)
        )
        return [event async for event in self.client.send_message(request)]

    async def send(self, text, task='', **configuration):
        (event,) = await self.events(text, task, **configuration)
        equal(event.WhichOneof('payload'), 'task')
        return event.task

    async def get(self, task, **more):
        return await self.client.get_task(GetTaskRequest(id=task, **more))

    async def subscribe(self, task):
        return [e async for e in self.client.subscribe(SubscribeToTaskRequest(id=task))]


def blocking(path=''):
    return Connected(path, streaming=False)


def said(task):
    return ''.join(part.text for artifact in task.artifacts for part in artifact.parts)


def streamed(events):
    """The text of all artifact updates."""
    updates = [e.artifact_update for e in events if e.HasField('artifact_update')]
    return ''.join(part.text for update in updates for part in update.artifact.parts)


def states(events):
    """The states in a stream."""
    found = [e.task.status.state for e in events if e.HasField('task')]
    return found + [e.status_update.status.state for e in events if e.HasField('status_update')]


def kind(event):
    """The extension's kind of an event."""
    return MessageToDict(event.status_update.metadata).get(EXTENSION, {}).get('kind')


async def card():
    async with Connected() as c:
        card = c.client._card
        equal(card.name, 'Loggia')
        equal(card.capabilities.streaming, True)
        offered = [i for i in card.supported_interfaces if i.protocol_binding == BINDING]
        equal([i.protocol_version for i in offered], ['1.0'])
        equal([e.required for e in card.capabilities.extensions], [False])


async def extended_card():
    async with Connected() as c:
        card = await c.client.get_extended_agent_card(GetExtendedAgentCardRequest())
        equal(c.calls, [('GetExtendedAgentCard', '1.0')])
        setup = {e.uri: e.params for e in card.capabilities.extensions}['urn:loggia:a2a:setup:v1']
        equal((setup['mode'], setup['workspace']), ('ask', str(WORKSPACE.resolve())))
        equal('run_shell_command' in [skill.id for skill in card.skills], True)


async def card_of_1_0():
    async with blocking('/a2a/1.0') as c:
        equal(said(await c.send('say pure')), 'pure')
        equal(c.calls, [('SendMessage', '1.0')])


async def card_of_0_3_through_the_compatibility_layer():
    async with blocking('/a2a/0.3') as c:
        task = await c.send('say old')
        equal(task.status.state, TaskState.TASK_STATE_COMPLETED)
        equal(said(task), 'old')
        equal(c.calls, [('message/send', '0.3')])
    async with Connected('/a2a/0.3') as c:
        events = await c.events('say older')
        equal(streamed(events), 'older')
        equal(states(events)[-1], TaskState.TASK_STATE_COMPLETED)


async def send():
    async with blocking() as c:
        task = await c.send('say hello')
        equal(task.status.state, TaskState.TASK_STATE_COMPLETED)
        equal(said(task), 'hello')
        equal([m.role for m in task.history], [Role.ROLE_USER, Role.ROLE_AGENT])
        equal(c.calls, [('SendMessage', '1.0')])


async def send_and_return_at_once():
    async with blocking() as c:
        task = await c.send('wait 2s\nsay later', return_immediately=True)
        if task.status.state == TaskState.TASK_STATE_COMPLETED:
            raise AssertionError('it waited')
        while task.status.state != TaskState.TASK_STATE_COMPLETED:
            await asyncio.sleep(0.1)
            task = await c.get(task.id)
        equal(said(task), 'later')


async def stream():
    async with Connected() as c:
        events = await c.events('say hello')
        equal(events[0].WhichOneof('payload'), 'task')
        equal(states(events)[-1], TaskState.TASK_STATE_COMPLETED)
        equal(events[-1].WhichOneof('payload'), 'status_update')
        equal(streamed(events), 'hello')
        equal(c.calls, [('SendStreamingMessage', '1.0')])


async def get():
    async with blocking() as c:
        sent = await c.send('say again')
        equal(await c.get(sent.id), sent)
        equal(len((await c.get(sent.id, history_length=1)).history), 1)
        equal(len((await c.get(sent.id, history_length=0)).history), 0)


async def list_of_tasks():
    async with blocking() as c:
        one, two = await c.send('say one'), await c.send('say two')
        first = await c.client.list_tasks(ListTasksRequest(page_size=1))
        equal([t.id for t in first.tasks], [two.id])
        equal(len(first.tasks[0].artifacts), 0)
        request = ListTasksRequest(
            page_size=1, page_token=first.next_page_token, include_artifacts=True
        )
        second = await c.client.list_tasks(request)
        equal([(t.id, said(t)) for t in second.tasks], [(one.id, 'one')])
        done = ListTasksRequest(
            context_id=one.context_id, status=TaskState.TASK_STATE_COMPLETED, page_size=100
        )
        listed = await c.client.list_tasks(done)
        equal(listed.total_size, len(listed.tasks))
        if not {one.id, two.id} <= {t.id for t in listed.tasks}:
            raise AssertionError('a task is missing')
        other = await c.client.list_tasks(ListTasksRequest(context_id=NOWHERE))
        equal(len(other.tasks), 0)


async def subscribe_to_a_running_task():
    async with Connected() as c:
        stream = c.client.send_message(
            SendMessageRequest(
                message=Message(
                    message_id='m', role=Role.ROLE_USER, parts=[Part(text='wait 2s\nsay done')]
                )
            )
        )
        task = (await anext(stream)).task.id
        # Two clients join, and the first one leaves.
        both = asyncio.gather(c.subscribe(task), c.subscribe(task))
        await asyncio.sleep(0.3)
        await stream.aclose()
        for events in await both:
            equal(events[0].task.id, task)
            equal(states(events)[-1], TaskState.TASK_STATE_COMPLETED)
            equal(streamed(events), 'done')
        equal(c.calls[1:], [('SubscribeToTask', '1.0')] * 2)


async def subscribe_to_a_finished_task_is_refused():
    async with Connected() as c:
        task = (await c.events('say over'))[0].task.id
        await refused(c.subscribe(task), UnsupportedOperationError)


async def cancel():
    async with Connected() as c:
        running = asyncio.ensure_future(c.events('wait 60s'))
        async with blocking() as other:
            working = ListTasksRequest(status=TaskState.TASK_STATE_WORKING)
            while not (found := (await other.client.list_tasks(working)).tasks):
                await asyncio.sleep(0.05)
            task = await other.client.cancel_task(CancelTaskRequest(id=found[0].id))
            equal(task.status.state, TaskState.TASK_STATE_CANCELED)
            events = await running
            equal(states(events)[-1], TaskState.TASK_STATE_CANCELED)
            again = await other.get(task.id)
            equal(again.status.state, TaskState.TASK_STATE_CANCELED)
            await refused(
                other.client.cancel_task(CancelTaskRequest(id=task.id)), TaskNotCancelableError
            )


async def follow_up_yes():
    async with blocking() as c:
        task = await c.send('write yes.txt: hi')
        equal(task.status.state, TaskState.TASK_STATE_INPUT_REQUIRED)
        if 'yes.txt' not in task.status.message.parts[0].text:
            raise AssertionError(task.status.message)
        equal((WORKSPACE / 'yes.txt').exists(), False)
        await refused(c.send('perhaps', task.id), InvalidParams)
        done = await c.send('yes', task.id)
        equal((done.id, done.context_id), (task.id, task.context_id))
        equal(done.status.state, TaskState.TASK_STATE_COMPLETED)
        equal((WORKSPACE / 'yes.txt').read_text(), 'hi\n')


async def follow_up_no_as_a_stream():
    async with Connected() as c:
        events = await c.events('write no.txt: hi')
        equal(states(events)[-1], TaskState.TASK_STATE_INPUT_REQUIRED)
        task = events[0].task.id
        events = await c.events('no', task)
        equal(events[0].task.id, task)
        equal(states(events)[-1], TaskState.TASK_STATE_COMPLETED)
        equal((WORKSPACE / 'no.txt').exists(), False)


async def cancel_while_it_asks():
    async with blocking() as c:
        task = await c.send('write never.txt: hi')
        equal(task.status.state, TaskState.TASK_STATE_INPUT_REQUIRED)
        task = await c.client.cancel_task(CancelTaskRequest(id=task.id))
        equal(task.status.state, TaskState.TASK_STATE_CANCELED)
        equal((WORKSPACE / 'never.txt').exists(), False)


async def a_finished_task_takes_no_more_messages():
    async with blocking() as c:
        task = await c.send('say over')
        await refused(c.send('say more', task.id), UnsupportedOperationError)


async def unknown_task():
    async with Connected() as c, blocking() as b:
        await refused(c.get(NOWHERE), TaskNotFoundError)
        await refused(c.client.cancel_task(CancelTaskRequest(id=NOWHERE)), TaskNotFoundError)
        await refused(c.subscribe(NOWHERE), TaskNotFoundError)
        await refused(b.send('say x', NOWHERE), TaskNotFoundError)
        await refused(c.events('say x', NOWHERE), TaskNotFoundError)


def told(calls):
    """The payloads of a webhook, parsed with the SDK's own types; an unknown field is an error."""
    return [ParseDict(body, StreamResponse()) for _, body in calls]


def over(body):
    state = body.get('statusUpdate', body.get('task', {})).get('status', {}).get('state')
    return state == 'TASK_STATE_COMPLETED'


async def push_with_the_message():
    async with Connected() as c, Webhook() as hook:
        equal(c.client._card.capabilities.push_notifications, True)
        config = TaskPushNotificationConfig(
            url=hook.url,
            token='a-token',
            authentication=AuthenticationInfo(scheme='Bearer', credentials='a-secret'),
        )
        events = await c.events('say pushed', task_push_notification_config=config)
        calls = await hook.until(over)
        equal(told(calls), events)
        for headers, _ in calls:
            equal(headers['authorization'], 'Bearer a-secret')
            equal(headers['x-a2a-notification-token'], 'a-token')
            equal(headers['content-type'], 'application/a2a+json')


async def push_by_method():
    async with blocking() as c, Webhook() as hook:
        task = await c.send('write pushed.txt: hi')
        config = TaskPushNotificationConfig(
            task_id=task.id,
            id='mine',
            url=hook.url,
            token='a-token',
            authentication=AuthenticationInfo(scheme='Bearer', credentials='a-secret'),
        )
        made = await c.client.create_task_push_notification_config(config)
        equal(c.calls[-1], ('CreateTaskPushNotificationConfig', '1.0'))
        equal((made.task_id, made.id, made.url), (task.id, 'mine', hook.url))
        # Secrets are sent to the webhook only.
        equal((made.token, made.authentication.credentials), ('', ''))
        which = GetTaskPushNotificationConfigRequest(task_id=task.id, id='mine')
        equal(await c.client.get_task_push_notification_config(which), made)
        listed = ListTaskPushNotificationConfigsRequest(task_id=task.id)
        found = await c.client.list_task_push_notification_configs(listed)
        equal(list(found.configs), [made])
        await c.send('yes', task.id)
        events = told(await hook.until(over))
        equal(events[0].task.id, task.id)
        equal(events[0].task.status.state, TaskState.TASK_STATE_INPUT_REQUIRED)
        gone = DeleteTaskPushNotificationConfigRequest(task_id=task.id, id='mine')
        await c.client.delete_task_push_notification_config(gone)
        await c.client.delete_task_push_notification_config(gone)
        found = await c.client.list_task_push_notification_configs(listed)
        equal(list(found.configs), [])


async def push_to_a_private_address_is_refused():
    async with blocking() as c:
        task = await c.send('say x')
        for url in ['http://example.com/hook', 'https://10.0.0.1/', 'https://169.254.169.254/']:
            config = TaskPushNotificationConfig(task_id=task.id, url=url)
            await refused(c.client.create_task_push_notification_config(config), InvalidParams)


async def approval_through_the_extension():
    async with Connected() as c:
        context = ClientCallContext(service_parameters={'A2A-Extensions': EXTENSION})

        async def stream(part, task=''):
            message = Message(
                message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[part], task_id=task
            )
            request = SendMessageRequest(message=message)
            return [e async for e in c.client.send_message(request, context=context)]

        events = await stream(Part(text='write told.txt: hi'))
        equal(states(events)[-1], TaskState.TASK_STATE_INPUT_REQUIRED)
        equal(kind(events[-1]), 'STATE_CHANGE')
        calls = [
            MessageToDict(part.data)
            for e in events
            if kind(e) == 'TOOL_CALL_UPDATE'
            for part in e.status_update.status.message.parts
        ]
        equal([call['status'] for call in calls], ['PENDING'])
        answer = {'tool_call_id': calls[0]['tool_call_id'], 'selected_option_id': 'proceed_once'}
        part = Part(data=ParseDict(answer, Value()))
        events = await stream(part, events[0].task.id)
        equal(states(events)[-1], TaskState.TASK_STATE_COMPLETED)
        equal((WORKSPACE / 'told.txt').read_text(), 'hi\n')


run(
    f'python 1.3.0 {BINDING}',
    [
        card,
        extended_card,
        card_of_1_0,
        card_of_0_3_through_the_compatibility_layer,
        send,
        send_and_return_at_once,
        stream,
        get,
        list_of_tasks,
        subscribe_to_a_running_task,
        subscribe_to_a_finished_task_is_refused,
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
