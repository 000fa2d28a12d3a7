"""Google's Python SDK against the fake of Gemini.

    loggia-fake-vendors interop/vendors/gemini.json 4711
    python interop/vendors/gemini.py http://127.0.0.1:4711

Prints a line for each check; the first check that fails ends it.
"""

import asyncio
import sys

SAID = "I look at both cities. "
DONE = "Sunny in Köln and in Rom."
MODELS = ["gemini-3.8-flash", "gemini-2.5-flash"]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def passed(what):
    print(f"ok   gemini: {what}", flush=True)


def config(types, **more):
    tool = types.FunctionDeclaration(
        name="get_weather", description="The weather of a city.", parameters_json_schema=CITY
    )
    return types.GenerateContentConfig(
        system_instruction="Be brief.",
        tools=[types.Tool(function_declarations=[tool])],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        thinking_config=types.ThinkingConfig(include_thoughts=True),
        **more,
    )


def answers(types, calls):
    return [
        types.Part(function_response=types.FunctionResponse(
            id=call.id, name=call.name, response={"output": f"sunny in {call.args['city']}"}
        ))
        for call in calls
    ]


def loop(client, types, model, stream):
    """A whole conversation: two parallel calls, their results, and one more prompt."""
    contents = [types.Content(role="user", parts=[types.Part(text="What is the weather?")])]

    def ask():
        if not stream:
            replies = [client.models.generate_content(model=model, contents=contents, config=config(types))]
        else:
            replies = list(client.models.generate_content_stream(model=model, contents=contents, config=config(types)))
        parts = [part for reply in replies for part in reply.candidates[0].content.parts or []]
        contents.append(types.Content(role="model", parts=parts))
        assert replies[-1].candidates[0].finish_reason == types.FinishReason.STOP
        assert all(reply.model_version == model and reply.response_id for reply in replies)
        return parts, replies[-1].usage_metadata

    parts, usage = ask()
    assert parts[0].thought and parts[0].text.startswith("**Looking**")
    assert usage.thoughts_token_count > 0 and usage.prompt_token_count > 0
    assert "".join(part.text for part in parts if part.text and not part.thought) == SAID
    calls = [part for part in parts if part.function_call]
    assert [call.function_call.args for call in calls] == [{"city": "Köln"}, {"city": "Rom"}]
    assert calls[0].thought_signature and not calls[1].thought_signature
    contents.append(types.Content(role="user", parts=answers(types, [call.function_call for call in calls])))
    parts, _ = ask()
    assert "".join(part.text for part in parts if part.text and not part.thought) == DONE
    contents.append(types.Content(role="user", parts=[types.Part(text="Say more.")]))
    _, usage = ask()
    assert (usage.prompt_token_count, usage.cached_content_token_count) == (100, 60)
    assert usage.candidates_token_count == 7
    return contents


def rules(client, types, errors, contents):
    """Changes of the conversation that Gemini refuses."""
    contents = contents + [types.Content(role="user", parts=[types.Part(text="Say more.")])]

    def refused(change, words, model=MODELS[0]):
        changed = [content.model_copy(deep=True) for content in contents]
        change(changed)
        try:
            client.models.generate_content(model=model, contents=changed, config=config(types))
        except errors.ClientError as error:
            assert error.code == 400 and error.status == "INVALID_ARGUMENT", error
            assert words in error.message, error.message
        else:
            raise AssertionError(f"not refused: {words}")

    def call_of(contents):
        return next(part for part in contents[1].parts if part.function_call)

    def set_signature(contents, value):
        call_of(contents).thought_signature = value
        del contents[3:]

    refused(lambda it: set_signature(it, None), "missing a thought_signature")
    refused(lambda it: set_signature(it, b"other"), "Corrupted thought signature")
    refused(lambda it: setattr(it[0].parts[0], "text", "weather?"), "Corrupted thought signature")
    refused(lambda it: None, "Corrupted thought signature", "gemini-4-argon")
    refused(lambda it: it[2].parts.pop(), "number of function response parts")
    refused(lambda it: it.pop(2), "immediately after a function call")
    refused(lambda it: setattr(it[2].parts[0].function_response, "id", "x"), "no function response with its name and id")
    passed("changed conversations are refused")


