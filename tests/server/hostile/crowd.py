"""A server under attack, and the well-behaved clients beside the attack: what they measure decides.

Every attack is a `with crowd.attack(...)` block. The clients' answers within it are compared with
those of a quiet server in the same run, and with a plain HTTP server of Python that is measured at
the same time and that the machine's noise slows down as well.
"""
import collections
import math
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

from clients import EVERY, SERVICE
from harness import CPU, Server, temporary, until

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENTS = os.path.join(HERE, 'clients.py')
GOOD, BAD = 'token-of-good', 'token-of-bad'
AUTH = f'''
auth:
  - {{token: {GOOD}, scopes: [push, read, admin], tenants: [good]}}
  - {{token: {BAD}, scopes: [push, read, admin], tenants: [bad]}}
'''
JSON = {'Content-Type': 'application/json'}
PROTO = {'Content-Type': 'application/proto'}
QUERIER = '/querier.v1.QuerierService/'
PUSH = '/push.v1.PusherService/Push'
HOUR = 3600 * 10**9

TIMES = 5        # p99 under attack against the quiet p99
FLOOR = 0.010    # seconds: a quiet p99 below this is taken for this; 5 times it is the 50 ms of health checks
ECHO_TIMES = 4   # so much of what the plain server lost to the machine is excused
NEAR = 0.1       # seconds between an answer and that of the plain server that it is compared with
TOO_BUSY = 0.25  # seconds: a p99 of the plain server beyond which latencies say nothing about kiln
PATIENCE = 40    # seconds to wait for answers that an attack delayed

Answer = collections.namedtuple('Answer', 'kind start latency status')


class Failure(Exception):
    """The scenario cannot go on."""


def bearer(token):
    return {'Authorization': 'Bearer ' + token}


def labels_of(service, name='process_cpu', **more):
    return {'__name__': name, 'service_name': service, **more}


def now_ms():
    return int(time.time() * 1000)


def last_hour():
    return {'start': now_ms() - 3600000, 'end': now_ms() + 60000}


def p99(values):
    values = sorted(values)
    return values[math.ceil(0.99 * len(values)) - 1] if values else 0.0


def latencies(answers, every):
    """With the requests that a slow answer kept from being sent: they would have waited as well."""
    found = []
    for answer in answers:
        wait = answer.latency
        while True:
            found.append(wait)
            wait -= every
            if wait <= 0:
                break
    return found


def excuse(answers, echoes, allowed):
    """The answers, without the delay of those that the machine delayed: the plain server was slow just then, too."""
    kept = []
    for a in answers:
        near = [e.latency for e in echoes if e.start < a.start + a.latency + NEAR and e.start + e.latency > a.start - NEAR]
        if a.latency - ECHO_TIMES * max(near, default=0) <= allowed:
            a = a._replace(latency=min(a.latency, allowed))
        kept.append(a)
    return kept


def at_once(calls, patience=60):
    """Runs them in threads; their results in order, None for those that did not end."""
    results = [None] * len(calls)

    def one(i, call):
        results[i] = call()
    threads = [threading.Thread(target=one, args=(i, call), daemon=True) for i, call in enumerate(calls)]
    for t in threads:
        t.start()
    end = time.monotonic() + patience
    for t in threads:
        t.join(max(0, end - time.monotonic()))
    return results


