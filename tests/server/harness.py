"""A real `kiln server` on a free port of this machine, and what asks it."""
import atexit
import base64
import gzip
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from pprof_writer import Profile, field, gzip_bomb, message, packed, varint  # noqa: F401 (for run)

CPU = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds'
passed = failed = skipped = 0


def check(what, holds, detail=''):
    global passed, failed
    if holds:
        passed += 1
    else:
        failed += 1
        print(f'FAIL {what}: {str(detail)[:600]}', flush=True)


def same(what, got, want):
    check(what, got == want, f'want {want}, got {got}')


def skip(why):
    global skipped
    skipped += 1
    print(f'skipped: {why}')


def finish():
    print(f'{passed} passed, {failed} failed, {skipped} skipped')
    sys.exit(1 if failed else 0)


def run_lanes(*lanes):
    """Runs each in a process of its own, at the same time: most of it waits."""
    global passed, failed, skipped
    running = []
    sys.stdout.flush()
    for lane in lanes:
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            run_lane(lane, write)
        os.close(write)
        running.append((pid, read))
    for pid, read in running:
        with os.fdopen(read) as counts:
            more = [int(n) for n in counts.read().split()]
        status = os.waitpid(pid, 0)[1]
        if status or len(more) != 3:
            more = [0, 1, 0]
            print('FAIL a part of the tests ended early', flush=True)
        passed, failed, skipped = passed + more[0], failed + more[1], skipped + more[2]


def run_lane(lane, write):
    global passed, failed, skipped
    passed = failed = skipped = 0
    status = 1
    try:
        lane()
        os.write(write, f'{passed} {failed} {skipped}'.encode())
        status = 0
    except BaseException:
        traceback.print_exc(file=sys.stdout)
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(status)


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def until(test, seconds=20):
    end = time.time() + seconds
    while time.time() < end:
        result = test()
        if result:
            return result
        time.sleep(0.05)
    return None


