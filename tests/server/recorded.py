"""What Grafana Pyroscope answered, recorded in pyroscope.json.xz: 69 pushes in every format and 325 requests over them.

The answers are from Pyroscope's main branch of August 2026 (3fe6a457a), with storage v2 and its default limits. They are compared by
meaning: names and series as sets, flame graphs as the trees that they encode, profiles as stacks with values, DOT by labels.
A refusal is compared by its status and code. Where Pyroscope answers 5xx to invalid input, any 4xx passes, too.

usage: recorded.py URL [TEXT]     a server whose store is empty and that takes profiles of any age (limits: {past: 0});
                                  only requests whose name contains TEXT
"""
import base64
import gzip
import http.client
import json
import lzma
import os
import re
import struct
import sys
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Server, check, finish, temporary

RECORDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'pyroscope.json.xz')

# Messages of the answers in binary form: number -> (name in JSON, type); int, float, str or a message, a list if repeated.
LABEL = {1: ('name', str), 2: ('value', str)}
VALUE_TYPE = {1: ('type', int), 2: ('unit', int)}
NAMES = {1: ('names', [str])}
LABELS = {1: ('labels', [LABEL])}
LEVEL = {1: ('values', [int])}
GRAPH = {1: ('names', [str]), 2: ('levels', [LEVEL]), 3: ('total', int), 4: ('maxSelf', int), 5: ('leftTicks', int),
         6: ('rightTicks', int)}
FLAME = {1: ('flamegraph', GRAPH)}
POINT = {1: ('value', float), 2: ('timestamp', int)}
POINTS = {1: ('labels', [LABEL]), 2: ('points', [POINT])}
SAMPLE = {1: ('locationId', [int]), 2: ('value', [int])}
MAPPING = {1: ('id', int), 5: ('filename', int)}
LINE = {1: ('functionId', int), 2: ('line', int)}
LOCATION = {1: ('id', int), 2: ('mappingId', int), 3: ('address', int), 4: ('line', [LINE])}
FUNCTION = {1: ('id', int), 2: ('name', int), 4: ('filename', int)}
PPROF = {1: ('sampleType', [VALUE_TYPE]), 2: ('sample', [SAMPLE]), 3: ('mapping', [MAPPING]), 4: ('location', [LOCATION]),
         5: ('function', [FUNCTION]), 6: ('stringTable', [str]), 9: ('timeNanos', int), 10: ('durationNanos', int),
         11: ('periodType', VALUE_TYPE), 12: ('period', int)}
ANSWERS = {
    'LabelNamesResponse': NAMES, 'LabelValuesResponse': NAMES, 'SeriesResponse': {2: ('labelsSet', [LABELS])},
    'SelectMergeStacktracesResponse': FLAME, 'SelectMergeSpanProfileResponse': FLAME, 'DiffResponse': FLAME,
    'SelectMergeProfileResponse': PPROF, 'SelectSeriesResponse': {1: ('series', [POINTS])},
}


def take_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def decode(kind, data):
    """A message in binary form as its JSON."""
    out, at = {}, 0
    while at < len(data):
        key, at = take_varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = take_varint(data, at)
        else:
            size, at = take_varint(data, at) if wire == 2 else (8, at)
            value, at = data[at:at + size], at + size
        if key >> 3 not in kind:
            continue
        name, type_ = kind[key >> 3]
        repeated = isinstance(type_, list)
        type_ = type_[0] if repeated else type_
        if type_ is int:
            values, place = [], 0
            while wire == 2 and place < len(value):
                number, place = take_varint(value, place)
                values.append(number)
            values = [v - (1 << 64) if v >> 63 else v for v in (values if wire == 2 else [value])]
        elif type_ is float:
            values = list(struct.unpack(f'<{len(value) // 8}d', value))
        else:
            values = [value.decode() if type_ is str else decode(type_, value)]
        out[name] = out.get(name, []) + values if repeated else values[-1]
    return out


def number(value):
    """int64 may be a string in JSON, and zero may be absent."""
    return int(value) if isinstance(value, str) else value or 0


