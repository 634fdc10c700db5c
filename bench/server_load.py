"""What bench/server sends: profiles drawn from a record of a real program, and connections that
push them."""
import gzip
import heapq
import itertools
import os
import random
import selectors
import socket
import struct
import subprocess
import sys
import time
import zlib

from pprof_writer import field, message, packed

PODS, STACKS, VARIANTS = 20, 483, 50
WORK = r'''
import json, re, zlib, random, hashlib, collections, sys
r = random.Random(1)
class Tree:
    def __init__(self, depth): self.children = [Tree(depth - 1) for _ in range(2)] if depth else []
    def size(self): return 1 + sum(c.size() for c in self.children)
for i in range(int(sys.argv[1])):
    d = [{'a': r.random(), 'b': str(r.random()), 'c': [r.randint(0, 9) for _ in range(20)]} for _ in range(800)]
    t = json.dumps(d)
    json.loads(t), zlib.compress(t.encode()), hashlib.sha256(t.encode()).digest(), Tree(9).size()
    re.findall(r'(\d+)\.(\d+)(e-\d)?', t), collections.Counter(t), sorted(t.split(','), key=lambda s: s[::-1])
    compile('\n'.join(f'def f{j}(x):\n  return [y*{j} for y in x if y>{j} and (x or y)]' for j in range(300)), 'x', 'exec')
'''


