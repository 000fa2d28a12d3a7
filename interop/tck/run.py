#!/usr/bin/env python3
"""Runs the A2A project's conformance kits against a Loggia binary: run.py BINARY KIT…

KIT is a checkout of a2a-tck, branch 0.3.x or 1.0-dev, in which the kit's own tests can run: with its
dependencies installed in KIT/.venv, or in the Python given with --python. Each pass gets a fresh
server, home and workspace. Known failures are in waivers.toml; any other failure, and a waiver that is
no longer needed, is an error.
"""

import argparse
import collections
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import tomllib
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
# Seconds; for one pass.
TIME_LIMIT = 600

# Tests of a binding that is not the one of the pass; the kit skips them.
OTHER_BINDING = r'Test specific to [\w+-]+ transport|(gRPC|REST) client implementation required'

# A reduced server has no optional features.
Pass = collections.namedtuple('Pass', 'name model hook token reduced tests options')

# The first needs its token after it has sent wrong ones; together they are rate-limited.
AUTHENTICATION = [
    'security/test_in_task_authentication.py',
    'authentication',
    'protocol/test_extended_agent_card.py',
    'security/test_agent_card_security.py',
]
TOKEN = 'known-to-the-kit-for-one-pass-only'

REDUCED = '[server]\nstreaming = false\npush = false\nextended_card = false\n'


def passes_of(kit):
    """The version that a checkout tests, and the tests to run."""
    if (kit / 'tests/compatibility').is_dir():

        def one(name, token=False, reduced=False):
            tests = ['tests/compatibility']
            return Pass(name, 'model-1.0.toml', True, token, reduced, tests, [])

        passes = [
            one('1.0'),
            one('1.0 reduced', reduced=True),
            one('1.0 with tokens', token=True),
        ]
        return '1.0', passes, ['--sut-host', '{url}/a2a/1.0']
    if (kit / 'tests/mandatory').is_dir():
        # The selection of the kit's own runner: the first kind is about JSON-RPC only.
        mandatory = ['-m', 'mandatory_jsonrpc or mandatory_protocol']
        protocol = ['-m', 'mandatory_protocol']
        optional = 'tests/optional/'

        def one(name, tests, options=(), over='jsonrpc', token=False, reduced=False):
            options = [*options, '--transports', over]
            model = 'model-0.3-asking.toml' if over == 'grpc' else 'model-0.3.toml'
            return Pass(f'0.3 {name}', model, False, token, reduced, tests, options)

        equivalence = ['-m', 'transport_equivalence', '--transport-strategy', 'all_supported']
        # The tests of authentication, which the kit's own runner leaves out.
        authentication = [f'tests/mandatory/{name}' for name in AUTHENTICATION]

        def whole(name, **server):
            """All tests of the kit for one kind of server."""
            yield one(f'mandatory{name}', ['tests/mandatory'], mandatory, **server)
            for over, binding in (('grpc', 'gRPC'), ('rest', 'HTTP+JSON')):
                yield one(f'mandatory{name}, {binding}', ['tests/mandatory'], protocol, over, **server)
            yield one(f'capabilities{name}', [optional + 'capabilities'], **server)
            for over, binding in (('grpc', 'gRPC'), ('rest', 'HTTP+JSON')):
                tests = [optional + 'capabilities']
                yield one(f'capabilities{name}, {binding}', tests, over=over, **server)
            tests = [optional + 'multi_transport']
            yield one(f'equivalence{name}', tests, equivalence, 'jsonrpc,grpc,rest', **server)
            yield one(f'quality{name}', [optional + 'quality'], **server)
            yield one(f'features{name}', [optional + 'features'], **server)

        passes = [
            *whole(''),
            one('reduced', ['tests/mandatory'], mandatory, reduced=True),
            one('reduced, gRPC', ['tests/mandatory'], protocol, over='grpc', reduced=True),
            one('reduced, HTTP+JSON', ['tests/mandatory'], protocol, over='rest', reduced=True),
            *whole(' with tokens', token=True),
            one('authentication with tokens', authentication, token=True),
        ]
        return '0.3', passes, ['--sut-url', '{url}/', '--test-scope', 'all']
    sys.exit(f'{kit} is no checkout of a2a-tck, branch 0.3.x or 1.0-dev')


def start(binary, root, one):
    """Starts a server; returns it and its address."""
    home, work = root / 'home', root / 'work'
    work.mkdir()
    (home / 'config').mkdir(parents=True)
    with socket.create_server(('127.0.0.1', 0)) as free:
        port = free.getsockname()[1]
    arguments = ['--port', str(port), '--approve', 'all', '--model', f'scripted:{HERE / one.model}']
    # The 0.3 kit accepts a gRPC address only as a URL.
    arguments += ['--grpc-url-0.3', f'http://localhost:{port}']
    config = REDUCED if one.reduced else ''
    if one.hook:
        config += f'[hooks]\nprompt_submit = ["{sys.executable}", "{HERE / "hook.py"}"]\n'
    (home / 'config/config.toml').write_text(config)
    if one.token:
        tokens = root / 'tokens'
        tokens.touch(mode=0o600)
        tokens.write_text(f'kit:{TOKEN}\n')
        arguments += ['--token-file', tokens, '--require-token']
    kept = {key: os.environ[key] for key in ('PATH', 'LANG') if key in os.environ}
    environment = kept | {'HOME': str(root), 'LOGGIA_HOME': str(home), 'TERM': 'dumb'}
    errors = open(root / 'stderr', 'w')
    server = subprocess.Popen(
        [binary, 'serve', *arguments],
        cwd=work,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )
    line = server.stdout.readline()
    port = re.search(r'http://127\.0\.0\.1:(\d+)', line)
    if not port:
        server.kill()
        sys.exit(f'the server did not start: {line}{(root / "stderr").read_text()}')
    threading.Thread(target=server.stdout.read, daemon=True).start()
    return server, f'http://localhost:{port.group(1)}'


