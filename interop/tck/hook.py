#!/usr/bin/env python3
"""The prompt hook for the 1.0 kit, which encodes the expected behaviour in the ids of its messages.

Answers or rejects such messages. For any other message that begins a task it adds the id to the text, so
that the model sees it. A message to an existing task stays as it is.
"""

import json
import sys

message = json.load(sys.stdin)
name = message['id'] or ''
if name.startswith('tck-message-response'):
    decision = {'decision': 'answer', 'text': 'Direct message response'}
elif name.startswith('tck-reject-task'):
    decision = {'decision': 'reject', 'reason': 'rejected'}
elif message['task'] is None:
    decision = {'decision': 'rewrite', 'text': f'{name}\n{message["text"]}'}
else:
    decision = {'decision': 'pass'}
json.dump(decision, sys.stdout)
