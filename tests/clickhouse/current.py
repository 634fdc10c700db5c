"""The suite over a current ClickHouse, in process; see front.py."""
import os
import subprocess
import sys

from database import free_ports
from harness import check, skip, temporary

here = os.path.dirname(os.path.abspath(__file__))


def python_with_chdb():
    """KILN_CHDB_PYTHON, or this Python if it has the package."""
    for python in (os.environ.get('KILN_CHDB_PYTHON'), sys.executable):
        if python and subprocess.run([python, '-c', 'import chdb'], capture_output=True).returncode == 0:
            return python
    return None


def current(build):
    python = python_with_chdb()
    if not python:
        return skip('no chdb for statements of a current ClickHouse (pip install chdb-core, then KILN_CHDB_PYTHON=...)')
    with temporary() as folder:
        port = free_ports(1)[0]
        front = subprocess.Popen([python, os.path.join(here, 'front.py'), str(port), folder], stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True)
        try:
            version = front.stdout.readline().split()
            check('chdb starts', len(version) == 2, version)
            print('ClickHouse', version[-1], 'in process', flush=True)
            env = {**os.environ, 'KILN_TEST_CLICKHOUSE': f'clickhouse://default@127.0.0.1:{port}'}
            for command in [os.path.join(build, 'tests/unit/test_store')], [os.path.join(os.path.dirname(here), 'server/run'), os.path.join(build, 'kiln')]:
                r = subprocess.run(command, env=env, capture_output=True, text=True)
                check(f'{os.path.basename(command[0])} over {version[-1]}', r.returncode == 0, (r.stdout + r.stderr)[-1500:])
            with open(os.path.join(folder, 'statements')) as file:
                lines = file.read().splitlines()
            errors = [line for line in lines if line.startswith('ERROR')]
            check('no statement is refused', not errors, errors[:2])
            print(f'{len(lines)} statements', flush=True)
        finally:
            front.kill()
            front.wait()
