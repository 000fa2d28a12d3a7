"""A pytest plugin that gives a kit the token of the server it tests; neither kit has an option for one.

The kit's own clients (`httpx`, gRPC) send it, and so do requests of its tests (`requests`) that have no
credentials. Tests about missing or wrong credentials use `requests`; in such files these requests are
not changed. The tests of the authenticated card request it without credentials, with the clients.
"""

import functools
import os
import re

import grpc
import httpx
import requests

TOKEN = f'Bearer {os.environ["TCK_TOKEN"]}'
SERVER = os.environ['TCK_SERVER'].rstrip('/')
ABOUT_CREDENTIALS = re.compile(r'(_auth_|authentication|extended_agent_card|card_security)\w*\.py')
UNKNOWN_CLIENT = re.compile(r'TestAuthenticatedExtendedCard')

clients = beside_them = True


def pytest_runtest_setup(item):
    global clients, beside_them
    clients = not UNKNOWN_CLIENT.search(item.nodeid)
    beside_them = clients and not ABOUT_CREDENTIALS.search(item.nodeid)


def carrying(sender, given):
    """A library's transport, with the token on requests to the server that have no credentials."""

    @functools.wraps(sender)
    def send(self, request, **options):
        if given() and str(request.url).startswith(SERVER):
            request.headers.setdefault('authorization', TOKEN)
        return sender(self, request, **options)

    return send


class Metadata(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    """The same for gRPC."""

    def intercept_unary_unary(self, continuation, details, request):
        if clients:
            metadata = [*(details.metadata or []), ('authorization', TOKEN)]
            details = details._replace(metadata=metadata)
        return continuation(details, request)

    intercept_unary_stream = intercept_unary_unary


def intercepted(connect):
    return lambda *where, **options: grpc.intercept_channel(connect(*where, **options), Metadata())


httpx.Client.send = carrying(httpx.Client.send, lambda: clients)
httpx.AsyncClient.send = carrying(httpx.AsyncClient.send, lambda: clients)
requests.Session.send = carrying(requests.Session.send, lambda: beside_them)
grpc.insecure_channel = intercepted(grpc.insecure_channel)
