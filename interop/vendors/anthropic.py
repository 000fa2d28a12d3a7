"""Drives the fake of the Messages API with the vendor's own client.

    loggia-fake-vendors interop/vendors/anthropic.json 4711
    python interop/vendors/anthropic.py http://127.0.0.1:4711
"""

import sys

# The directory of this file has a module of the same name as the client.
sys.path.pop(0)

import anthropic

MODEL = 'claude-opus-5-5'
TOOLS = [
    {
        'name': 'get_weather',
        'description': 'The weather in a city.',
        'input_schema': {
            'type': 'object',
            'properties': {'city': {'type': 'string'}, 'days': {'type': 'number'}},
            'required': ['city'],
        },
    },
    {'name': 'get_time', 'description': 'The time.', 'input_schema': {'type': 'object', 'properties': {}}},
]
RESULTS = {'get_weather': 'sunny', 'get_time': 'noon'}


def request(messages, **more):
    return {
        'model': MODEL,
        'max_tokens': 16000,
        'system': [{'type': 'text', 'text': 'sys', 'cache_control': {'type': 'ephemeral'}}],
        'cache_control': {'type': 'ephemeral'},
        'thinking': {'type': 'adaptive', 'display': 'summarized'},
        'output_config': {'effort': 'high'},
        'tools': TOOLS,
        'messages': messages,
        **more,
    }


def user(text):
    return {'role': 'user', 'content': text}


def created(client, **body):
    return client.messages.create(**body)


def streamed(client, **body):
    text = ''
    with client.messages.stream(**body) as stream:
        for event in stream:
            if event.type == 'text':
                text += event.text
        message = stream.get_final_message()
    shown = [block.text for block in message.content if block.type == 'text']
    assert text == ''.join(shown), (text, shown)
    return message


def loop(client, ask):
    """A whole tool loop. Returns the replies and the messages that were sent and received."""
    messages, replies = [user('How is the weather?')], []
    while True:
        reply = ask(client, **request(messages))
        replies.append(reply)
        messages.append({'role': 'assistant', 'content': reply.content})
        calls = [block for block in reply.content if block.type == 'tool_use']
        if not calls:
            return replies, messages
        assert reply.stop_reason == 'tool_use', reply.stop_reason
        results = [
            {'type': 'tool_result', 'tool_use_id': call.id, 'content': RESULTS[call.name]} for call in calls
        ]
        messages.append({'role': 'user', 'content': results})


def check_loop(replies):
    first, second, third = replies
    kinds = [block.type for block in first.content]
    assert kinds == [
        'thinking', 'redacted_thinking', 'thinking', 'text', 'tool_use', 'text', 'thinking', 'tool_use',
    ], kinds
    assert first.content[0].thinking == 'Two cities, so two calls.' and first.content[0].signature
    assert first.content[2].thinking == '' and first.content[2].signature
    assert first.content[4].input == {'city': 'Rom', 'days': 1.5}, first.content[4]
    assert first.content[7].input == {'city': '東京'}, first.content[7]
    assert second.content[1].input == {}, second.content[1]
    assert third.stop_reason == 'end_turn' and third.content[1].text.endswith('größer.'), third
    usage = third.usage
    assert usage.cache_read_input_tokens > 0 and usage.input_tokens > 0, usage
    assert 0 < usage.output_tokens_details.thinking_tokens <= usage.output_tokens, usage


def a_loop_without_streaming(client):
    check_loop(loop(client, created)[0])


def a_loop_with_streaming(client):
    check_loop(loop(client, streamed)[0])


def both_ways_give_the_same(client):
    (one, _), (other, _) = loop(client, created), loop(client, streamed)
    for left, right in zip(one, other):
        left, right = left.to_dict(), right.to_dict()
        assert left['content'] == right['content'], (left, right)
        assert left['usage']['output_tokens'] == right['usage']['output_tokens']


def a_changed_beginning_is_refused(client):
    _, messages = loop(client, streamed)
    body = request([*messages, user('And now? long')])
    created(client, **body)
    for change in [{'system': 'other'}, {'tools': TOOLS[:1]}, {'messages': [user('no'), *body['messages'][1:]]}]:
        try:
            created(client, **{**body, **change})
        except anthropic.BadRequestError as error:
            assert 'bound to a different conversation' in error.api_message, error.api_message
        else:
            raise AssertionError(change)


def a_missing_result_is_refused(client):
    reply = created(client, **request([user('weather')]))
    messages = [user('weather'), {'role': 'assistant', 'content': reply.content}, user('weather?')]
    try:
        created(client, **request(messages))
    except anthropic.BadRequestError as error:
        assert 'without `tool_result` blocks immediately after' in error.api_message
    else:
        raise AssertionError('accepted')


def stops_have_their_reasons(client):
    for ask in created, streamed:
        assert ask(client, **request([user('long')])).stop_reason == 'max_tokens'
        refusal = ask(client, **request([user('harm')]))
        assert refusal.stop_reason == 'refusal' and refusal.stop_details.category == 'cyber'


