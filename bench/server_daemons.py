"""The servers that bench/server measures: processes of this machine, with their CPU, memory and disk,
and what they are asked."""
import atexit
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.parse

TYPE = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds'


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def tenth(graph):
    """Of a flame graph in Pyroscope's form: the function with some tenth of it, and what goes through it."""
    names, above, through = graph['names'], [], {}
    for level in graph['levels']:
        values, x, bars = [int(v) for v in level.get('values', [])], 0, []
        for i in range(0, len(values), 4):
            x += values[i]
            name = names[values[i + 3]]
            path = next((p for lo, hi, p in above if lo <= x and x + values[i + 1] <= hi), frozenset())
            if name not in path:
                through[name] = through.get(name, 0) + values[i + 1]
            bars.append((x, x + values[i + 1], path | {name}))
            x += values[i + 1]
        above = bars
    del through[names[0]]
    return min(through.items(), key=lambda item: abs(item[1] - int(graph['total']) / 10))


class Daemon:
    def __init__(self, binary, folder, *options):
        self.binary, self.folder, self.options = binary, folder, options
        os.makedirs(folder, exist_ok=True)
        self.process, self.spent, self.rss = None, 0, []
        self.ports = [free_port() for _ in range(4)]
        self.port = self.ports[0]
        self.start()
        threading.Thread(target=self.watch, daemon=True).start()

    def start(self):
        """Seconds until it says that it is ready."""
        began = time.perf_counter()
        with open(f'{self.folder}/log', 'ab') as log:
            self.process = subprocess.Popen(self.command(), cwd=self.folder, stdout=log, stderr=log)
        atexit.register(self.process.kill)
        while self.process.poll() is None and time.perf_counter() < began + 120:
            c = http.client.HTTPConnection('127.0.0.1', self.port, timeout=5)
            try:
                c.request('GET', '/ready')
                if c.getresponse().status == 200:
                    self.ready = time.perf_counter() - began
                    return self.ready
            except OSError:
                pass
            finally:
                c.close()
            time.sleep(min(0.2, 0.01 + (time.perf_counter() - began) / 20))  # Pyroscope logs each
                                                                             # of these requests
        with open(f'{self.folder}/log') as log:
            raise RuntimeError(f'{self.name} does not start: {log.read()[-2000:]}')

    def stop(self, how=signal.SIGTERM):
        self.spent = self.cpu()
        self.process.send_signal(how)
        self.process.wait(60)

    def cpu(self):
        """Seconds of all its threads, those that ended included."""
        with open(f'/proc/{self.process.pid}/stat') as f:
            times = f.read().rsplit(')', 1)[1].split()
        return (int(times[11]) + int(times[12])) / os.sysconf('SC_CLK_TCK')

    def watch(self):
        """MiB that it held, ten times a second."""
        while True:
            try:
                with open(f'/proc/{self.process.pid}/status') as f:
                    self.rss += [int(line.split()[1]) / 1024 for line in f if line.startswith('VmRSS')]
            except OSError:
                pass
            time.sleep(0.1)

    def disk(self):
        """Bytes, of all that it keeps."""
        total = 0
        for at, _, files in os.walk(f'{self.folder}/data'):
            for f in files:
                try:
                    total += os.stat(os.path.join(at, f)).st_blocks * 512
                except FileNotFoundError:  # removed by compaction meanwhile
                    pass
        return total

    def ask(self, method, request):
        """The answer, and the seconds that it took."""
        return self.timed('POST', '/querier.v1.QuerierService/' + method, json.dumps(request))

    def function(self, function, selector, start, end, step, by=''):
        """The same of a function over time: times in nanoseconds, the step in seconds."""
        parameters = {'query': TYPE + selector, 'function': function, 'from': start // 10**6, 'until': end // 10**6, 'step': step}
        return self.timed('GET', '/api/v1/functions/series?' + urllib.parse.urlencode({**parameters, **({'groupBy': by} if by else {})}))

    def timed(self, method, path, body=None):
        c = http.client.HTTPConnection('127.0.0.1', self.port, timeout=120)
        try:
            c.connect()
            began = time.perf_counter()
            c.request(method, path, body, {'Content-Type': 'application/json', 'Accept-Encoding': 'identity'})
            r = c.getresponse()
            data = r.read()
            took = time.perf_counter() - began
        finally:
            c.close()
        if r.status != 200:
            raise RuntimeError(f'{self.name}: {path}: {r.status} {data[:300]}')
        return json.loads(data), took


class Kiln(Daemon):
    name = 'kiln'

    def command(self):
        return [self.binary, 'server', '--listen', f'127.0.0.1:{self.port}', '--data', f'{self.folder}/data',
                *self.options]


class Pyroscope(Daemon):
    """Storage v2 in one process; every default but where it listens, where it keeps its data, and that
    nothing is refused for its age, its number or its range."""
    name = 'Pyroscope'

    def command(self):
        data, (http_port, rpc, gossip, raft) = f'{self.folder}/data', self.ports
        flags = {
            'target': 'all', 'architecture.storage': 'v2', 'self-profiling.disable-push': 'true',
            'usage-stats.enabled': 'false', 'validation.reject-older-than': '0',
            'server.http-listen-address': '127.0.0.1', 'server.http-listen-port': http_port,
            'server.grpc-listen-address': '127.0.0.1', 'server.grpc-listen-port': rpc,
            'memberlist.bind-addr': '127.0.0.1', 'memberlist.bind-port': gossip,
            'segment-writer.lifecycler.addr': '127.0.0.1', 'distributor.ring.instance-addr': '127.0.0.1',
            'query-frontend.instance-addr': '127.0.0.1', 'overrides-exporter.ring.instance-addr': '127.0.0.1',
            'metastore.address': f'localhost:{rpc}', 'query-backend.address': f'localhost:{rpc}',
            'metastore.raft.bind-address': f'localhost:{raft}', 'metastore.raft.server-id': f'localhost:{raft}',
            'metastore.raft.advertise-address': f'localhost:{raft}',
            'metastore.data-dir': f'{data}/metastore', 'metastore.raft.dir': f'{data}/raft',
            'metastore.raft.snapshots-dir': f'{data}/snapshots', 'storage.backend': 'filesystem',
            'storage.filesystem.dir': f'{data}/objects', 'compaction-worker.temp-dir': self.folder,
            'distributor.ingestion-rate-limit-mb': 10000,
            'distributor.ingestion-burst-size-mb': 10000, 'querier.max-query-length': 0,
            'log.level': 'warn'}
        return [self.binary, *(f'-{k}={v}' for k, v in flags.items())]


def daemons(kiln, folder):
    """kiln, and Pyroscope where KILN_PYROSCOPE names its binary."""
    made = [Kiln(kiln, f'{folder}/kiln')]
    peer = os.environ.get('KILN_PYROSCOPE')
    if peer and not shutil.which(peer):
        raise SystemExit(f'bench/server: KILN_PYROSCOPE={peer} is no program; name the binary of Pyroscope')
    if peer:
        made.append(Pyroscope(os.path.abspath(shutil.which(peer)), f'{folder}/pyroscope'))
    else:
        print('Pyroscope is not measured: KILN_PYROSCOPE does not name its binary')
    return made
