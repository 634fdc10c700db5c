"""The suite over a current ClickHouse, in process; see front.py. Without KILN_LONG_TESTS=1 only the store's tests: they
send the statements that the server's tests send."""
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from database import free_ports
from harness import Server, check, cpu_profile, same, skip, temporary, until

here = os.path.dirname(os.path.abspath(__file__))


PACKAGE = 'chdb-core==26.9.0'


def install(build):
    """An environment in which Python finds the package, in BUILD/chdb; None if it is not available."""
    target = os.path.join(build, 'chdb', PACKAGE)
    environment = {**os.environ, 'PYTHONPATH': target}
    if os.path.exists(os.path.join(target, 'chdb')):
        return environment
    got = subprocess.run([sys.executable, '-m', 'pip', 'install', '-q', '--target', target, '--no-cache-dir',
                          '--disable-pip-version-check', PACKAGE], capture_output=True, text=True)
    if got.returncode:
        last = (got.stderr.strip().splitlines() or ['pip fails'])[-1]
        return skip(f'no {PACKAGE}, statements of a current ClickHouse are not tried: {last}')
    return environment


def both(build, env, name, server=True):
    """Everything that the embedded store passes, at the same time."""
    commands = [[os.path.join(build, 'tests/unit', test)] for test in ('test_store', 'test_weights')]
    if server:
        commands.append([os.path.join(os.path.dirname(here), 'server/run'), os.path.join(build, 'kiln')])
    running = [(command, subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
               for command in commands]
    with ThreadPoolExecutor(len(running)) as pool:
        outputs = list(pool.map(lambda r: r[1].communicate()[0], running))
    for (command, process), output in zip(running, outputs):
        check(os.path.basename(command[0]) + name, process.returncode == 0, output[-1500:])


def many_days(build, url):
    """A batch of more days than such a ClickHouse takes in one block by default."""
    labels, now = {'__name__': 'process_cpu', 'service_name': 'x'}, int(time.time())
    with temporary() as folder:
        s = Server(os.path.join(build, 'kiln'), folder, '--store', url + '/days', config='limits: {past: 0}\n')
        push = lambda k: s.push([(labels, cpu_profile({('main',): 1}, now - 86400 * day)) for day in range(40 * k, 40 * k + 40)]).status
        with ThreadPoolExecutor(4) as pool:
            same('pushes of 160 days', list(pool.map(push, range(4))), [200] * 4)
        total = lambda: s.flame('{}', (now - 86400 * 170) * 1000, now * 1000).get(('main',), [0])[0] // 10**7
        check('160 days are there', until(lambda: total() == 160, 30), s.log_text()[-500:])
        s.stop()


def current(build):
    with temporary() as folder:
        environment = install(build)
        if not environment:
            return
        port = free_ports(1)[0]
        front = subprocess.Popen([sys.executable, os.path.join(here, 'front.py'), str(port), folder],
                                 env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            version = front.stdout.readline().split()
            check('chdb starts', len(version) == 2, version)
            print('ClickHouse', version[-1], 'in process', flush=True)
            env = {**os.environ, 'KILN_TEST_CLICKHOUSE': f'clickhouse://default@127.0.0.1:{port}'}
            both(build, env, f' over {version[-1]}', bool(os.environ.get('KILN_LONG_TESTS')))
            many_days(build, env['KILN_TEST_CLICKHOUSE'])
            with open(os.path.join(folder, 'statements')) as file:
                lines = file.read().splitlines()
            errors = [line for line in lines if line.startswith('ERROR')]
            check('no statement is refused', not errors, errors[:2])
            print(f'{len(lines)} statements', flush=True)
        finally:
            front.kill()
            front.wait()
