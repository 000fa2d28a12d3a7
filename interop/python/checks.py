"""Runs named checks one after the other and says one line for each."""

import asyncio
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