def add_pair(a, b):
    return [x + y for x, y in zip(a, b)]


def bars(graph, sides):
    """A flame graph as {path: totals and selfs}; sides: 1, or 2 for a difference. Equal siblings are added."""
    out, above = {}, [(0, float('inf'), '')]
    for level in graph.get('levels') or []:
        values = [number(v) for v in (level.get('values') or [] if isinstance(level, dict) else level)]
        here, at = [], 0
        width = 3 * sides + 1
        for i in range(0, len(values), width):
            bar = values[i:i + width]
            start = at + sum(bar[0:-1:3])
            at = start + sum(bar[1:-1:3])
            parent = next(path for low, high, path in above if low <= start and at <= high and (start < high or low == high))
            path = f'{parent} ; {graph["names"][bar[-1]]}'
            here.append((start, at, path))
            own = bar[1:-1:3] + bar[2:-1:3]
            out[path] = add_pair(out[path], own) if path in out else own
        above = here
    return out


def tree_of_bytes(text):
    """Pyroscope's tree format: name, self and number of children, breadth by stack."""
    data, at, out = base64.b64decode(text or ''), 0, {}
    todo, selfs = [''], []
    while todo and at < len(data):
        size, at = take_varint(data, at)
        path = f'{todo.pop()} ; {data[at:at + size].decode()}'
        own, at = take_varint(data, at + size)
        children, at = take_varint(data, at)
        todo += [path] * children
        selfs.append((path, own))
    for path, own in selfs:
        out[path] = add_pair(out.get(path, [0, 0]), [0, own])
    for path, own in selfs:
        while path:
            out[path][0] += own
            path = path.rpartition(' ; ')[0]
    return out


def stacks(profile):
    strings = profile.get('stringTable') or ['']

    def text(message, key):
        return strings[number(message.get(key))]

    def by_id(key):
        return {number(m['id']): m for m in profile.get(key) or []}
    functions, mappings, locations = by_id('function'), by_id('mapping'), by_id('location')

    def frame(id_):
        location = locations[number(id_)]
        lines = []
        for line in location.get('line') or []:
            function = functions[number(line['functionId'])]
            lines.append(f'{text(function, "name")} {text(function, "filename")}:{number(line.get("line"))}')
        mapping = mappings.get(number(location.get('mappingId')), {})
        return ' / '.join(lines) or f'{text(mapping, "filename")}+{number(location.get("address")):#x}'
    samples = {}
    for sample in profile.get('sample') or []:
        key = ' ; '.join(map(frame, sample.get('locationId') or []))
        values = [number(v) for v in sample.get('value') or []]
        samples[key] = add_pair(samples[key], values) if key in samples else values

    def value_type(message):
        return [text(message or {}, 'type'), text(message or {}, 'unit')]
    return [samples, [value_type(t) for t in profile.get('sampleType') or []], value_type(profile.get('periodType')),
            *(number(profile.get(key)) for key in ('period', 'timeNanos', 'durationNanos'))]


def dot_labels(text):
    """Nodes and edges by their labels."""
    label = r'\[.*?label="((?:[^"\\]|\\.)*)"'
    nodes = dict(re.findall(rf'(?m)^\s*(N\w+)\s*{label}', text))
    edges = re.findall(rf'(?m)^\s*(\w+)\s*->\s*(\w+)\s*{label}', text)
    return [sorted(nodes.values()), sorted([nodes[a], nodes[b], text.strip()] for a, b, text in edges)]


def label_set(labels):
    return ','.join(sorted(f'{label.get("name", "")}={label.get("value", "")}' for label in labels or []))


def timeline(line):
    return line and [number(line.get('startTime')), number(line.get('durationDelta')), [number(v) for v in line.get('samples') or []]]


def rendered(answer, sides):
    graph, metadata = answer.get('flamebearer') or {}, answer.get('metadata') or {}
    groups = {name: timeline(line) for name, line in (answer.get('groups') or {}).items()}
    # With several groups, Pyroscope leaves the timeline at zero.
    return [bars(graph, sides), number(graph.get('numTicks')), number(graph.get('maxSelf')), groups,
            None if groups else timeline(answer.get('timeline')), answer.get('version'),
            *(metadata.get(key) for key in ('format', 'units', 'name', 'sampleRate')),
            *(number(answer.get(key)) for key in ('leftTicks', 'rightTicks'))]


