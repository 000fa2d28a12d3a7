"""The official Python SDK against the fake of the Responses API.

    loggia-fake-vendors interop/vendors/openai.json 4711
    python interop/vendors/openai.py http://127.0.0.1:4711

Prints a line for each check; the first check that fails ends it.
"""

import os
import sys
import urllib.error
import urllib.request

# This file has the SDK's name, so its own directory must not come first.
sys.path = [path for path in sys.path if os.path.abspath(path or ".") != os.path.dirname(os.path.abspath(__file__))]

import openai
from openai import OpenAI

TOOLS = [
    {
        "type": "function",
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
        "strict": False,
    }
]
base_url = f"{sys.argv[1]}/openai/v1"
client = OpenAI(base_url=base_url, api_key="sk-fake-1234567890", max_retries=0)


def request(messages, **more):
    return {
        "model": "fake-model",
        "instructions": "Be brief.",
        "input": messages,
        "tools": TOOLS,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "medium", "summary": "auto"},
        "prompt_cache_key": "session",
        "parallel_tool_calls": True,
        **more,
    }


def whole(messages, **more):
    return client.responses.create(**request(messages, **more))


def streamed(messages, **more):
    """The final response of the SDK's own accumulator, after a check of the deltas."""
    said = ""
    kinds = []
    with client.responses.stream(**request(messages, **more)) as stream:
        for event in stream:
            kinds.append(event.type)
            if event.type == "response.output_text.delta":
                said += event.delta
        final = stream.get_final_response()
    assert kinds[:2] == ["response.created", "response.in_progress"], kinds
    assert final.output_text == said, (final.output_text, said)
    return final


def loop(reply):
    messages = [{"role": "user", "content": "the weather?"}]
    first = reply(messages)
    kinds = [item.type for item in first.output]
    assert kinds == ["reasoning", "message", "function_call", "reasoning", "function_call"], kinds
    thought = first.output[0]
    assert [part.text for part in thought.summary] == ["**Planning**\n\nTwo cities.", "**Calling**\n\nBoth at once."]
    assert thought.encrypted_content.startswith("gAAAA")
    assert first.output[3].summary == []
    assert first.output[1].phase == "commentary"
    assert (first.output[2].arguments, first.output[4].arguments) == ('{"city": "Rom"}', "")
    messages += first.output
    for item in first.output:
        if item.type == "function_call":
            messages.append({"type": "function_call_output", "call_id": item.call_id, "output": "sunny"})
    last = reply(messages)
    assert last.output_text == "It is sunny — überall ☀.", last.output_text
    assert last.status == "completed"
    assert last.usage.input_tokens == 1200 and last.usage.input_tokens_details.cached_tokens == 1024
    messages += last.output
    messages.append({"role": "user", "content": "ping"})
    # Not with the accumulator: it does not accept a keep-alive as the first event.
    events = list(client.responses.create(**request(messages), stream=True))
    assert "keepalive" in [event.type for event in events]
    assert events[-1].response.output_text == "pong"
    return messages


def fails(kind, part, messages, **more):
    try:
        whole(messages, **more)
    except kind as error:
        assert part in str(error), error
        return error
    raise AssertionError(f"no error: {part}")


def refusals(messages):
    """What the vendor refuses of a conversation."""
    moved = [messages[0], messages[2], messages[1], *messages[3:]]
    fails(openai.BadRequestError, "could not be verified", [{"role": "user", "content": "x"}, *messages[1:]])
    fails(openai.BadRequestError, "required 'reasoning' item", [messages[0], *messages[2:]])
    fails(openai.BadRequestError, "could not be verified", moved)
    fails(openai.BadRequestError, "could not be verified", messages, model="other-model")
    fails(openai.BadRequestError, "required following item", messages[:2])
    fails(openai.BadRequestError, "Duplicate item", [*messages[:2], messages[1], *messages[2:]])
    fails(openai.BadRequestError, "No tool output found", messages[:6])
    fails(openai.BadRequestError, "No tool call found", [messages[0], messages[6]])
    bare = messages[1].model_copy(update={"encrypted_content": None})
    fails(openai.NotFoundError, "not persisted", [messages[0], bare, *messages[2:]])
    bad_tool = {**TOOLS[0], "strict": True, "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
    fails(openai.BadRequestError, "Invalid schema for function", "hi", tools=[bad_tool])
    fails(openai.BadRequestError, "Unsupported parameter", "hi", model="gpt-4.1")


def endings():
    refused = streamed("please refuse").output[0].content[0]
    assert refused.type == "refusal", refused
    # Not with the accumulator: it returns a response only after `response.completed`.
    cut = list(client.responses.create(**request("be long"), stream=True))[-1].response
    assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    limited = fails(openai.RateLimitError, "Rate limit reached", "busy")
    assert limited.code == "rate_limit_exceeded" and limited.response.headers["retry-after-ms"] == "10"
    events = list(client.responses.create(**request("fail"), stream=True))
    assert events[-1].type == "response.failed", events[-1]
    assert events[-1].response.error.code == "server_is_overloaded"


def main():
    messages = loop(streamed)
    print("ok   openai: a streamed tool loop with reasoning")
    loop(whole)
    print("ok   openai: a tool loop without streaming")
    refusals(messages)
    print("ok   openai: broken conversations are refused")
    endings()
    print("ok   openai: refusal, length, rate limit, failure in the stream")
    assert "gpt-6.1-sol" in [model.id for model in client.models.list()]
    print("ok   openai: the list of models")
    try:
        urllib.request.urlopen(f"{base_url}/models")
        raise AssertionError("no key is needed")
    except urllib.error.HTTPError as error:
        assert error.code == 401, error
    print("ok   openai: a request without a key is refused")


main()