def schemas(client, types, errors):
    """A schema may name its version; the schemas within may not."""
    version = {"$schema": "http://json-schema.org/draft-07/schema#"}

    def ask(schema):
        function = types.FunctionDeclaration(name="f", description="f", parameters_json_schema=schema)
        tools = [types.Tool(function_declarations=[function])]
        options = types.GenerateContentConfig(tools=tools)
        client.models.generate_content(model=MODELS[0], contents="Say more.", config=options)

    ask({**CITY, **version})
    for within in [version, {"$ref": "#/$defs/City"}, {"type": "array"}]:
        try:
            ask({"type": "object", "properties": {"city": within}})
        except errors.ClientError as error:
            assert error.code == 400 and "parameters_json_schema" in error.message, error
        else:
            raise AssertionError(f"not refused: {within}")
    passed("schemas of functions")


def endings(client, types, errors):
    def ask(prompt):
        return client.models.generate_content(model=MODELS[0], contents=prompt)

    assert ask("long").candidates[0].finish_reason == types.FinishReason.MAX_TOKENS
    assert ask("bad").prompt_feedback.block_reason == types.BlockedReason.PROHIBITED_CONTENT
    malformed = ask("malformed").candidates[0]
    assert malformed.finish_reason == types.FinishReason.MALFORMED_FUNCTION_CALL
    passed("endings")

    def fails(code, status, run):
        try:
            run()
        except errors.APIError as error:
            assert (error.code, error.status) == (code, status), error
            return error
        raise AssertionError(f"no error {code}")

    slow = fails(429, "RESOURCE_EXHAUSTED", lambda: ask("slow"))
    kinds = {detail["@type"].rsplit(".", 1)[-1]: detail for detail in slow.details["error"]["details"]}
    assert kinds["RetryInfo"]["retryDelay"] == "1.200s" and "QuotaFailure" in kinds
    key = fails(400, "INVALID_ARGUMENT", lambda: ask("key"))
    assert key.details["error"]["details"][0]["reason"] == "API_KEY_INVALID"
    fails(404, "NOT_FOUND", lambda: client.models.generate_content(model="other", contents="hi"))
    half = client.models.generate_content_stream(model=MODELS[0], contents="halfway")
    assert next(half).text
    fails(503, "UNAVAILABLE", lambda: next(half))
    passed("errors, also in the middle of a stream")


def chat(client, types, model):
    """The SDK's own chat, which calls a Python function by itself."""

    def get_weather(city: str) -> str:
        """The weather of a city."""
        return f"sunny in {city}"

    options = types.GenerateContentConfig(
        tools=[get_weather], thinking_config=types.ThinkingConfig(include_thoughts=True)
    )
    talk = client.chats.create(model=model, config=options)
    assert talk.send_message("What is the weather?").text == DONE
    assert "".join(chunk.text or "" for chunk in talk.send_message_stream("Say more.")) == "More."
    passed(f"{model}: a chat with automatic calls")


async def asynchronous(client, model):
    stream = await client.aio.models.generate_content_stream(model=model, contents="Say more.")
    assert "".join([chunk.text or "" async for chunk in stream]) == "More."
    passed("an asynchronous stream")


def main(url):
    from google import genai
    from google.genai import errors, types

    client = genai.Client(api_key="AIza-test", http_options=types.HttpOptions(base_url=url))
    for model in MODELS:
        for stream in [False, True]:
            contents = loop(client, types, model, stream)
            passed(f"{model}: calls, results, thoughts, {'streamed' if stream else 'whole'}")
            if model == MODELS[0]:
                rules(client, types, errors, contents)
        chat(client, types, model)
    schemas(client, types, errors)
    endings(client, types, errors)
    asyncio.run(asynchronous(client, MODELS[0]))
    names = [model.name for model in client.models.list()]
    assert f"models/{MODELS[0]}" in names
    assert client.models.get(model=MODELS[0]).input_token_limit == 1_048_576
    assert client.models.count_tokens(model=MODELS[0], contents="hi there").total_tokens > 0
    passed("models and tokens")


main(f"{sys.argv[1]}/gemini")