def run(binary, kit, python, one, shared):
    """Runs one pass; returns the name, the outcome and the message of each test."""
    with tempfile.TemporaryDirectory(prefix='loggia-tck-') as root:
        root = pathlib.Path(root)
        server, url = start(binary, root, one)
        report = root / 'report.xml'
        shared = [word.replace('{url}', url) for word in shared]
        quiet = ['-q', '--tb=short', '-p', 'no:cacheprovider', '-W', 'ignore']
        command = [python, '-B', '-m', 'pytest', *one.tests, *one.options, *shared, *quiet]
        environment = os.environ | {'TCK_STREAMING_TIMEOUT': '5.0'}
        if one.token:
            command += ['-p', 'credentials']
            environment |= {'PYTHONPATH': str(HERE), 'TCK_TOKEN': TOKEN, 'TCK_SERVER': url}
        try:
            ran = subprocess.run(
                [*command, f'--junitxml={report}'],
                cwd=kit,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=TIME_LIMIT,
                check=False,
            )
            if not report.exists():
                sys.exit(f'the kit did not run:\n{ran.stdout}')
            if server.poll() is not None:
                sys.exit(f'the server ended with {server.returncode}')
            return list(outcomes(report))
        finally:
            server.kill()
            server.wait()


def outcomes(report):
    for case in xml.etree.ElementTree.parse(report).iter('testcase'):
        module = case.get('classname').removeprefix('tests.').replace('.', '/')
        name = f'{module}::{case.get("name")}'
        found = {child.tag: child for child in case}
        if bad := [found[tag] for tag in ('failure', 'error') if tag in found]:
            yield name, 'failed', bad[0].get('message', '')
        elif 'skipped' in found:
            words = found['skipped'].get('message', '')
            expected = found['skipped'].get('type') == 'pytest.xfail'
            other = re.search(OTHER_BINDING, f'{name} {words}')
            yield name, 'xfailed' if expected else 'other' if other else 'skipped', words
        else:
            yield name, 'passed', ''


def unfounded(version, kit, waivers):
    """Prints the statements of waivers about the kit that are wrong; returns how many there are."""
    wrong = 0
    for waiver in waivers:
        for shown in waiver.get('shown', []) if waiver['kit'] == version else []:
            place, words = shown.split(' ', 1)
            path, line = place.rsplit(':', 1)
            lines = (kit / path).read_text().splitlines()
            if words not in ''.join(lines[int(line) - 1 : int(line)]):
                wrong += 1
                print(f'NOT SO {shown}')
    return wrong


def judge(version, results, waivers, whole):
    """Prints the failures that are not in the waivers; returns how many there are."""
    wrong = 0
    used = set()
    for name, outcome, words in results:
        if outcome in ('passed', 'other'):
            continue
        for at, waiver in enumerate(waivers):
            by_name = re.search(waiver.get('test', ''), name)
            by_words = re.search(waiver.get('says', ''), words)
            if waiver['kit'] == version and outcome in waiver['outcomes'] and by_name and by_words:
                used.add(at)
                break
        else:
            wrong += 1
            print(f'{outcome.upper()} {name}\n    {words.strip()[:600]}')
    for at, waiver in enumerate(waivers):
        if whole and waiver['kit'] == version and at not in used:
            wrong += 1
            print(f'NOT NEEDED waiver {waiver.get("test", "")} {waiver.get("says", "")}')
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('binary', type=pathlib.Path)
    parser.add_argument('kits', nargs='+', type=pathlib.Path, metavar='KIT')
    parser.add_argument('--python', type=pathlib.Path, help='with the dependencies of the kits')
    parser.add_argument('--only', default='', metavar='WORDS', help='passes with these in their name')
    arguments = parser.parse_args()
    binary = arguments.binary.resolve()
    waivers = tomllib.loads((HERE / 'waivers.toml').read_text())['waiver']
    wrong = 0
    lines = []
    for kit in arguments.kits:
        kit = kit.resolve()
        version, passes, shared = passes_of(kit)
        python = arguments.python or kit / '.venv/bin/python'
        if not python.exists():
            parser.error(f'there is no {python}: install the kit as its README says')
        wrong += unfounded(version, kit, waivers)
        results = []
        for one in passes:
            if not re.search(arguments.only, one.name):
                continue
            ran = run(binary, kit, python.absolute(), one, shared)
            count = collections.Counter(outcome for _, outcome, _ in ran)
            cells = [str(count[word]) for word in ('passed', 'failed', 'xfailed', 'skipped', 'other')]
            lines.append(f'| {one.name} | {" | ".join(cells)} |')
            results += ran
        wrong += judge(version, results, waivers, not arguments.only)
    print('| pass | passed | failed | expected failures | skipped | other bindings |')
    print('|---|---|---|---|---|---|')
    print('\n'.join(lines))
    print(f'{wrong} not waived' if wrong else 'everything else is waived, with its reason')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
