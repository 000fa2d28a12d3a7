#!/usr/bin/env python3
"""Runs the vendors' clients and three agents against the fakes: run_vendors.py BINARY [CLIENT…].

Installs each client at its pinned version under target/interop/, starts `loggia-fake-vendors` with its
script, and counts the results of its checks. An agent does one task; the checks look at the file that it
edits and at its requests.
"""

import argparse
import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

sys.dont_write_bytecode = True
import install

HERE = pathlib.Path(__file__).resolve().parent
# Seconds; no client takes a tenth of this.
TIME_LIMIT = 120
PROMPT = 'Correct the spelling in greeting.txt.'
WRONG, RIGHT = 'Hello, wrld.\n', 'Hello, world.\n'
# The calls of an agent's script read the file, count its lines, edit it and read it again.
RESULTS = ['Hello, wrld.', 'lines: 1', 'Hello, world.']
ANSWER = 'The greeting is correct.'


class Fake:
    """A running `loggia-fake-vendors`. Ends with the `with` block."""

    def __init__(self, binary, script):
        self.process = subprocess.Popen([binary, script], stdout=subprocess.PIPE, text=True)
        self.base = self.process.stdout.readline().strip()
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def requests(self):
        """All requests so far. One more request, to no vendor, marks the end."""
        try:
            urllib.request.urlopen(f'{self.base}/end')
        except urllib.error.HTTPError:
            pass
        requests = []
        while (request := json.loads(self.lines.get(timeout=TIME_LIMIT)))['vendor'] != 'end':
            requests.append(request)
        return requests