def flame(answer, sides):
    graph = answer.get('flamegraph') or {}
    return [bars(graph, sides), *(number(graph.get(key)) for key in ('total', 'maxSelf', 'leftTicks', 'rightTicks'))]


MEANING = {
    'types': lambda a: sorted([t.get(key, '') for key in ('ID', 'name', 'sampleType', 'sampleUnit', 'periodType', 'periodUnit')]
                              for t in a.get('profileTypes') or []),
    'names': lambda a: sorted(a.get('names') or []),
    'series': lambda a: sorted(label_set(s.get('labels')) for s in a.get('labelsSet') or []),
    'flame': lambda a: flame(a, 1),
    'diff': lambda a: flame(a, 2),
    'tree': lambda a: tree_of_bytes(a.get('tree')),
    'dot': lambda a: dot_labels(a if isinstance(a, str) else a.get('dot') or ''),
    'profile': stacks,
    'pprof': lambda a: stacks((a.get('pprof') or {}).get('profile') or {}),
    'points': lambda a: sorted([label_set(s.get('labels')), [[number(p.get('timestamp')), number(p.get('value'))] for p in s.get('points') or []]]
                               for s in a.get('series') or []),
    'render': lambda a: rendered(a, 1),
    'render-diff': lambda a: rendered(a, 2),
    'error': lambda a: a.get('code') if isinstance(a, dict) else None,
    'status': lambda a: None,
}


def send(address, base, request):
    """(status, body of the answer)"""
    path, body = base + request['path'], request.get('text', '').encode() or base64.b64decode(request.get('base64', ''))
    headers = {'Accept-Encoding': 'identity', **request.get('headers', {})}
    if 'query' in request:
        path += '?' + urllib.parse.urlencode(list(map(tuple, request['query'])))
    if request.get('gzip'):
        body, headers['Content-Encoding'] = gzip.compress(body), 'gzip'
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request(request.get('method', 'POST'), path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def answer_of(request, data):
    if 'answer' in request:
        return decode(ANSWERS[request['answer']], data)
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors='replace')


def right_status(request, status):
    wanted = request['status']
    return status in wanted or wanted[0] >= 500 and 400 <= status < 500


def difference(want, got):
    """Where two meanings differ, in a line."""
    if isinstance(want, dict) and isinstance(got, dict):
        keys = [key for key in {**want, **got} if want.get(key) != got.get(key)]
        return f'{len(keys)} differ, such as {keys[0][:200]}: want {want.get(keys[0])}, got {got.get(keys[0])}'
    if isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        return next(f'[{i}]: {difference(a, b)}' for i, (a, b) in enumerate(zip(want, got)) if a != b)
    return f'want {str(want)[:250]}, got {str(got)[:250]}'


def replay(url, only=''):
    with lzma.open(RECORDED, 'rt') as file:
        recorded = json.load(file)
    parts = urllib.parse.urlsplit(url)
    address, base = parts.netloc, parts.path.rstrip('/')
    for request in recorded['pushes']:
        status, data = send(address, base, request)
        check(f'Pyroscope, push {request["id"]}', right_status(request, status), (status, data[:300]))
    for request in recorded['requests']:
        if only not in request['id']:
            continue
        what = f'Pyroscope, {request["id"]}'
        status, data = send(address, base, request)
        if status != request['status'][0]:
            check(what, right_status(request, status), (status, data[:300]))
            continue
        got = json.loads(json.dumps(MEANING[request['compare']](answer_of(request, data))))
        want = request.get('meaning')
        check(what, got == want, '' if got == want else difference(want, got))


def main(kiln):
    with temporary() as folder:
        server = Server(kiln, folder, config='limits: {past: 0}\n')
        replay(f'http://127.0.0.1:{server.port}')
        server.stop()


if __name__ == '__main__':
    replay(*sys.argv[1:])
    finish()
