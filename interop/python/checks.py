"""Runs named checks one after the other and prints one line for each."""

import asyncio
import json
import re
import sys
import traceback

PATIENCE = 30


def run(client, checks):
    """Runs `checks`, each an async function without arguments; returns only by exit."""

    async def each():
        failed = 0
        for check in checks:
            name = check.__name__.replace('_', ' ')
            try:
                await asyncio.wait_for(check(), PATIENCE)
                print(f'ok   {client}: {name}', flush=True)
            except Exception as error:
                failed += 1
                what = f'{type(error).__name__}: {error}'.replace('\n', ' ')
                print(f'FAIL {client}: {name}: {what}', flush=True)
                traceback.print_exc(file=sys.stderr)
        return failed

    sys.exit(1 if asyncio.run(each()) else 0)


def equal(got, wanted):
    if got != wanted:
        raise AssertionError(f'got {got!r}, wanted {wanted!r}')


async def refused(awaitable, kind):
    """Awaits something that must fail with `kind`; returns the error."""
    try:
        got = await awaitable
    except kind as error:
        return error
    raise AssertionError(f'no {kind.__name__}, but {got!r}')


# The name of a request in 1.0 and in 0.3, and its HTTP+JSON path.
OPERATIONS = [
    ('SendMessage', 'message/send', 'POST', r'/message:send'),
    ('SendStreamingMessage', 'message/stream', 'POST', r'/message:stream'),
    ('GetTask', 'tasks/get', 'GET', r'/tasks/[^/:]+'),
    ('ListTasks', 'tasks/list', 'GET', r'/tasks'),
    ('CancelTask', 'tasks/cancel', 'POST', r'/tasks/[^/:]+:cancel'),
    ('SubscribeToTask', 'tasks/resubscribe', '(GET|POST)', r'/tasks/[^/:]+:subscribe'),
    (
        'CreateTaskPushNotificationConfig',
        'tasks/pushNotificationConfig/set',
        'POST',
        r'/tasks/[^/]+/pushNotificationConfigs',
    ),
    (
        'ListTaskPushNotificationConfigs',
        'tasks/pushNotificationConfig/list',
        'GET',
        r'/tasks/[^/]+/pushNotificationConfigs',
    ),
    (
        'GetTaskPushNotificationConfig',
        'tasks/pushNotificationConfig/get',
        'GET',
        r'/tasks/[^/]+/pushNotificationConfigs/[^/]+',
    ),
    (
        'DeleteTaskPushNotificationConfig',
        'tasks/pushNotificationConfig/delete',
        'DELETE',
        r'/tasks/[^/]+/pushNotificationConfigs/[^/]+',
    ),
    ('GetExtendedAgentCard', 'agent/getAuthenticatedExtendedCard', 'GET', r'/extendedAgentCard'),
    ('GetAgentCard', 'agent/getAuthenticatedExtendedCard', 'GET', r'/card'),
    ('TaskSubscription', 'tasks/resubscribe', 'gRPC', ''),
]


def operation(request):
    """The name of an HTTP request's operation, whatever the binding; None for the card."""
    if request.method == 'POST' and request.url.path.rstrip('/') in ('', '/a2a/1.0', '/a2a/0.3'):
        return json.loads(request.content)['method']
    old = request.url.path.startswith('/v1/')
    path = request.url.path.removeprefix('/v1') if old else request.url.path
    for new_name, old_name, verb, place in OPERATIONS:
        if re.fullmatch(verb, request.method) and re.fullmatch(place, path):
            return old_name if old else new_name
    return None


def of_grpc(method):
    """The same for the path of a gRPC call."""
    package, name = method.decode().strip('/').rsplit('/', 1)
    if package == 'lf.a2a.v1.A2AService':
        return name
    return next(old for new, old, *_ in OPERATIONS if new == name)


def noting_channel(note):
    """A channel factory that calls `note(operation, metadata)` for each call."""
    import grpc

    def noted(details):
        note(of_grpc(details.method), dict(details.metadata or ()))

    class Unary(grpc.aio.UnaryUnaryClientInterceptor):
        async def intercept_unary_unary(self, continuation, details, request):
            noted(details)
            return await continuation(details, request)

    class Streams(grpc.aio.UnaryStreamClientInterceptor):
        async def intercept_unary_stream(self, continuation, details, request):
            noted(details)
            return await continuation(details, request)

    return lambda url: grpc.aio.insecure_channel(url, interceptors=[Unary(), Streams()])


class Webhook:
    """Listens, keeps the (headers, body) of each POST, and answers 200."""

    async def __aenter__(self):
        self.calls, self.open, self.news = [], [], asyncio.Condition()
        self.server = await asyncio.start_server(self.serve, '127.0.0.1', 0)
        self.url = f'http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/hook'
        return self

    async def __aexit__(self, *_):
        self.server.close()
        for writer in self.open:
            writer.close()
            await writer.wait_closed()

    async def serve(self, reader, writer):
        self.open.append(writer)
        try:
            while True:
                head = (await reader.readuntil(b'\r\n\r\n')).decode()
                fields = (line.partition(': ') for line in head.split('\r\n')[1:] if line)
                headers = {name.lower(): value for name, _, value in fields}
                body = json.loads(await reader.readexactly(int(headers['content-length'])))
                writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
                async with self.news:
                    self.calls.append((headers, body))
                    self.news.notify_all()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def until(self, fits):
        """All calls, when the body of one of them matches."""
        async with self.news:
            await self.news.wait_for(lambda: any(fits(body) for _, body in self.calls))
            return list(self.calls)