def ran(command, given, work, root):
    """The exit code, standard output and standard error of a command, which sees nothing of our own settings."""
    kept = {key: os.environ[key] for key in ('PATH', 'LANG') if key in os.environ}
    fresh = {'HOME': str(root / 'home'), 'TMPDIR': str(root), 'TERM': 'dumb'}
    with open(root / 'stdout', 'w') as output, open(root / 'stderr', 'w') as errors:
        try:
            code = subprocess.run(
                command,
                cwd=work,
                env=kept | fresh | given,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                timeout=TIME_LIMIT,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            code = f'no exit within {TIME_LIMIT} s'
    return code, (root / 'stdout').read_text(), (root / 'stderr').read_text()


def sdk(name, requirements):
    """The checks in vendors/NAME.py with the fake's script vendors/NAME.json."""
    wanted = HERE / 'vendors' / f'requirements-{requirements}.txt'

    def run(binary, root):
        interpreter = install.python(f'vendor-{requirements}', wanted)
        with Fake(binary, HERE / 'vendors' / f'{name}.json') as fake:
            command = [interpreter, '-B', HERE / 'vendors' / f'{name}.py', fake.base]
            code, output, errors = ran(command, {}, root, root)
        lines = output.splitlines()
        if code != 0 and not any(line.startswith('FAIL ') for line in lines):
            said = errors.strip()[-2000:].replace('\n', ' | ')
            lines.append(f'FAIL {name}: ended with {code}: {said}')
        return lines

    return run


def claude(installed, base, home):
    """Claude Code. Its program is in a package of the platform; it needs no Node."""
    [program] = installed.glob('node_modules/@anthropic-ai/claude-code-*/claude')
    options = ['--model', 'claude-opus-5-5', '--output-format', 'json', '--allowedTools', 'Bash,Read,Edit']
    return [program, '-p', *options, '--', PROMPT], {
        'ANTHROPIC_BASE_URL': f'{base}/anthropic',
        'ANTHROPIC_API_KEY': 'sk-ant-fake',
        'CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC': '1',
        'DISABLE_AUTOUPDATER': '1',
    }


def gemini(installed, base, home):
    settings = home / '.gemini' / 'settings.json'
    settings.parent.mkdir()
    settings.write_text(
        json.dumps(
            {
                'security': {'auth': {'selectedType': 'gemini-api-key'}},
                'general': {'enableAutoUpdate': False, 'enableAutoUpdateNotification': False},
                'privacy': {'usageStatisticsEnabled': False},
            }
        )
    )
    program = installed / 'node_modules/.bin/gemini'
    return [program, '-m', 'gemini-3.1-pro-preview', '-y', '-o', 'json', '-p', PROMPT], {
        'GOOGLE_GEMINI_BASE_URL': f'{base}/gemini',
        'GEMINI_API_KEY': 'fake',
        # Without these it starts itself again, and asks whether it may work here.
        'GEMINI_CLI_NO_RELAUNCH': 'true',
        'GEMINI_CLI_TRUST_WORKSPACE': 'true',
    }


def codex(installed, base, home):
    settings = home / '.codex' / 'config.toml'
    settings.parent.mkdir()
    # A model that it does not know gets ordinary tools.
    settings.write_text(
        f"""
model = "fake-model"
model_provider = "fake"
check_for_update_on_startup = false
# Otherwise it fetches a list of plugins from GitHub.
[features]
plugins = false
[analytics]
enabled = false
[model_providers.fake]
name = "fake"
base_url = "{base}/openai/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
requires_openai_auth = false
"""
    )
    program = installed / 'node_modules/.bin/codex'
    # Its own sandbox does not work in every container.
    options = ['--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', '--json']
    return [program, 'exec', *options, PROMPT], {'FAKE_KEY': 'sk-fake'}


def agent(name, command_of, thought):
    """One task of an agent. `thought`: a part of its requests for each reply with thoughts."""
    source = HERE / 'agents' / name

    def run(binary, root):
        installed = install.npm(f'agent-{name}', source)
        home, work = root / 'home', root / 'work'
        home.mkdir()
        work.mkdir()
        greeting, script = work / 'greeting.txt', root / 'script.json'
        greeting.write_text(WRONG)
        script.write_text((source / 'script.json').read_text().replace('WORKSPACE', str(work)))
        with Fake(binary, script) as fake:
            command, given = command_of(installed, fake.base, home)
            code, output, errors = ran(command, given, work, root)
            requests = fake.requests()
        refused = [request['refusal'] or request['path'] for request in requests if request['status'] >= 400]
        last = json.dumps(requests[-1]['body'] if requests else None)
        told = [result for result in RESULTS if result not in last]
        thoughts = last.count(thought)
        checks = {
            'it does the task': (
                code == 0 and ANSWER in output and greeting.read_text() == RIGHT,
                f'{code}, {greeting.read_text()!r}, {output[-1000:]}, {errors[-2000:]}',
            ),
            'no request is refused': (bool(requests) and not refused, refused),
            'it gives thoughts, parallel calls and results back': (
                not told and thoughts == 3,
                f'{thoughts} replies with thoughts; not told: {told}',
            ),
        }
        return [
            f'ok   {name}: {check}' if good else f'FAIL {name}: {check}: {why}'.replace('\n', ' | ')
            for check, (good, why) in checks.items()
        ]

    return run


CLIENTS = {
    'anthropic-2.8.0': sdk('anthropic', 'anthropic'),
    'openai-3.49.0': sdk('openai', 'openai'),
    'openai-chat-3.49.0': sdk('chat', 'openai'),
    'google-genai-3.1.0': sdk('gemini', 'gemini'),
    'ollama-0.6.3': sdk('ollama', 'ollama'),
    'claude-code-2.1.325': agent('claude', claude, '"type": "thinking"'),
    'gemini-cli-0.61.0': agent('gemini', gemini, '"thoughtSignature"'),
    'codex-0.166.0': agent('codex', codex, '"encrypted_content"'),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('binary', type=pathlib.Path)
    parser.add_argument('clients', nargs='*', metavar='CLIENT', help=', '.join(CLIENTS))
    arguments = parser.parse_args()
    if unknown := set(arguments.clients) - set(CLIENTS):
        parser.error(f'no such client: {", ".join(unknown)}')
    passed = failed = 0
    for name in arguments.clients or CLIENTS:
        begun = time.monotonic()
        # An agent may still write to its home.
        with tempfile.TemporaryDirectory(prefix='loggia-interop-', ignore_cleanup_errors=True) as root:
            lines = CLIENTS[name](arguments.binary.resolve(), pathlib.Path(root))
        good = sum(line.startswith('ok ') for line in lines)
        bad = sum(line.startswith('FAIL ') for line in lines)
        if good + bad == 0:
            lines.append(f'FAIL {name}: no checks')
            bad = 1
        print('\n'.join(lines))
        print(f'     {name}: {time.monotonic() - begun:.1f} s', flush=True)
        passed, failed = passed + good, failed + bad
    print(f'{passed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