def fields(data):
    """(number, int or bytes) of each field of a message."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        tag = number()
        value = number()
        if tag & 7 == 2:
            at += value
            value = data[at - value:at]
        yield tag >> 3, value


def numbers(data):
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


class Drawn:
    """A profile that can get any time: only its end is rewritten."""

    def __init__(self, data, total):
        self.total = total  # nanoseconds of all samples
        self.crc, self.size = zlib.crc32(data), len(data)
        packer = zlib.compressobj(6, zlib.DEFLATED, -15)
        self.head = b'\x1f\x8b\x08\0\0\0\0\0\0\x03' + packer.compress(data) + packer.flush(zlib.Z_FULL_FLUSH)

    def at(self, nanos):
        end = message((9, nanos), (10, 10 * 10**9))
        stored = struct.pack('<BHH', 1, len(end), len(end) ^ 0xffff) + end
        return self.head + stored + struct.pack('<II', zlib.crc32(end, self.crc), self.size + len(end))


class Record:
    """A profile, taken apart so that smaller ones can be drawn from it."""

    def __init__(self, file):
        self.strings, self.locations, self.functions, self.samples, self.rest = [], {}, {}, [], []
        self.mappings, self.types = [], []
        with gzip.open(file) as f:
            data = f.read()
        for n, value in fields(data):
            if n == 2:
                stack, values = [], []
                for k, v in fields(value):
                    (stack if k == 1 else values if k == 2 else []).extend(numbers(v) if isinstance(v, bytes) else [v])
                self.samples.append((stack, values))
            elif n == 6:
                self.strings.append(value)
            elif n in (4, 5):
                (self.locations if n == 4 else self.functions)[dict(fields(value))[1]] = list(fields(value))
            elif n == 3:
                self.mappings.append(list(fields(value)))
            elif n in (1, 11):
                self.types.append((n, list(fields(value))))
            elif n == 12:
                self.rest.append((n, value))

    def draw(self, seed):
        """A profile of STACKS of the stacks, the heavier the likelier."""
        r = random.Random(seed)
        drawn = sorted(self.samples, key=lambda s: -(r.random() ** (1 / s[1][0])))[:STACKS]
        strings = {b'': 0}
        locations, functions, out, total = {}, {}, [], 0

        def text(index):
            return strings.setdefault(self.strings[index], len(strings))

        def function(old):
            if old not in functions:
                functions[old] = len(functions) + 1
                out.append(field(5, message((1, functions[old]), *(
                    (k, text(v) if k < 5 else v) for k, v in self.functions[old] if k > 1))))
            return functions[old]

        def location(old):
            if old not in locations:
                locations[old] = len(locations) + 1
                out.append(field(4, message((1, locations[old]), *(
                    (k, message(*((j, function(w) if j == 1 else w) for j, w in fields(v))) if k == 4 else v)
                    for k, v in self.locations[old] if k > 1))))
            return locations[old]
        for n, value in self.types:
            out.append(field(n, message(*((k, text(v)) for k, v in value))))
        for value in self.mappings:
            out.append(field(3, message(*((k, text(v) if k in (5, 6) else v) for k, v in value))))
        period = self.samples[0][1][1] // self.samples[0][1][0]
        for stack, values in drawn:
            hits = 1 + int(r.expovariate(1 / values[0]))
            total += hits * period
            out.append(field(2, packed(1, [location(l) for l in stack]) + packed(2, [hits, hits * period])))
        out += [field(6, s) for s in strings] + [field(n, v) for n, v in self.rest]
        return Drawn(b''.join(out), total)


def record(kiln, folder, seconds):
    work, file = f'{folder}/work.py', f'{folder}/work.pb.gz'
    with open(work, 'w') as f:
        f.write(WORK)
    subprocess.run([kiln, 'run', '-q', '-F', '999', '-o', file, '--', os.path.realpath(sys.executable), work,
                    str(seconds * 10)], check=True, stdout=subprocess.DEVNULL)
    return file


def body(*profiles):
    """A request of Push with these (service, pod, profile)."""
    out = b''
    for service, pod, data in profiles:
        labels = {'__name__': 'process_cpu', 'service_name': service, 'pod': pod, 'region': 'eu', 'version': '1.2'}
        pairs = b''.join(field(1, message((1, k.encode()), (2, v.encode()))) for k, v in labels.items())
        out += field(1, pairs + field(2, field(1, data)))
    return out


class Connection:
    """One sender: waits for each answer before it sends the next."""

    def __init__(self, port, jobs):
        """jobs: (when it is due, by perf_counter, or None for at once; a function that makes the request)"""
        self.port, self.jobs, self.socket = port, iter(jobs), None
        self.next()

    def next(self):
        self.due, self.make = next(self.jobs, (None, None))
        self.out, self.answer, self.sent = None, b'', 0

    def connect(self):
        self.socket = socket.create_connection(('127.0.0.1', self.port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)

    def send(self):
        data = self.make()
        self.start = time.perf_counter()
        self.out = (b'POST /push.v1.PusherService/Push HTTP/1.1\r\nHost: localhost\r\n'
                    b'Content-Type: application/proto\r\nContent-Length: %d\r\n\r\n' % len(data)) + data

    def write(self):
        self.sent += self.socket.send(memoryview(self.out)[self.sent:])
        return self.sent == len(self.out)

    def read(self):
        """The status, once the answer is there."""
        got = self.socket.recv(65536)
        if not got:
            raise ConnectionError('the server has closed the connection')
        self.answer += got
        head, empty, rest = self.answer.partition(b'\r\n\r\n')
        if not empty:
            return 0
        lines = head.lower().split(b'\r\n')
        size = next((int(line.split(b':')[1]) for line in lines if line.startswith(b'content-length:')), None)
        if not (rest.endswith(b'0\r\n\r\n') if size is None else len(rest) >= size):
            return 0
        return int(lines[0].split()[1])


def push(port, jobs, each=None, refused=None):
    """Seconds that each push took; jobs has a list for each connection. One that came late because an
    earlier one was not answered counts from when it was due. each(): called after each answer; a broken
    connection ends all where there is one. refused: a list of those that were told to come again (429), which
    they do after a second; without it that is an error."""
    took, sockets = [], []
    order = itertools.count()
    waiting = []
    selector = selectors.DefaultSelector()

    def wait(c):
        if c.make:
            heapq.heappush(waiting, (c.due or 0, next(order), c))
    for j in jobs:
        wait(Connection(port, j))
    try:
        while waiting or selector.get_map():
            now = time.perf_counter()
            while waiting and waiting[0][0] <= now:
                c = heapq.heappop(waiting)[2]
                if not c.socket:
                    c.connect()
                    sockets.append(c.socket)
                c.send()
                selector.register(c.socket, selectors.EVENT_WRITE, c)
            soonest = waiting[0][0] if waiting else now + 1
            for key, _ in selector.select(max(0, min(soonest - now, 1))):
                c = key.data
                if key.events == selectors.EVENT_WRITE:
                    if c.write():
                        selector.modify(c.socket, selectors.EVENT_READ, c)
                    continue
                status = c.read()
                if not status:
                    continue
                selector.unregister(c.socket)
                if status == 429 and refused is not None:
                    refused.append(c)
                    c.due = c.due or c.start
                    c.answer, c.sent = b'', 0
                    heapq.heappush(waiting, (time.perf_counter() + 1, next(order), c))
                    continue
                if status != 200:
                    raise RuntimeError(c.answer[:400].decode(errors='replace'))
                took.append(time.perf_counter() - min(c.due or c.start, c.start))
                c.next()
                wait(c)
                if each:
                    each()
    except OSError:
        if not each:
            raise
    finally:
        selector.close()
        for s in sockets:
            s.close()
    return took


def at_once(bodies, connections=PODS):
    """Jobs of so many connections that send as fast as they are answered."""
    return [[(None, (lambda b=b: b)) for b in bodies[i::connections]] for i in range(connections)]
