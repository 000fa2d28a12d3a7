"""Installs clients at pinned versions under target/interop/, each once."""

import hashlib
import pathlib
import shutil
import subprocess
import sys

INSTALLED = pathlib.Path(__file__).resolve().parent.parent / 'target' / 'interop'


def install(name, inputs, command_of):
    """Installs into a separate directory, once for each content of `inputs`."""
    directory = INSTALLED / name
    stamp = directory / 'installed'
    wanted = hashlib.sha256(b'\0'.join(path.read_bytes() for path in inputs)).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        for command in command_of(directory):
            subprocess.run(command, cwd=directory, check=True)
        stamp.write_text(wanted)
    return directory


def python(name, requirements, complete=True):
    """The interpreter of a virtual environment. `complete`: all declared dependencies are installed."""

    def commands(directory):
        yield [sys.executable, '-m', 'venv', 'venv']
        pip = [directory / 'venv/bin/python', '-m', 'pip', '--disable-pip-version-check']
        yield [*pip, 'install', '--quiet', '--no-deps', '--requirement', requirements]
        if complete:
            yield [*pip, 'check']

    return install(name, [requirements], commands) / 'venv/bin/python'


def npm(name, source):
    """The directory in which the packages of `source` are installed."""
    inputs = [source / 'package.json', source / 'package-lock.json']

    def commands(directory):
        for path in inputs:
            shutil.copy(path, directory)
        if (source / 'unused').exists():
            shutil.copytree(source / 'unused', directory / 'unused')
        yield ['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']

    return install(name, inputs, commands)
