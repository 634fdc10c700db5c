"""Inputs whose cost somebody chose: the server's CPU time and memory stay near those of ordinary ones, and what cannot
be done is refused with a message."""
import gzip
import json
import os
import struct
import sys
import time

from harness import CPU, Server, check, cpu_profile, field, message, packed, profile, same, temporary

NOW = int(time.time())
T = NOW - 600
A, Z = (T - 60) * 1000, (T + 60) * 1000
JSON = {'Content-Type': 'application/json'}
QUERIER = '/querier.v1.QuerierService/'

SLOWNESS = 5 if 'asan' in sys.argv[1] else 1  # of sanitizers


def cpu_seconds(s):
    with open(f'/proc/{s.process.pid}/stat') as file:
        fields = file.read().rsplit(') ', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def peak_mib(s):
    with open(f'/proc/{s.process.pid}/status') as file:
        return next(int(line.split()[1]) for line in file if line.startswith('VmHWM')) / 1024


def cost(s, work):
    before = cpu_seconds(s)
    result = work()
    return cpu_seconds(s) - before, result


def table_profile(strings, ids):
    """A profile with these strings, and functions and locations of these ids."""
    base = [b'', b'samples', b'count', b'cpu', b'nanoseconds', b'main', b'a.c']
    out = [field(1, message((1, 1), (2, 2))), field(1, message((1, 3), (2, 4))), field(11, message((1, 3), (2, 4))), field(12, 10**7)]
    for i in ids:
        out.append(field(5, message((1, i), (2, 5), (3, 5), (4, 6))))
        out.append(field(4, message((1, i)) + field(4, message((1, i), (2, 1)))))
    out += [field(2, packed(1, ids[i:i + 100]) + packed(2, [1, 10**7])) for i in range(0, len(ids), 100)]
    out += [field(6, x) for x in base + strings]
    out.append(message((9, T * 10**9), (10, 10**10)))
    return gzip.compress(b''.join(out), 1)


def floods(s):
    n = 40000
    some = list(range(1, 2001))
    quiet = table_profile([b'n%015d' % i for i in range(n)], some)
    # The first word cancels a constant that the hash once had; ids are multiples of the size of a table.
    same_hash = table_profile([struct.pack('<QQ', 16 ^ 0x9e3779b97f4a7c15, i) for i in range(n)], some)
    far_ids = table_profile([b'n%015d' % i for i in range(n)], [i << 40 for i in some])
    def send(body):
        return s.ask('POST', '/ingest', body, {'Content-Type': 'application/octet-stream'},
                     {'name': 'flood.cpu', 'format': 'pprof'}).status
    usual, status = cost(s, lambda: send(quiet))
    same('many strings: status', status, 200)
    for what, body in ('strings that collide', same_hash), ('ids that collide', far_ids):
        seconds, status = cost(s, lambda: send(body))
        check(f'{what}: status', status in (200, 422), status)  # some are not UTF-8
        check(f'{what}: CPU time', seconds < 4 * usual + 0.5 * SLOWNESS, f'{seconds:.2f} s instead of {usual:.2f} s')
    # Many labels of one sample, in the wrong order.
    keys = [b'k%07d' % i for i in range(30000, 0, -1)]
    strings = [b'', b'samples', b'count', b'cpu', b'nanoseconds'] + keys
    body = b''.join([field(1, message((1, 1), (2, 2))), field(11, message((1, 3), (2, 4))), field(12, 1),
                     field(2, packed(2, [1]) + b''.join(field(3, message((1, 5 + i), (3, 1))) for i in range(len(keys)))),
                     *(field(6, x) for x in strings), message((9, T * 10**9), (10, 10**9))])
    seconds, status = cost(s, lambda: send(gzip.compress(body, 1)))
    check('many labels: CPU time', seconds < 4 * usual + 0.5 * SLOWNESS, f'{seconds:.2f} s instead of {usual:.2f} s')


def json_bombs(s):
    s.ask('POST', QUERIER + 'ProfileTypes', b'{}', JSON)
    for part in b'{},', b'[],', b'0,', b'"",', b'{"a":[]},':
        body = gzip.compress(b'{"unknown":[' + part * ((12 << 20) // len(part)) + b'0]}', 6)
        with open(f'/proc/{s.process.pid}/clear_refs', 'w') as file:
            file.write('5')
        before = peak_mib(s)
        for _ in range(2):
            r = s.ask('POST', QUERIER + 'ProfileTypes', body, {**JSON, 'Content-Encoding': 'gzip'})
        check(f'12 MiB of {part}: status', r.status in (200, 429), (r.status, r.data))
        grown = peak_mib(s) - before
        check(f'12 MiB of {part}: memory', grown < 150, f'{grown:.0f} MiB more')
    deep = b'{"unknown":' + b'[' * 100000 + b']' * 100000 + b'}'
    r = s.ask('POST', QUERIER + 'ProfileTypes', deep, JSON)
    check('deep JSON', r.status == 400 and b'inside of each other' in r.data, r.data)
    r = s.ask('POST', QUERIER + 'LabelNames', b'{"start": 1,\n "end": 2,}', JSON)
    check('wrong JSON tells the place', r.status == 400 and b'line 2, column 11' in r.data, r.data)


def spans(s):
    n = 30000
    rows = {('main', f'f{i % 300}', f'g{i}'): 1 for i in range(n)}
    labels = {stack: [('span_id', '%016x' % (i + 1))] for i, stack in enumerate(rows)}
    traces = {stack: [('trace_id', '%032x' % (i + 1))] for i, stack in enumerate(rows)}
    for service, of in ('spans', labels), ('traces', traces):
        same(f'{service}: pushed', s.push([({'__name__': 'process_cpu', 'service_name': service}, cpu_profile(rows, T, of))]).status, 200)
    for service, key, digits in ('spans', 'spanSelector', 16), ('traces', 'traceIdSelector', 32):
        def ask(ids):
            r = s.ask('POST', QUERIER + 'SelectMergeStacktraces', json.dumps({
                'profileTypeID': CPU, 'labelSelector': '{service_name="%s"}' % service, 'start': A, 'end': Z,
                key: ['%0*x' % (digits, i) for i in ids]}).encode(), JSON)
            return r.status, int(json.loads(r.data)['flamegraph'].get('total', 0)) if r.status == 200 else r.data
        ask([1])
        usual, got = cost(s, lambda: [ask([1, 2, 3]) for _ in range(3)][-1])
        same(f'{service}: three', got, (200, 3 * 10**7))
        seconds, got = cost(s, lambda: [ask([*range(n - 1, 4 * n), n - 1]) for _ in range(3)][-1])
        same(f'{service}: many', got, (200, 2 * 10**7))
        check(f'{service}: CPU time', seconds < 4 * usual + 1.5 * SLOWNESS, f'{seconds:.2f} s instead of {usual:.2f} s')


def part(name, value):
    return b'--B\r\nContent-Disposition: form-data; name="%s"\r\n\r\n' % name.encode() + value + b'\r\n'


def expressions(s):
    name = 'a' * 400 + 'c'
    body = profile([('samples', 'count')], ('cpu', 'nanoseconds', 1), {(name,): [1]}, T)
    slow = '(a?){200}a{200}[xy]'
    form = part('profile', body) + part('focus', slow.encode()) + b'--B--\r\n'
    r = s.ask('POST', '/api/v1/flame', form, {'Content-Type': 'multipart/form-data; boundary=B'})
    check('a slow filter', r.status == 400 and b'takes too long' in r.data, (r.status, r.data))
    # What only backtracks is answered.
    form = part('profile', body) + part('focus', b'^(a?){40}a{40}[xy]') + b'--B--\r\n'
    seconds, r = cost(s, lambda: s.ask('POST', '/api/v1/flame', form, {'Content-Type': 'multipart/form-data; boundary=B'}))
    check('a filter that backtracks', r.status == 200 and b'matched no samples' in r.data and seconds < 0.5, (seconds, r.status, r.data))
    s.push([({'__name__': 'process_cpu', 'service_name': name}, cpu_profile({('main',): 1}, T))])
    for method, request in [
            ('SelectMergeStacktraces', {'profileTypeID': CPU, 'labelSelector': '{service_name=~"%s"}' % slow}),
            ('SelectSeries', {'profileTypeID': CPU, 'labelSelector': '{service_name=~"%s"}' % slow, 'step': 15}),
            ('LabelNames', {'matchers': ['{service_name=~"%s"}' % slow]}), ('Series', {'matchers': ['{service_name=~"%s"}' % slow]})]:
        r = s.ask('POST', QUERIER + method, json.dumps({'start': A, 'end': Z, **request}).encode(), JSON)
        check(f'{method}: a slow expression', r.status == 400 and b'takes too long' in r.data, (r.status, r.data))
    many = '{%s}' % ','.join('a%d!="x"' % i for i in range(300))
    r = s.ask('POST', QUERIER + 'LabelNames', json.dumps({'start': A, 'end': Z, 'matchers': [many]}).encode(), JSON)
    check('many matchers', r.status == 400 and b'matchers' in r.data, (r.status, r.data))
    r = s.ask('POST', QUERIER + 'SelectSeries', json.dumps({
        'start': A, 'end': Z, 'step': 15, 'profileTypeID': CPU, 'labelSelector': '{}', 'groupBy': ['l%d' % i for i in range(100)]}).encode(), JSON)
    check('many groups', r.status == 400 and b'group_by' in r.data, (r.status, r.data))


def numbers(s):
    query = CPU + '{}'
    for when in '99999999999', '9' * 19, '9' * 30, 'now+300y':
        for path, parameters in [('/render', {'query': query, 'from': 'now-1h', 'until': when}),
                                 ('/pyroscope/render', {'query': query, 'from': when, 'until': 'now'}),
                                 ('/render-diff', {'leftQuery': query, 'rightQuery': query, 'leftFrom': 'now-1h', 'rightUntil': when}),
                                 ('/label-values', {'label': 'service_name', 'until': when}), ('/labels', {'from': when}),
                                 ('/api/v1/functions/series', {'query': query, 'function': 'f', 'until': when}),
                                 ('/api/v1/debuginfo', {'missing': 1, 'until': when})]:
            r = s.ask('GET', path, query=parameters)
            check(f'{path} {when}', r.status == 400 and b'out of range' in r.data, (r.status, r.data))
        r = s.ask('POST', '/ingest', b'main;a 5\n', query={'name': 'far.cpu', 'from': when, 'until': when})
        check(f'/ingest {when}', r.status == 400 and b'out of range' in r.data, (r.status, r.data))
    same('render long ago', s.ask('GET', '/render', query={'query': query, 'from': 'now-90y', 'until': 'now'}).status, 200)
    top = 2**63 - 1
    for start, end in (1, top), (top, top), (-top, top), (1, top // 10**6), (-5, 5), (1, '9' * 19), ('-' + '9' * 25, 5), (1.5, 5), (1e300, 1e300):
        for method, more in ('SelectMergeStacktraces', {}), ('SelectMergeProfile', {}), ('SelectSeries', {'step': 1e9}), ('LabelNames', {}), ('Series', {}), ('Diff', None):
            request = {'profileTypeID': CPU, 'labelSelector': '{}', 'start': start, 'end': end, **(more or {})}
            if more is None:
                request = {'left': request, 'right': request}
            r = s.ask('POST', QUERIER + method, json.dumps(request).encode(), JSON)
            check(f'{method} {start} {end}', r.status == 400, (r.status, r.data))
    for step in 0, -1, 1e-9, 1e300, 'NaN', 'Infinity':
        r = s.ask('POST', QUERIER + 'SelectSeries', json.dumps({'profileTypeID': CPU, 'labelSelector': '{}', 'start': A, 'end': Z, 'step': step}).encode(), JSON)
        same(f'step {step}', r.status, 400)
    r = s.ask('POST', QUERIER + 'SelectSeries', json.dumps({'profileTypeID': CPU, 'labelSelector': '{}', 'start': 1, 'end': top // 10**6 - 1, 'step': 1e9, 'exemplarType': 'EXEMPLAR_TYPE_INDIVIDUAL'}).encode(), JSON)
    same('the largest range and step', r.status, 200)
    r = s.ask('GET', '/render', query={'query': query, 'from': 'now-1h', 'until': 'now', 'format': 'dot', 'max-nodes': top})
    same('a graph of very many nodes', r.status, 200)
    # Values whose sums exceed 64 bits.
    large = {('main', f'f{i}'): [2**62, 2**62] for i in range(9)}
    for i in range(3):
        s.push([({'__name__': 'process_cpu', 'service_name': 'large'}, profile([('samples', 'count'), ('cpu', 'nanoseconds')], ('cpu', 'nanoseconds', 1), large, T + i))])
    for method, more in ('SelectMergeProfile', {'maxNodes': 2}), ('SelectSeries', {'step': 15, 'exemplarType': 'EXEMPLAR_TYPE_INDIVIDUAL'}):
        r = s.ask('POST', QUERIER + method, json.dumps({'profileTypeID': CPU, 'labelSelector': '{service_name="large"}', 'start': A, 'end': Z, **more}).encode(), JSON)
        same(f'{method} of large values', r.status, 200)
    same('render of large values', s.ask('GET', '/render', query={'query': CPU + '{service_name="large"}', 'from': T - 60, 'until': T + 60}).status, 200)


def metrics(s):
    """/metrics opens no day: it costs about what any other answer costs."""
    s.push([({'__name__': 'process_cpu', 'service_name': 'old'}, cpu_profile({('main',): 1}, T - d * 86400)) for d in range(25)])
    plain, _ = cost(s, lambda: [s.ask('GET', '/api/v1/status/buildinfo') for _ in range(100)])
    seconds, answers = cost(s, lambda: [s.ask('GET', '/metrics') for _ in range(100)])
    check('/metrics with many days', all(r.status == 200 for r in answers) and seconds < 3 * plain + 0.1 * SLOWNESS, f'{seconds:.2f} s, others {plain:.2f} s')


def main(kiln):
    with temporary() as folder:
        s = Server(kiln, folder)
        for part_of in floods, json_bombs, spans, expressions, numbers, metrics:
            part_of(s)
        same('the server goes on', s.ask('GET', '/healthz').status, 200)
        same('it ends', s.stop(), 0)
        check('no undefined behavior', 'runtime error' not in s.log_text(), s.log_text()[-600:])


if __name__ == '__main__':
    import sys

    from harness import finish
    main(os.path.abspath(sys.argv[1]))
    finish()
