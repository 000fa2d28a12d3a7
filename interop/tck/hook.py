#!/usr/bin/env python3
"""The prompt hook for the 1.0 kit, which says in the ids of its messages what it would like to see.

Answers and rejects where that is asked for, and otherwise shows the model the id of a message that
begins a task. A message to a task stays as it is.
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
