#!/usr/bin/env python3
"""Runs the official A2A clients against a Loggia binary: run.py BINARY [CLIENT…].

Installs each client at its pinned version under target/interop/, starts a server with a fresh home
and workspace for it, and counts the results of its checks.
"""

import argparse
import os
import pathlib
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
import install

HERE = pathlib.Path(__file__).resolve().parent
# Seconds; no client takes a tenth of this.
TIME_LIMIT = 300


def python(version, script, complete=True):
    """`complete`: all declared dependencies are installed, used or not."""
    requirements = HERE / 'python' / f'requirements-{version}.txt'
    interpreter = install.python(f'python-{version}', requirements, complete)
    return [interpreter, '-B', HERE / 'python' / script]


def js(name):
    source = HERE / 'js' / name
    directory = install.npm(f'js-{name}', source)
    # Packages are resolved from the directory of the script.
    for path in [*(HERE / 'js').glob('*.mjs'), *source.glob('*.mjs')]:
        shutil.copy(path, directory)
    return ['node', directory / 'test.mjs']


def command_line(version):
    """The official command line, built once; the registry has its source only."""

    def commands(directory):
        yield [
            *('cargo', 'install', 'a2a-cli', '--version', version, '--locked', '--debug'),
            *('--root', directory, '--target-dir', directory / 'build'),
            *('--config', 'profile.dev.debug=false'),
        ]
        # Build files of half a gigabyte, not needed again.
        yield ['rm', '-r', directory / 'build']

    script = HERE / 'cli' / 'test_cli.py'
    directory = install.install(f'a2acli-{version}', [], commands)
    return [sys.executable, '-B', script, directory / 'bin/a2acli']


BINDINGS = ['JSONRPC', 'HTTP+JSON', 'GRPC']
# The function that installs a client and returns its command, and the bindings to test.
CLIENTS = {
    'python-1.3.0': (lambda: python('1.3.0', 'test_v1.py'), BINDINGS),
    'python-0.3.26': (lambda: python('0.3.26', 'test_v03.py'), BINDINGS),
    'js-1.3.0': (lambda: js('v1'), BINDINGS),
    'js-0.3.14': (lambda: js('v03'), BINDINGS),
    'gemini-0.61.0': (lambda: js('gemini'), ['JSONRPC']),
    # Its model and server libraries are not installed: no check loads them.
    'python-a2a-0.5.10': (
        lambda: python('a2a-0.5.10', 'test_tasks.py', complete=False),
        ['JSONRPC'],
    ),
    'oauth': (lambda: python('oauth', 'test_oauth.py'), ['JSONRPC']),
    'a2acli-0.4.5': (lambda: command_line('0.4.5'), ['JSONRPC', 'HTTP+JSON']),
}
# Clients that accept a custom certificate authority; their checks open gRPC channels without TLS.
SDKS = ['python-1.3.0', 'python-0.3.26', 'js-1.3.0', 'js-0.3.14']
# The preparation of a client before its server starts, and flags of that server.
BEFORE = {'oauth': ['clients', 'add', 'before', '--json']}
FLAGS = {'oauth': ['--require-token']}
# Clients of the task service have their own sessions, and authenticate.
SERVED = {'python-a2a-0.5.10'}


def with_token(root):
    """Arguments for a server of many sessions, and the token of its client."""
    tokens, token = root / 'tokens', secrets.token_hex(16)
    tokens.touch(mode=0o600)
    tokens.write_text(f'interop:{token}\n')
    return ['serve', '--port', '0', '--token-file', str(tokens)], token


def certificate(root):
    """Arguments for a server with TLS, and the environment in which clients trust its certificate."""
    cert, key = str(root / 'server.pem'), str(root / 'server.key')
    subprocess.run(
        [
            *('openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256'),
            *('-noenc', '-days', '1', '-keyout', key, '-out', cert, '-subj', '/CN=localhost'),
            *('-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'),
            *('-addext', 'basicConstraints=critical,CA:FALSE'),
        ],
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return ['--tls-cert', cert, '--tls-key', key], {'SSL_CERT_FILE': cert, 'NODE_EXTRA_CA_CERTS': cert}


def served(name, binary, root, test, binding, tls):
    """Starts a server, runs the test against it; returns the test's lines and exit code."""
    arguments, token = ['--a2a-port', '0', *FLAGS.get(name, [])], ''
    if name in SERVED:
        arguments, token = with_token(root)
    more, believed = certificate(root) if tls else ([], {})
    arguments += more
    home, work = root / 'home', root / 'work'
    work.mkdir()
    kept = {key: os.environ[key] for key in ('PATH', 'LANG') if key in os.environ}
    environment = kept | {'HOME': str(root), 'LOGGIA_HOME': str(home), 'TERM': 'dumb'}
    if name in BEFORE:
        command = [binary, *BEFORE[name]]
        subprocess.run(command, cwd=work, env=environment, stdout=subprocess.DEVNULL, check=True)
    with open(root / 'stderr', 'w') as errors:
        server = subprocess.Popen(
            [binary, *arguments],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        line = server.stdout.readline()
        where = re.search(r'https?://127\.0\.0\.1:\d+', line)
        if not where:
            said = (root / 'stderr').read_text()
            return [f'FAIL the server did not start: {line}{said}'], 1
        threading.Thread(target=server.stdout.read, daemon=True).start()
        command = [*test, where.group(), work, binding]
        # For checks that authenticate, and for checks that change the server's clients.
        given = {'LOGGIA_TOKEN': token, 'LOGGIA_BINARY': str(binary), 'LOGGIA_HOME': str(home)}
        try:
            ran = subprocess.run(
                command,
                env=os.environ | given | believed,
                stdout=subprocess.PIPE,
                text=True,
                timeout=TIME_LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            lines = (late.stdout or b'').decode().splitlines()
            return [*lines, f'FAIL it took longer than {TIME_LIMIT} s'], 1
        lines = ran.stdout.splitlines()
        if server.poll() is not None:
            said = (root / 'stderr').read_text().strip().replace('\n', ' | ')
            lines.append(f'FAIL the server ended with {server.returncode}: {said}')
        return lines, ran.returncode
    finally:
        server.kill()
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('binary', type=pathlib.Path)
    parser.add_argument('clients', nargs='*', metavar='CLIENT', help=', '.join(CLIENTS))
    parser.add_argument(
        '--tls', action='store_true', help='over https: the SDKs, by JSON-RPC and HTTP+JSON'
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.clients) - set(CLIENTS):
        parser.error(f'no such client: {", ".join(unknown)}')
    passed = failed = 0
    chosen = [(name, binding) for name in arguments.clients or CLIENTS for binding in CLIENTS[name][1]]
    if arguments.tls:
        chosen = [(name, binding) for name, binding in chosen if name in SDKS and binding != 'GRPC']
    for name, binding in chosen:
        test = CLIENTS[name][0]()
        with tempfile.TemporaryDirectory(prefix='loggia-interop-') as root:
            binary = arguments.binary.resolve()
            lines, code = served(name, binary, pathlib.Path(root), test, binding, arguments.tls)
        good = sum(line.startswith('ok ') for line in lines)
        bad = sum(line.startswith('FAIL ') for line in lines)
        if bad == 0 and (code != 0 or good == 0):
            lines.append(f'FAIL {name} {binding}: ended with {code} after {good} checks')
            bad = 1
        print('\n'.join(lines), flush=True)
        passed, failed = passed + good, failed + bad
    print(f'{passed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
