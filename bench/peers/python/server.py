"""The trivial agent on a2a-sdk, as its documentation has it: server.py [--sqlite] PORT.

Tasks are kept in memory, or with --sqlite in tasks.db of the current directory. The SDK's SQL store
has no settings for SQLite, so SQLite's own defaults apply: a rollback journal, synchronous=FULL.
"""

import asyncio
import sys

import uvicorn

from a2a.helpers.proto_helpers import new_task
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes.agent_card_routes import create_agent_card_routes
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.server.tasks import DatabaseTaskStore, InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part, TaskState
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette

PORT = int(sys.argv[-1])
SQLITE = '--sqlite' in sys.argv


class Agent(AgentExecutor):
    def __init__(self):
        self.released = asyncio.Event()

    async def execute(self, context, event_queue):
        state = TaskState.TASK_STATE_SUBMITTED
        task = new_task(context.task_id, context.context_id, state, history=[context.message])
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()
        match context.get_user_input().split():
            case ['burst', count]:
                await self.released.wait()
                for number in range(int(count)):
                    await updater.add_artifact([Part(text=f'line {number}')], name='line')
            case ['release']:
                self.released.set()
            case _:
                await updater.add_artifact([Part(text='hi')], name='answer')
        await updater.complete()

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


card = AgentCard(
    name='peer',
    description='The trivial agent.',
    version='1.0.0',
    supported_interfaces=[
        AgentInterface(
            url=f'http://127.0.0.1:{PORT}/', protocol_binding='JSONRPC', protocol_version='1.0'
        )
    ],
    capabilities=AgentCapabilities(streaming=True),
    default_input_modes=['text/plain'],
    default_output_modes=['text/plain'],
    skills=[AgentSkill(id='say', name='Say', description='Says hi.', tags=['say'])],
)
if SQLITE:
    store = DatabaseTaskStore(create_async_engine('sqlite+aiosqlite:///tasks.db'))
else:
    store = InMemoryTaskStore()
requests = DefaultRequestHandler(agent_executor=Agent(), task_store=store, agent_card=card)
routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(requests, '/')]
uvicorn.run(Starlette(routes=routes), host='127.0.0.1', port=PORT, log_level='warning')
