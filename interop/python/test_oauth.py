"""OAuth libraries and a2a-sdk 1.3.0 with their tokens, against a server that requires a token of every client:
test_oauth.py URL WORKSPACE."""

import json
import os
import subprocess
import sys
import uuid

# The library refuses plain HTTP by default; loopback has no TLS.
os.environ['OAUTHLIB_INSECURE_TRANSPORT'] = '1'

import httpx
from a2a.client import A2ACardResolver, ClientConfig, create_client
from a2a.client.errors import A2AClientError
from a2a.types import (
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    TaskState,
)
from authlib.integrations.base_client.errors import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from oauthlib.oauth2 import BackendApplicationClient, InvalidClientError, InvalidScopeError
from requests_oauthlib import OAuth2Session

from checks import equal, refused, run

URL = sys.argv[1]


def loggia(*arguments):
    """Runs the server's command line."""
    command = [os.environ['LOGGIA_BINARY'], *arguments]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return ran.stdout


def registered(scope='read,prompt'):
    """A fresh client: its id and its secret."""
    name = f'client-{uuid.uuid4()}'
    shown = json.loads(loggia('clients', 'add', name, '--scope', scope, '--json'))
    return shown['client_id'], shown['client_secret']


async def advertised():
    """The flow of the card."""
    async with httpx.AsyncClient(timeout=20) as http:
        card = await A2ACardResolver(http, URL).get_agent_card()
    return card.security_schemes['oauth2'].oauth2_security_scheme.flows.client_credentials


async def token_url():
    return (await advertised()).token_url


async def the_card_says_how_to_get_a_token():
    flow = await advertised()
    equal(flow.token_url.endswith('/oauth/token'), True)
    equal(sorted(flow.scopes), ['admin', 'approve', 'prompt', 'read'])


async def authlib_gets_a_token_in_both_ways():
    client, secret = registered()
    for method in ('client_secret_basic', 'client_secret_post'):
        async with AsyncOAuth2Client(client, secret, token_endpoint_auth_method=method) as http:
            token = await http.fetch_token(await token_url(), grant_type='client_credentials')
            equal((token['token_type'], token['expires_in']), ('Bearer', 3600))
            body = {'jsonrpc': '2.0', 'id': 1, 'method': 'ListTasks', 'params': {}}
            answer = await http.post(URL, json=body)
            equal(answer.status_code, 200)
            equal('result' in answer.json(), True)


async def authlib_is_told_what_is_wrong():
    client, secret = registered('read')
    rows = [(secret + 'x', None, 'invalid_client'), (secret, 'read admin', 'invalid_scope')]
    for secret, scope, wanted in rows:
        async with AsyncOAuth2Client(client, secret, scope=scope) as http:
            asked = http.fetch_token(await token_url(), grant_type='client_credentials')
            error = await refused(asked, OAuthError)
            equal(error.error, wanted)


async def requests_oauthlib_gets_a_token():
    client, secret = registered()
    session = OAuth2Session(client=BackendApplicationClient(client_id=client))
    for more in ({}, {'include_client_id': True}, {'include_client_id': False}):
        token = session.fetch_token(await token_url(), client_secret=secret, **more)
        equal(token['token_type'], 'Bearer')
    narrow = OAuth2Session(client=BackendApplicationClient(client_id=client, scope=['read']))
    equal(narrow.fetch_token(await token_url(), client_secret=secret)['scope'], ['read'])
    for scope, secret, wanted in (
        (['admin'], secret, InvalidScopeError),
        (['read'], 'wrong', InvalidClientError),
    ):
        wide = OAuth2Session(client=BackendApplicationClient(client_id=client, scope=scope))
        try:
            wide.fetch_token(await token_url(), client_secret=secret)
        except wanted:
            continue
        raise AssertionError(f'no {wanted.__name__}')


class Connected:
    """The SDK on an HTTP client that sends a token."""

    def __init__(self, client, secret, **config):
        self.oauth = AsyncOAuth2Client(client, secret, timeout=20)
        self.config = config

    async def __aenter__(self):
        await self.oauth.fetch_token(await token_url(), grant_type='client_credentials')
        self.http = httpx.AsyncClient(auth=self.oauth.token_auth, timeout=20)
        config = ClientConfig(httpx_client=self.http, **self.config)
        self.client = await create_client(URL, config)
        return self

    async def __aexit__(self, *_):
        await self.oauth.aclose()
        await self.http.aclose()

    async def events(self, text):
        message = Message(
            message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)]
        )
        request = SendMessageRequest(message=message, configuration=SendMessageConfiguration())
        return [event async for event in self.client.send_message(request)]


async def the_sdk_works_with_a_token():
    async with Connected(*registered()) as c:
        events = await c.events('say hello')
        states = [e.status_update.status.state for e in events if e.HasField('status_update')]
        equal(states[-1], TaskState.TASK_STATE_COMPLETED)
        task = next(e.task.id for e in events if e.HasField('task'))
        equal((await c.client.get_task(GetTaskRequest(id=task))).id, task)
    async with Connected(*registered(), streaming=False) as c:
        (event,) = await c.events('say hello')
        equal(event.task.status.state, TaskState.TASK_STATE_COMPLETED)


async def without_a_token_nobody_gets_in():
    async with httpx.AsyncClient(timeout=20) as http:
        client = await create_client(URL, ClientConfig(httpx_client=http))
        error = await refused(client.list_tasks(ListTasksRequest()), A2AClientError)
        equal('401' in str(error), True)


async def a_client_that_is_revoked_is_out_at_once():
    client, secret = registered()
    async with Connected(client, secret) as c:
        await c.client.list_tasks(ListTasksRequest())
        loggia('clients', 'rotate-keys')
        await c.client.list_tasks(ListTasksRequest())
        loggia('clients', 'revoke', client)
        error = await refused(c.client.list_tasks(ListTasksRequest()), A2AClientError)
        equal('401' in str(error), True)


run(
    'oauth',
    [
        the_card_says_how_to_get_a_token,
        authlib_gets_a_token_in_both_ways,
        authlib_is_told_what_is_wrong,
        requests_oauthlib_gets_a_token,
        the_sdk_works_with_a_token,
        without_a_token_nobody_gets_in,
        a_client_that_is_revoked_is_out_at_once,
    ],
)