class Echo:
    def __init__(self):
        self.process = subprocess.Popen([sys.executable, CLIENTS, '--echo'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline())

    def stop(self):
        self.process.stdin.close()
        self.process.wait(10)


class Clients:
    def __init__(self, port, echo_port, token, tls=False):
        self.answers = []
        self.process = subprocess.Popen([sys.executable, CLIENTS, str(port), str(echo_port), token, *(['tls'] if tls else [])],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            kind, start, latency, status = line.split()
            self.answers.append(Answer(kind, float(start), float(latency), int(status) if status.isdigit() else status))

    def wait_beyond(self, when, skip=()):
        """Until a request of every kind that began after `when` was answered; the kinds that had none."""
        end = time.monotonic() + PATIENCE
        while True:
            missing = set(EVERY) - set(skip) - {a.kind for a in list(self.answers) if a.start >= when}
            if not missing or time.monotonic() > end or self.process.poll() is not None:
                return missing
            time.sleep(0.02)

    def between(self, start, end):
        return [a for a in list(self.answers) if start <= a.start < end]

    def stop(self):
        self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.reader.join(5)


class Target(Server):
    """A server that may be measured, crash or hang without an end to the test."""

    def __init__(self, kiln, folder, *options, environment=None, files=None, **more):
        self.environment, self.files = environment, files
        super().__init__(kiln, folder, *options, **more)

    def start(self):
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            if self.files:
                resource.setrlimit(resource.RLIMIT_NOFILE, (self.files, before[1]))
            super().start()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)

    def alive(self):
        return self.process.poll() is None

    def status_of(self, key):
        with open(f'/proc/{self.process.pid}/status') as file:
            return next((int(line.split()[1]) for line in file if line.startswith(key + ':')), 0)

    def rss(self):
        return self.status_of('VmRSS') >> 10

    def peak(self):
        return self.status_of('VmHWM') >> 10

    def reset_peak(self):
        with open(f'/proc/{self.process.pid}/clear_refs', 'w') as file:
            file.write('5')

    def cpu(self):
        with open(f'/proc/{self.process.pid}/stat') as file:
            fields = file.read().rpartition(')')[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def descriptors(self):
        return len(os.listdir(f'/proc/{self.process.pid}/fd'))

    def end(self, how=signal.SIGTERM, patience=20):
        """(exit status or 'hang', seconds)"""
        start = time.monotonic()
        if self.alive():
            self.process.send_signal(how)
        try:
            status = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            status = 'hang'
        self.log.close()
        return status, time.monotonic() - start

    def socket(self, timeout=10, **options):
        s = socket.create_connection(('127.0.0.1', self.port), timeout=timeout)
        return s

    def raw(self, data, timeout=5):
        """All bytes that the server answers to these, until it closes or is silent."""
        answer = b''
        try:
            with self.socket(timeout) as s:
                s.sendall(data)
                while part := s.recv(65536):
                    answer += part
        except OSError:
            pass
        return answer

    def post(self, path, body, headers=None, timeout=60, method='POST'):
        """(status, data), or (name of the error, b'')"""
        import http.client
        connection = self.connection()
        connection.timeout = timeout
        try:
            connection.request(method, path, body, {'Accept-Encoding': 'identity', **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            return type(error).__name__, b''
        finally:
            connection.close()

    def total(self, service, headers, kind=CPU, span=3600):
        answer = self.json('SelectMergeStacktraces', {
            'profileTypeID': kind, 'labelSelector': '{service_name="%s"}' % service,
            'start': now_ms() - span * 1000, 'end': now_ms() + 3600000}, headers)
        return int(answer.get('flamegraph', {}).get('total', 0))

    def services(self, headers=None, span=3600):
        return self.json('LabelValues', {'name': 'service_name', 'start': now_ms() - span * 1000,
                                         'end': now_ms() + 3600000}, headers).get('names', [])


def head(method, path, token=None, length=None, *more):
    """The head of a request, with an end."""
    lines = [f'{method} {path} HTTP/1.1', 'Host: 127.0.0.1']
    if token:
        lines.append(f'Authorization: Bearer {token}')
    if length is not None:
        lines.append(f'Content-Length: {length}')
    return '\r\n'.join([*lines, *more, '', '']).encode()


class Crowd:
    """The server of a scenario with its well-behaved clients. ctx is the runner's; limits are of the
    configuration, in addition to that of memory; settings is further text of it."""

    def __init__(self, ctx, limits=None, settings=AUTH, token=GOOD, tls=False, clients=True, **more):
        self.ctx = ctx
        self.limits, self.settings = limits or {}, settings
        config = self.configuration()
        self.folder = temporary()
        self.server = Target(ctx.kiln, self.folder.name, config=config, tls=tls, **more)
        self.token = token
        self.clients = Clients(self.server.port, ctx.echo.port, token, tls) if clients else None
        if clients:
            self.clients.wait_beyond(time.monotonic() + 0.2)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close(error[0] is None)

    def configuration(self, **limits):
        limits = {**self.ctx.limits, **self.limits, **limits}
        return self.settings + 'limits: {%s}\n' % ', '.join(f'{k}: {v}' for k, v in limits.items() if self.ctx.knows(k))

    def attack(self, what, **more):
        return Attack(self, what, **more)

    def close(self, verify=True):
        if self.clients:
            self.clients.stop()
        if verify:
            self.ctx.check('the server is alive', self.server.alive(), self.server.process.poll())
        if verify and self.clients and self.server.alive():
            pushes = [a.status for a in self.clients.answers if a.kind == 'push']
            sent, unknown = pushes.count(200), sum(isinstance(status, str) for status in pushes)
            total = lambda: self.server.total(SERVICE, bearer(self.token) if self.token else None) // 10**7
            # What is acknowledged may still be on its way to ClickHouse.
            until(lambda: total() >= sent, 90 if self.ctx.remote else 0.1)
            stored = total()
            self.ctx.check('acknowledged pushes of others are stored', sent <= stored <= sent + unknown,
                           f'{sent} acknowledged, {unknown} without an answer, {stored} stored')
        if self.server.alive():
            status, seconds = self.server.end()
            if verify:
                self.ctx.check('clean exit', status == 0, f'{status} after {seconds:.1f} s')
        log = self.server.log_text()
        for word in ('Sanitizer', 'runtime error', 'assertion', 'shutdown timed out'):
            self.ctx.check(f'no {word} in the log', word not in log, log[-600:])
        self.folder.cleanup()


class Attack:
    """Measures the clients while its block runs, and at least for `least` seconds. skip: kinds of
    clients that this attack may hurt."""

    def __init__(self, crowd, what, least=2.5, memory=None, skip=()):
        self.crowd, self.what, self.least, self.skip = crowd, what, least, skip
        self.memory = memory or crowd.ctx.memory

    def __enter__(self):
        self.crowd.server.reset_peak()
        self.start = time.monotonic()
        return self

    def __exit__(self, kind, *_):
        ctx, server = self.crowd.ctx, self.crowd.server
        if kind:
            return
        time.sleep(max(0, self.start + self.least - time.monotonic()))
        self.end = time.monotonic()
        missing = self.crowd.clients.wait_beyond(self.end, self.skip)
        if not server.alive():
            ctx.check(f'{self.what}: the server survives', False, f'exit {server.process.poll()}: {server.log_text()[-300:]}')
            raise Failure
        ctx.check(f'{self.what}: every client gets answers', not missing, f'none for {PATIENCE} s: {sorted(missing)}')
        answers = self.crowd.clients.between(self.start, self.end)
        bad = collections.Counter((a.kind, a.status) for a in answers if a.status != 200 and a.kind not in self.skip)
        ctx.check(f'{self.what}: nobody else is refused', not bad, dict(bad))
        ctx.compare(self.what, answers, self.skip)
        ctx.check(f'{self.what}: memory', server.peak() < self.memory, f'{server.peak()} MiB of {self.memory}')