class Server:
    """options: further words of the command line; config: text of a file."""
    environment = None  # further variables, from the next start on

    def __init__(self, kiln, folder, *options, config=None, base='', tls=False):
        self.kiln, self.folder, self.base, self.tls = kiln, folder, base, tls
        self.port = free_port()
        self.options = list(options)
        # Every server with a database of its own, if tests/clickhouse says where.
        if os.environ.get('KILN_TEST_CLICKHOUSE') and '--store' not in options:
            self.options += ['--store', '%s/k%s' % (os.environ['KILN_TEST_CLICKHOUSE'],
                                                   os.path.basename(folder).replace('-', '_'))]
        if config is not None:
            self.config = os.path.join(folder, 'kiln.yaml')
            self.write(config)
            self.options += ['--config', self.config]
        self.process = None
        self.start()

    def write(self, config):
        with open(self.config, 'w') as file:
            file.write(config)

    def start(self):
        self.log = open(os.path.join(self.folder, 'log'), 'ab')
        self.process = subprocess.Popen(
            [self.kiln, 'server', '--listen', f'127.0.0.1:{self.port}', '--data',
             os.path.join(self.folder, 'data'), *self.options], stdout=subprocess.DEVNULL, stderr=self.log,
            env={**os.environ, **(self.environment or {})})
        atexit.register(self.process.kill)  # nothing is left behind when a test breaks
        ready = until(lambda: self.process.poll() is not None or self.answers())
        if not ready or self.process.poll() is not None:
            raise RuntimeError('the server does not start: ' + self.log_text())

    def answers(self):
        try:
            return self.ask('GET', '/ready').status == 200
        except OSError:
            return False

    def log_text(self):
        with open(os.path.join(self.folder, 'log')) as file:
            return file.read()

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        status = self.process.wait(30)
        self.log.close()
        return status

    def connection(self):
        if self.tls:
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            return http.client.HTTPSConnection('127.0.0.1', self.port, timeout=30, context=context)
        return http.client.HTTPConnection('127.0.0.1', self.port, timeout=30)

    def ask(self, method, path, body=None, headers=None, query=None):
        if query:
            path += '?' + urllib.parse.urlencode(query)
        c = self.connection()
        try:
            c.request(method, self.base + path, body, {'Accept-Encoding': 'identity', **(headers or {})})
            r = c.getresponse()
            r.data = r.read()
            r.plain = gzip.decompress(r.data) if r.getheader('Content-Encoding') == 'gzip' else r.data
            return r
        finally:
            c.close()

    def json(self, method, request, headers=None):
        """A method of the querier; its answer."""
        r = self.ask('POST', '/querier.v1.QuerierService/' + method, json.dumps(request).encode(),
                     {'Content-Type': 'application/json', **(headers or {})})
        if r.status != 200:
            raise RuntimeError(f'{method}: {r.status} {r.data[:300]}')
        return json.loads(r.plain)

    def push(self, series, encoding='proto', zipped=True, headers=None):
        """series: [({label: value}, bytes of a profile[, id])]"""
        if encoding == 'proto':
            body = b''
            for labels, profile, *rest in series:
                pairs = b''.join(field(1, message((1, k.encode()), (2, v.encode())))
                                 for k, v in labels.items())
                body += field(1, pairs + field(2, field(1, profile) + (
                    field(2, rest[0].encode()) if rest else b'')))
        else:
            body = json.dumps({'series': [{
                'labels': [{'name': k, 'value': v} for k, v in labels.items()],
                'samples': [{'rawProfile': base64.b64encode(profile).decode()}]}
                for labels, profile, *rest in series]}).encode()
        h = {'Content-Type': 'application/' + encoding, **(headers or {})}
        if zipped:
            body = gzip.compress(body)
            h['Content-Encoding'] = 'gzip'
        return self.ask('POST', '/push.v1.PusherService/Push', body, h)

    def flame(self, selector, start, end, kind=CPU, headers=None, **more):
        """{path: (total, self)}"""
        answer = self.json('SelectMergeStacktraces', {
            'profileTypeID': kind, 'labelSelector': selector, 'start': start, 'end': end, **more}, headers)
        return tree(answer['flamegraph'])


def tree(graph):
    """What a flame graph encodes."""
    names = graph['names']
    out, above = {}, None
    for level in graph['levels']:
        values = [int(v) for v in level.get('values', [])]
        x, bars = 0, []
        for i in range(0, len(values), 4):
            x += values[i]
            total, own, name = values[i + 1], values[i + 2], names[values[i + 3]]
            path = (name,)
            if above is not None:
                path = next(p for lo, hi, p in above if lo <= x and x + total <= hi) + path
            bars.append((x, x + total, path))
            out[path[1:]] = (total, own)
            x += total
        above = bars
    out.pop((), None)
    return out


def cpu_profile(stacks, time_s, labels=None):
    """stacks: {('root', ..., 'leaf'): samples at 100 Hz}; labels: {stack: [(key, value)]}"""
    return profile([('samples', 'count'), ('cpu', 'nanoseconds')], ('cpu', 'nanoseconds', 10**7),
                   {stack: [n, n * 10**7] for stack, n in stacks.items()}, time_s, labels)


def profile(types, period, stacks, time_s, labels=None):
    p = Profile(types, period, time=int(time_s * 10**9), duration=10**10)
    m = p.mapping(0x400000, 0x500000, 0, '/bin/app', 'abcdef')
    for stack, values in stacks.items():
        ids = [p.location([(p.function(name, 'a.c'), i + 1, 0)], m, 0x400000 + 16 * i)
               for i, name in reversed(list(enumerate(stack)))]
        p.sample(ids, values, (labels or {}).get(stack, ()))
    return p.bytes()


def temporary():
    return tempfile.TemporaryDirectory(prefix='kiln-server-')
