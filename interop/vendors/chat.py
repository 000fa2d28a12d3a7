"""Drives the fakes of Chat Completions with OpenAI's own client.

    loggia-fake-vendors interop/vendors/chat.json 4711
    python interop/vendors/chat.py http://127.0.0.1:4711

Prints a line for each check; the first check that fails ends it.
"""

import sys

# The directory of this file has a module of the same name as the client.
sys.path.pop(0)

import openai

SERVERS = ['chat', 'deepseek', 'openrouter', 'llamacpp', 'vllm']
# How each server is asked to reason.
EFFORT = {
    'chat': {'reasoning_effort': 'high'},
    'deepseek': {'reasoning_effort': 'high', 'extra_body': {'thinking': {'type': 'enabled'}}},
    'openrouter': {'extra_body': {'reasoning': {'effort': 'high'}}},
    'llamacpp': {'extra_body': {'chat_template_kwargs': {'enable_thinking': True}}},
    'vllm': {'extra_body': {'chat_template_kwargs': {'enable_thinking': True}}},
}
# The field with the reasoning, and the one that must come back.
REASONING = {
    'deepseek': 'reasoning_content',
    'openrouter': 'reasoning_details',
    'llamacpp': 'reasoning_content',
    'vllm': 'reasoning',
}


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


def ask(client, server, messages, **more):
    return client.chat.completions.create(
        model='m', messages=messages, tools=TOOLS, **EFFORT[server], **more
    )


def whole(client, server, messages):
    """A reply that is not streamed: its message, its end and its usage."""
    answer = ask(client, server, messages)
    [choice] = answer.choices
    return choice.message.model_dump(exclude_none=True), choice.finish_reason, answer.usage


def streamed(client, server, messages):
    """The same from a stream, put together as applications do it."""
    message = {'role': 'assistant', 'content': None}
    calls, details, finish, usage = {}, {}, None, None
    stream = ask(client, server, messages, stream=True, stream_options={'include_usage': True})
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            finish = choice.finish_reason or finish
            delta = choice.delta.model_dump(exclude_none=True)
            for name in ('content', 'refusal', 'reasoning', 'reasoning_content'):
                if name in delta:
                    message[name] = (message.get(name) or '') + delta[name]
            for detail in delta.get('reasoning_details', []):
                known = details.setdefault(detail['index'], {})
                text = known.get('text', '') + detail.get('text', '')
                known.update(detail)
                if detail['type'] == 'reasoning.text':
                    known['text'] = text
            for call in delta.get('tool_calls', []):
                known = calls.setdefault(call['index'], {'function': {'arguments': ''}})
                known.update({key: call[key] for key in ('id', 'type') if key in call})
                function = call.get('function', {})
                known['function'].setdefault('name', function.get('name'))
                known['function']['arguments'] += function.get('arguments', '')
    if details:
        message['reasoning_details'] = list(details.values())
    if calls:
        message['tool_calls'] = list(calls.values())
    return message, finish, usage


def tool_loop(client, server, reply):
    """A whole turn: two calls, one call, the answer, and one more prompt."""
    messages = [
        {'role': 'system', 'content': 'sys'},
        {'role': 'user', 'content': 'How is the weather?'},
    ]
    replies = []
    while True:
        message, finish, usage = reply(client, server, messages)
        replies.append(message)
        messages.append(message)
        if finish != 'tool_calls':
            break
        for call in message['tool_calls']:
            content = RESULTS[call['function']['name']]
            messages.append({'role': 'tool', 'tool_call_id': call['id'], 'content': content})
    assert finish == 'stop', finish
    assert len(replies) == 3, replies
    assert replies[0]['content'] == 'I will look. And the other one.', replies[0]
    first, second = (call['function']['arguments'] for call in replies[0]['tool_calls'])
    assert (first, second) == ('{"city":"Rom","days":1.50}', '{"city":"東京"}'), replies[0]
    assert replies[2]['content'] == 'Sunny at noon.', replies[2]
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (100, 7, 107)
    if server != 'vllm':
        assert usage.prompt_tokens_details.cached_tokens == 60, usage
    field = REASONING.get(server)
    if field == 'reasoning_details':
        [detail] = replies[0][field]
        assert detail['text'] == 'Two cities, so two calls – 東京.' and detail['signature']
        assert [d['type'] for d in replies[1][field]] == ['reasoning.text', 'reasoning.encrypted']
    elif field:
        assert replies[0][field] == 'Two cities, so two calls – 東京.', replies[0]
    messages.append({'role': 'user', 'content': 'Tell me more.'})
    message, _, _ = reply(client, server, messages)
    assert message['content'] == 'More.', message
    return messages


