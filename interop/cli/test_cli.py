"""a2acli, the official command line, against a running server: test_cli.py CLI URL WORKSPACE BINDING."""

import asyncio
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'python'))

from checks import equal, run  # noqa: E402 (the path is needed first)

CLI, URL, WORKSPACE, BINDING = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4]
TRANSPORT = {'JSONRPC': 'jsonrpc', 'HTTP+JSON': 'rest'}[BINDING]


async def ran(*words, card=URL):
    """The exit code and the JSON documents of one command, as one document or one per line."""
    command = [CLI, '-a', card, '--transport', TRANSPORT, '-o', 'json', '--compact', *words]
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await process.communicate()
    said = [json.loads(line) for line in out.decode().splitlines() if line.startswith(('{', '['))]
    return process.returncode, said, errors.decode()


async def one(*words, **more):
    code, said, errors = await ran(*words, **more)
    if code != 0 or not said:
        raise AssertionError(f'{words}: {code}, {said}, {errors}')
    return said[-1]


def task(said):
    return said.get('task', said)


async def card():
    equal((await one('card', 'get'))['name'], 'Loggia')
    # The 1.0 card: the card at the root also has the members of 0.3.
    pure = f'{URL}/a2a/1.0/.well-known/agent-card.json'
    equal((await one('card', 'get', '--validate', card=pure))['name'], 'Loggia')


async def extended_card():
    skills = [skill['id'] for skill in (await one('card', 'get', '--extended'))['skills']]
    equal('run_shell_command' in skills, True)


async def send_and_get():
    sent = task(await one('send', 'say hello'))
    equal(sent['status']['state'], 'TASK_STATE_COMPLETED')
    got = task(await one('task', 'get', sent['id']))
    equal(got['artifacts'][0]['parts'][0]['text'], 'hello')


async def stream():
    code, events, errors = await ran('send', '--stream', 'say hello')
    equal((code, errors), (0, ''))
    equal('task' in events[0], True)
    equal(events[-1]['statusUpdate']['status']['state'], 'TASK_STATE_COMPLETED')


async def list_of_tasks():
    sent = task(await one('send', 'say listed'))
    listed = await one('task', 'list', '--page-size', '1')
    equal([found['id'] for found in listed['tasks']], [sent['id']])


async def subscribe_and_cancel():
    sent = task(await one('--async', 'send', '--return-immediately', 'wait 60s'))
    following = asyncio.ensure_future(ran('task', 'subscribe', sent['id']))
    await asyncio.sleep(0.5)
    cancelled = task(await one('task', 'cancel', sent['id']))
    equal(cancelled['status']['state'], 'TASK_STATE_CANCELED')
    _, events, _ = await following
    equal(events[-1]['statusUpdate']['status']['state'], 'TASK_STATE_CANCELED')
    code, _, _ = await ran('task', 'cancel', sent['id'])
    equal(code != 0, True)


async def follow_up():
    asked = (await ran('send', 'write cli.txt: hi'))[1][-1]
    equal(task(asked)['status']['state'], 'TASK_STATE_INPUT_REQUIRED')
    done = task(await one('send', '--task-id', task(asked)['id'], 'yes'))
    equal(done['status']['state'], 'TASK_STATE_COMPLETED')
    equal((WORKSPACE / 'cli.txt').read_text(), 'hi\n')


async def push():
    sent = task((await ran('send', 'write pushed.txt: hi'))[1][-1])
    where = 'http://127.0.0.1:9/hook'
    config = ('task', 'push-config')
    made = await one(*config, 'create', sent['id'], where, '--config-id', 'mine', '--token', 'secret')
    equal((made['id'], made['url'], made.get('token', '')), ('mine', where, ''))
    equal((await one(*config, 'get', sent['id'], 'mine'))['url'], where)
    listed = await one(*config, 'list', sent['id'])
    equal([found['id'] for found in listed['configs']], ['mine'])
    equal((await ran(*config, 'delete', sent['id'], 'mine'))[0], 0)
    await one('task', 'cancel', sent['id'])


async def unknown_task():
    code, _, errors = await ran('task', 'get', 'no-such-task')
    equal((code != 0, 'not found' in errors.lower()), (True, True))


run(
    f'a2acli 0.4.5 {BINDING}',
    [
        card,
        extended_card,
        send_and_get,
        stream,
        list_of_tasks,
        subscribe_and_cancel,
        follow_up,
        push,
        unknown_task,
    ],
)
