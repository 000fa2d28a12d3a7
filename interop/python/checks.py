"""Runs named checks one after the other and says one line for each."""

import asyncio
import json
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


class Webhook:
    """Listens, keeps the (headers, body) of each POST, and says yes to everything."""

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
        """All calls, once the body of one of them fits."""
        async with self.news:
            await self.news.wait_for(lambda: any(fits(body) for _, body in self.calls))
            return list(self.calls)