def refused(call, kind, part):
    try:
        for _ in call() or []:
            pass
    except kind as error:
        # The failure of the server behind a gateway is in the body only.
        assert part in f'{error} {error.body}', error
        return error
    raise AssertionError(f'{kind.__name__} expected')


def prompt(text):
    return [{'role': 'user', 'content': text}]


def failures(client, server):
    limited = refused(
        lambda: ask(client, server, prompt('slow')), openai.RateLimitError, ''
    )
    assert limited.response.headers['retry-after'] == '2', limited.response.headers
    refused(lambda: ask(client, server, prompt('key')), openai.AuthenticationError, '')
    refused(lambda: ask(client, server, prompt('model')), openai.APIStatusError, '')
    halfway = lambda: ask(client, server, prompt('halfway'), stream=True)
    refused(halfway, openai.APIError, '')
    quota = refused(lambda: ask(client, server, prompt('quota')), openai.APIStatusError, '')
    assert quota.status_code == (429 if server == 'chat' else 402), quota
    _, finish, _ = streamed(client, server, prompt('long'))
    assert finish == 'length', finish
    message, finish, _ = streamed(client, server, prompt('bad'))
    if server == 'chat':
        assert (message['refusal'], finish) == ('I cannot.', 'stop'), message
    else:
        assert finish == 'content_filter', finish


def strictness(client, server, messages):
    """What the server refuses of a conversation."""
    # The result of a call is missing.
    without = [message for message in messages if message.get('role') != 'tool']
    refused(
        lambda: ask(client, server, without), openai.BadRequestError, 'must be followed by tool'
    )
    if server == 'deepseek':
        bare = [
            {key: value for key, value in message.items() if key != 'reasoning_content'}
            for message in messages
        ]
        refused(lambda: ask(client, server, bare), openai.BadRequestError, 'must be passed back')
    if server == 'openrouter':
        other = [{'role': 'system', 'content': 'changed'}, *messages[1:]]
        refused(lambda: ask(client, server, other), openai.BadRequestError, 'Invalid `signature`')
    if server == 'chat':
        more = lambda: ask(client, server, messages, max_tokens=1)
        refused(more, openai.BadRequestError, 'max_completion_tokens')


def main(base):
    for server in SERVERS:
        client = openai.OpenAI(api_key='sk-test', base_url=f'{base}/{server}/v1', max_retries=0)
        assert [model.id for model in client.models.list()], server
        print(f'ok   {server}: the list of models')
        messages = tool_loop(client, server, whole)
        print(f'ok   {server}: a tool loop')
        assert tool_loop(client, server, streamed)
        print(f'ok   {server}: a streamed tool loop')
        failures(client, server)
        print(f'ok   {server}: failures and ends')
        strictness(client, server, messages)
        print(f'ok   {server}: what it refuses')
    keyless = openai.OpenAI(
        api_key='k',
        base_url=f'{base}/chat/v1',
        max_retries=0,
        default_headers={'Authorization': 'Basic k'},
    )
    refused(lambda: keyless.models.list(), openai.AuthenticationError, 'API key')
    print('ok   chat: a key is needed')


main(sys.argv[1].rstrip('/'))
