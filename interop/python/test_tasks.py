"""python-a2a 0.5.10 against a running server: test_tasks.py URL WORKSPACE, the token in LOGGIA_TOKEN.

The client of the task service: it has one path for each method, waits for results, and reads streams
without an envelope.
"""

import asyncio
import os
import pathlib
import sys

import requests

from python_a2a import A2AClient, Message, MessageRole, StreamingClient, Task, TaskState, TextContent

from checks import equal, run

URL, WORKSPACE = sys.argv[1], pathlib.Path(sys.argv[2])


def headers():
    return {'Authorization': f'Bearer {os.environ["LOGGIA_TOKEN"]}'}


def client(url=URL, **more):
    return A2AClient(url, headers=headers(), timeout=20, **more)


def streaming():
    return StreamingClient(URL, headers=headers(), timeout=20)


def saying(text):
    return Message(content=TextContent(text=text), role=MessageRole.USER)


async def elsewhere(function, *arguments):
    """The client blocks; the checks do not."""
    return await asyncio.to_thread(function, *arguments)


async def card():
    shown = (await elsewhere(client)).get_agent_card()
    equal((shown.name, shown.capabilities['streaming']), ('Loggia', True))
    equal([skill.id for skill in shown.skills], ['code_generation'])
    equal('Bearer' in shown.authentication['schemes'], True)


async def ask():
    c = await elsewhere(client)
    equal(await elsewhere(c.ask, 'say hello'), 'hello')


async def ask_in_the_form_of_0_1():
    c = await elsewhere(lambda: client(google_a2a_compatible=True))
    equal(await elsewhere(c.ask, 'say hello'), 'hello')


async def ask_below_a2a():
    c = await elsewhere(client, f'{URL}/a2a')
    equal(await elsewhere(c.ask, 'say below'), 'below')


async def send_and_get():
    c = await elsewhere(client)
    task = c._create_task(saying('say hello'))
    done = await elsewhere(c._send_task, task)
    equal((done.id, done.session_id), (task.id, task.session_id))
    equal((done.status.state, done.get_text()), (TaskState.COMPLETED, 'hello'))
    got = await elsewhere(c.get_task, task.id)
    equal((got.id, got.status.state, got.get_text()), (task.id, TaskState.COMPLETED, 'hello'))
    equal(got.history, [])
    got = await elsewhere(c.get_task, task.id, 5)
    equal([message['role'] for message in got.history], ['user', 'agent'])


async def the_same_task_again():
    c = await elsewhere(client)
    task = c._create_task(saying('say once'))
    first = await elsewhere(c._send_task, task)
    again = await elsewhere(c._send_task, task)
    equal((again.id, again.artifacts), (first.id, first.artifacts))
    got = await elsewhere(c.get_task, task.id, 9)
    equal(len(got.history), 2)


def tasks():
    """The number of tasks of this client, asked for with A2A 1.0."""
    call = {'jsonrpc': '2.0', 'id': 1, 'method': 'ListTasks', 'params': {}}
    return requests.post(URL, json=call, headers=headers(), timeout=20).json()['result']['totalSize']


async def a_task_that_fails_is_done_once():
    c = await elsewhere(client)
    before = await elsewhere(tasks)
    equal(await elsewhere(c.ask, 'fail boom'), 'boom')
    equal(await elsewhere(tasks), before + 1)


async def unknown_task():
    c = await elsewhere(client)
    got = await elsewhere(c.get_task, 'nobody-sent-this')
    equal(got.status.state, TaskState.FAILED)


async def cancel():
    c = await elsewhere(client)
    task = c._create_task(saying('wait 60s'))
    sent = asyncio.create_task(elsewhere(c._send_task, task))
    while (await elsewhere(c.get_task, task.id)).status.state == TaskState.FAILED:
        await asyncio.sleep(0.05)
    canceled = await elsewhere(c.cancel_task, task.id)
    equal((canceled.id, canceled.status.state), (task.id, TaskState.CANCELED))
    equal((await sent).status.state, TaskState.CANCELED)
    equal((await elsewhere(c.get_task, task.id)).status.state, TaskState.CANCELED)


async def nobody_is_asked():
    c = await elsewhere(client)
    task = c._create_task(saying('write asked.txt: hi'))
    done = await elsewhere(c._send_task, task)
    equal(done.status.state, TaskState.FAILED)
    said = done.message['content']['text']
    equal('asked.txt was refused: it needs an approval' in said, True)
    equal((WORKSPACE / 'asked.txt').exists(), False)


async def stream_of_a_task():
    c = await elsewhere(client)
    task = c._create_task(saying('say streamed'))
    chunks = [chunk async for chunk in c.stream_task(task)]
    equal({chunk['id'] for chunk in chunks}, {task.id})
    words = [
        part['text']
        for chunk in chunks
        if 'artifact' in chunk
        for part in chunk['artifact']['parts']
    ]
    equal(''.join(words), 'streamed')
    equal((chunks[0]['status']['state'], chunks[-1]['status']['state']), ('submitted', 'completed'))
    equal((chunks[0]['final'], chunks[-1]['final']), (False, True))


async def stream_of_words():
    c = await elsewhere(client)
    chunks = [chunk async for chunk in c.stream_response(saying('say some words'))]
    equal(''.join(chunk for chunk in chunks if isinstance(chunk, str)), 'some words')
    chunks = [chunk async for chunk in streaming().stream_response(saying('say more words'))]
    equal(''.join(chunk['content'] for chunk in chunks), 'more words')
    equal(chunks[-1]['lastChunk'], True)


async def subscribe_and_resubscribe():
    s = streaming()
    task = await s.create_task(saying('say followed'))
    updates = [update async for update in s.tasks_send_subscribe(task)]
    equal({update.id for update in updates}, {task.id})
    equal((updates[-1].status.state, updates[-1].get_text()), (TaskState.COMPLETED, 'followed'))
    updates = [update async for update in s.tasks_resubscribe(task.id)]
    equal((updates[-1].status.state, updates[-1].get_text()), (TaskState.COMPLETED, 'followed'))


async def two_watch_one_task():
    s = streaming()
    task = Task(message=saying('wait 2s\nsay both').to_dict())
    sent = asyncio.create_task(s.send_task(task))
    c = await elsewhere(client)
    while (await elsewhere(c.get_task, task.id)).status.state == TaskState.FAILED:
        await asyncio.sleep(0.05)

    async def watch():
        return [update async for update in s.tasks_resubscribe(task.id)][-1]

    for last in [*await asyncio.gather(watch(), watch()), await sent]:
        equal((last.status.state, last.get_text()), (TaskState.COMPLETED, 'both'))


async def without_a_token():
    c = await elsewhere(lambda: A2AClient(URL, headers={'Authorization': 'Bearer wrong'}))
    equal((await elsewhere(c.get_task, 'any')).status.state, TaskState.FAILED)


run(
    'python-a2a 0.5.10',
    [
        card,
        ask,
        ask_in_the_form_of_0_1,
        ask_below_a2a,
        send_and_get,
        the_same_task_again,
        a_task_that_fails_is_done_once,
        unknown_task,
        cancel,
        nobody_is_asked,
        stream_of_a_task,
        stream_of_words,
        subscribe_and_resubscribe,
        two_watch_one_task,
        without_a_token,
    ],
)
