"""A proxy between an SDK and the server that keeps what the SDK sent; reads it without kiln's help."""
import collections
import gzip
import http.client
import http.server
import re
import threading
import urllib.parse


class Recorder:
    """requests: [(path, headers, body, status)] of what was forwarded to each of the ports; the status
    is the highest of theirs"""

    def __init__(self, *ports):
        self.requests, self.open = [], 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_POST(self):
                outer.open += 1
                try:
                    body = self.body()
                    answer, data = max((self.forward(port, body) for port in ports),
                                       key=lambda a: a[0].status)
                    headers = {k.lower(): v for k, v in self.headers.items()}
                    outer.requests.append((self.path, headers, body, answer.status))
                    self.send_response(answer.status)
                    self.send_header('Content-Type', answer.getheader('Content-Type', 'text/plain'))
                    self.send_header('Content-Length', str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                finally:
                    outer.open -= 1

            def forward(self, port, body):
                upstream = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
                upstream.request('POST', self.path, body, {
                    k: v for k, v in self.headers.items()
                    if k.lower() not in ('transfer-encoding', 'content-length', 'connection')})
                answer = upstream.getresponse()
                return answer, answer.read()

            def body(self):
                if self.headers.get('Transfer-Encoding') != 'chunked':
                    return self.rfile.read(int(self.headers.get('Content-Length', 0)))
                body = b''
                while size := int(self.rfile.readline().split(b';')[0], 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return body

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.url = f'http://127.0.0.1:{self.server.server_port}'
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def profiles(self):
        """The bytes of every profile that was sent."""
        for path, headers, body, _ in self.requests:
            if path.startswith('/push.v1'):
                for _, series in fields(unzip(body)):
                    for number, sample in fields(series):
                        if number == 2:
                            yield from (v for n, v in fields(sample) if n == 1)
            else:
                content = headers.get('content-type', '')
                if not content.startswith('multipart/'):
                    raise ValueError(f'a body of {content} at {urllib.parse.unquote(path)}')
                boundary = re.search('boundary="?([^";]+)', content)[1].encode()
                for part in body.split(b'--' + boundary)[1:-1]:
                    head, value = part.split(b'\r\n\r\n', 1)
                    if b'name="profile"' in head:
                        yield value[:-2]

    def flames(self):
        """{'type:unit:period type:period unit': (number of profiles, {path: [total, self]})}"""
        flames = collections.defaultdict(lambda: [0, collections.defaultdict(lambda: [0, 0])])
        for raw in self.profiles():
            types, samples = read(unzip(raw))
            for i, kind in enumerate(types):
                flames[kind][0] += 1
                flame = flames[kind][1]
                for path, values in samples:
                    for depth in range(1, len(path) + 1) if values[i] else ():
                        flame[path[:depth]][0] += values[i]
                    # A goroutine caught before its first frame has no place in a flame graph.
                    if values[i] and path:
                        flame[path][1] += values[i]
        return {kind: (n, {path: tuple(v) for path, v in flame.items()})
                for kind, (n, flame) in flames.items()}


def unzip(data):
    return gzip.decompress(data) if data[:2] == b'\x1f\x8b' else data


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """(number, value) of a message: bytes or int"""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        elif key & 7:
            raise ValueError(f'wire type {key & 7}')
        yield key >> 3, value


def numbers(message, number):
    """A repeated number, packed or not."""
    out = []
    for n, value in fields(message):
        if n == number and isinstance(value, int):
            out.append(value)
        elif n == number:
            at = 0
            while at < len(value):
                v, at = varint(value, at)
                out.append(v)
    return out


def read(data):
    """(['type:unit:period type:period unit'], [(path from the root, values)]) of a pprof profile"""
    parts = collections.defaultdict(list)
    for n, value in fields(data):
        parts[n].append(value)
    text = [s.decode() for s in parts[6]]
    functions, locations = {}, {}
    for f in map(dict, map(fields, parts[5])):
        # kiln drops Go's type parameters, as Pyroscope does, and shows frames without a name so
        functions[f[1]] = re.sub(r'\[go\.shape\..*\]', '', text[f.get(2, 0)]) or 'unknown'
    for location in parts[4]:
        found = dict(fields(location))
        locations[found[1]] = [functions[dict(fields(v))[1]] for n, v in fields(location) if n == 4]
    samples = []
    for sample in parts[2]:
        names = [name for place in numbers(sample, 1) for name in locations[place]]
        samples.append((tuple(reversed(names)), numbers(sample, 2)))
    pair = lambda m: ':'.join(text[dict(fields(m)).get(n, 0)] for n in (1, 2))
    return [f'{pair(t)}:{pair(parts[11][0])}' for t in parts[1]], samples