def a_paused_reply_continues(client):
    for ask in created, streamed:
        paused = ask(client, **request([user('search')]))
        assert paused.stop_reason == 'pause_turn'
        reply = ask(client, **request([user('search'), {'role': 'assistant', 'content': paused.content}]))
        assert reply.content[0].text == 'Found.'


def errors_have_their_classes(client):
    for prompt, kind, status, code in [
        ('spent', anthropic.RateLimitError, 429, 'enforced_spend_limit_reached'),
        ('busy', anthropic.OverloadedError, 529, None),
    ]:
        for ask in created, streamed:
            try:
                ask(client, **request([user(prompt)]))
            except kind as error:
                assert (error.status_code, error.error_code) == (status, code), error
                assert error.request_id.startswith('req_'), error.request_id
            else:
                raise AssertionError(prompt)


def an_error_in_a_stream_is_raised(client):
    try:
        streamed(client, **request([user('breaks')]))
    except anthropic.APIStatusError as error:
        assert error.type == 'overloaded_error', error.type
    else:
        raise AssertionError('no error')


def models_are_listed_and_tokens_counted(client):
    models = {model.id: model for model in client.models.list(limit=100)}
    opus = models[MODEL]
    assert (opus.max_input_tokens, opus.max_tokens) == (1000000, 128000)
    assert opus.capabilities.thinking.types.adaptive.supported
    assert not opus.capabilities.thinking.types.disabled.supported
    assert opus.capabilities.effort.max.supported
    assert client.models.retrieve(MODEL).id == MODEL
    counted = client.messages.count_tokens(model=MODEL, messages=[user('hi')], tools=TOOLS, system='sys')
    assert counted.input_tokens > 10


def parameters_are_checked(client):
    for change in [
        {'max_tokens': 128001},
        {'thinking': {'type': 'disabled'}},
        {'tool_choice': {'type': 'any'}},
        {'output_config': {'effort': 'none'}},
        {'extra_body': {'temperature': 1}},
        {'extra_body': {'surprise': 1}},
        {'messages': [user('')]},
        {'messages': [{'role': 'assistant', 'content': 'hi'}]},
        {'tools': [{'name': 'x', 'input_schema': {'type': 'object', 'oneOf': []}}]},
    ]:
        try:
            # The client itself refuses high limits without a stream.
            streamed(client, **{**request([user('hi')]), **change})
        except anthropic.BadRequestError:
            continue
        raise AssertionError(change)
    for key, wanted in [('bad', anthropic.AuthenticationError), ('good', None)]:
        other = client.copy(api_key=key)
        try:
            created(other, **request([user('long')]))
        except anthropic.AuthenticationError:
            assert wanted
        else:
            assert not wanted
    try:
        created(client, **{**request([user('hi')]), 'model': 'claude-9'})
    except anthropic.NotFoundError as error:
        assert error.api_message == 'model: claude-9'
    else:
        raise AssertionError('accepted')


def a_system_message_sets_the_effort(client):
    """Only with its beta, and only where the system speaks. A message does not have a format."""
    beta = 'mid-conversation-output-config-2026-07-01'
    effort = {'effort': 'low'}
    message = {'role': 'system', 'content': 'Be quick.', 'output_config': effort}

    def ask(messages, betas):
        client.beta.messages.create(model=MODEL, max_tokens=1000, messages=messages, betas=betas)

    ask([user('long'), message], [beta])
    for messages, betas in [
        ([user('long'), message], ['effort-2025-11-24']),
        ([{**user('long'), 'output_config': effort}], [beta]),
        ([user('long'), {**message, 'output_config': {'effort': 'most'}}], [beta]),
        ([user('long'), {**message, 'output_config': {'format': {}}}], [beta]),
    ]:
        try:
            ask(messages, betas)
        except anthropic.BadRequestError as error:
            assert 'output_config' in error.api_message, error.api_message
        else:
            raise AssertionError((messages, betas))


CHECKS = [
    a_loop_without_streaming,
    a_loop_with_streaming,
    both_ways_give_the_same,
    a_changed_beginning_is_refused,
    a_missing_result_is_refused,
    stops_have_their_reasons,
    a_paused_reply_continues,
    errors_have_their_classes,
    an_error_in_a_stream_is_raised,
    models_are_listed_and_tokens_counted,
    parameters_are_checked,
    a_system_message_sets_the_effort,
]


def main():
    base = sys.argv[1].rstrip('/') + '/anthropic'
    client = anthropic.Anthropic(base_url=base, api_key='sk-ant-test', max_retries=0)
    failed = 0
    for check in CHECKS:
        name = check.__name__.replace('_', ' ')
        try:
            check(client)
            print(f'ok   anthropic: {name}', flush=True)
        except Exception as error:
            failed += 1
            print(f'FAIL anthropic: {name}: {type(error).__name__}: {error}', flush=True)
    sys.exit(1 if failed else 0)


main()
