"""Drives the fake of Ollama with its own client.

    loggia-fake-vendors interop/vendors/ollama.json 4711
    python interop/vendors/ollama.py http://127.0.0.1:4711

Prints a line for each check; the first check that fails ends it.
"""

import sys

# The directory of this file has a module of the same name as the client.
sys.path.pop(0)

import ollama

MODEL = 'qwen3.8:27b'
WINDOW = {'num_ctx': 32768}


def tool(name, **properties):
    parameters = {'type': 'object', 'properties': properties}
    return {
        'type': 'function',
        'function': {'name': name, 'description': name, 'parameters': parameters},
    }


TOOLS = [
    tool('get_weather', city={'type': 'string'}, days={'type': 'number'}),
    tool('get_time'),
]
RESULTS = {'get_weather': 'sunny', 'get_time': 'noon'}


def ask(client, messages, **more):
    return client.chat(
        model=MODEL, messages=messages, tools=TOOLS, think=True, options=WINDOW, **more
    )


def whole(client, messages):
    return ask(client, messages)


def streamed(client, messages):
    """The last line, with everything that came before it in its message."""
    content, thinking, calls = '', '', []
    for part in ask(client, messages, stream=True):
        content += part.message.content or ''
        thinking += part.message.thinking or ''
        calls.extend(part.message.tool_calls or [])
    assert part.done
    part.message.content = content
    part.message.thinking = thinking or None
    part.message.tool_calls = calls or None
    return part


def tool_loop(client, reply):
    messages = [
        {'role': 'system', 'content': 'sys'},
        {'role': 'user', 'content': 'How is the weather?'},
    ]
    replies = []
    while True:
        answer = reply(client, messages)
        replies.append(answer.message)
        messages.append(answer.message)
        for call in answer.message.tool_calls or []:
            name = call.function.name
            messages.append({'role': 'tool', 'tool_name': name, 'content': RESULTS[name]})
        if not answer.message.tool_calls:
            break
    assert len(replies) == 3, replies
    first, second = replies[0].tool_calls
    assert first.function.arguments == {'city': 'Rom', 'days': 1.5}, first
    assert second.function.arguments == {'city': '東京'}, second
    assert replies[0].thinking == 'Two cities, so two calls – 東京.', replies[0]
    assert replies[0].content == 'I will look. And the other one.', replies[0]
    assert replies[2].content == 'Sunny at noon.', replies[2]
    assert answer.done and answer.done_reason == 'stop', answer
    assert (answer.prompt_eval_count, answer.eval_count) == (100, 7), answer
    messages.append({'role': 'user', 'content': 'Tell me more.'})
    assert reply(client, messages).message.content == 'More.'
    return messages


def refused(call, status, part):
    try:
        for _ in call() or []:
            pass
    except ollama.ResponseError as error:
        assert part in error.error, error
        assert status is None or error.status_code == status, error
        return
    raise AssertionError('an error expected')


def prompt(text):
    return [{'role': 'user', 'content': text}]


def main(base):
    client = ollama.Client(host=f'{base}/ollama')
    assert [model.model for model in client.list().models] == [MODEL]
    shown = client.show(MODEL)
    assert shown.modelinfo['qwen3.context_length'] == 262144, shown
    assert 'thinking' in shown.capabilities, shown
    print('ok   ollama: the list of models, and one of them')
    messages = tool_loop(client, whole)
    print('ok   ollama: a tool loop')
    tool_loop(client, streamed)
    print('ok   ollama: a streamed tool loop')
    assert streamed(client, prompt('long')).done_reason == 'length'
    refused(lambda: ask(client, prompt('model')), 404, 'not found')
    refused(lambda: ask(client, prompt('slow')), 429, 'too many')
    refused(lambda: ask(client, prompt('halfway'), stream=True), None, 'server busy')
    print('ok   ollama: failures and ends')
    without = [m for m in messages if not (isinstance(m, dict) and m['role'] == 'tool')]
    refused(lambda: ask(client, without), 400, 'no result')
    print('ok   ollama: what it refuses')


main(sys.argv[1].rstrip('/'))
