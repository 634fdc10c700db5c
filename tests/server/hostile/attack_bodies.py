"""Attacks by what a body contains: bombs, floods of colliding strings, floods of honest data."""
import collections
import contextlib
import gzip
import json
import os
import random
import struct
import subprocess
import sys
import threading
import time
import zlib

from clients import push_body
from crowd import BAD, HOUR, JSON, PROTO, PUSH, QUERIER, Crowd, at_once, bearer, labels_of
from harness import cpu_profile, field, message, packed, until
from scenario import scenario

GZIP = {'Content-Encoding': 'gzip'}
LOAD = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'load.py')
JSON_PATHS = (QUERIER + 'LabelNames', PUSH, '/ingest?name=a.cpu&format=speedscope', '/v1development/profiles', '/api/v1/flame')


def repeated(first, unit, times, last):
    """gzip of first + unit * times + last, made without compressing it all: the compressed unit repeats."""
    z = zlib.compressobj(9, zlib.DEFLATED, -15)
    out = [b'\x1f\x8b\x08\0\0\0\0\0\0\xff', z.compress(first) + z.flush(zlib.Z_FULL_FLUSH)]
    block = unit * max(1, (1 << 20) // len(unit))
    z1 = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed_block = z1.compress(block) + z1.flush(zlib.Z_FULL_FLUSH)
    n = max(1, times * len(unit) // len(block))
    out += [packed_block] * n
    z2 = zlib.compressobj(9, zlib.DEFLATED, -15)
    out.append(z2.compress(last) + z2.flush())
    crc = zlib.crc32(first)
    for _ in range(n):
        crc = zlib.crc32(block, crc)
    crc = zlib.crc32(last, crc)
    size = len(first) + n * len(block) + len(last)
    return b''.join(out) + struct.pack('<II', crc, size & 0xffffffff)


@scenario('zip bombs')
def zip_bombs(ctx):
    zeros = repeated(b'', bytes(1024), 1 << 19, b'')  # 512 MiB
    nested = gzip.compress(zeros)
    profile = push_body(labels_of('bomb'), zeros)
    many = b''.join(push_body(labels_of('bomb'), repeated(b'', bytes(1024), 60 << 10, b'')) for _ in range(40))  # each within the limit
    with Crowd(ctx) as c:
        h = bearer(BAD)
        calls = [
            lambda: c.server.post(PUSH, zeros, {**h, **PROTO, **GZIP}),
            lambda: c.server.post(PUSH, nested, {**h, **PROTO, **GZIP}),
            lambda: c.server.post(PUSH, profile, {**h, **PROTO}),
            lambda: c.server.post(PUSH, many, {**h, **PROTO}),
            lambda: c.server.post('/ingest?name=bomb.cpu&format=pprof', zeros, h),
            lambda: c.server.post('/ingest?name=bomb.cpu', zeros, {**h, **GZIP}),
            lambda: c.server.post(QUERIER + 'LabelNames', zeros, {**h, **JSON, **GZIP}),
            lambda: c.server.post('/v1development/profiles', zeros, {**h, 'Content-Type': 'application/x-protobuf', **GZIP}),
            lambda: c.server.post('/api/v1/debuginfo/upload', zeros, {**h, 'Content-Type': 'application/octet-stream', **GZIP}),
        ]
        with c.attack('zip bombs'):
            results = at_once(calls * 2)
        for i, r in enumerate(results[:len(calls)]):
            ctx.check(f'bomb {i}: refused', r and isinstance(r[0], int) and 400 <= r[0] < 500, r and (r[0], r[1][:150]))
        ctx.check('memory is returned', until(lambda: c.server.rss() < ctx.memory // 2, 10), f'{c.server.rss()} MiB')


@scenario(7)
def json_bombs(ctx):
    """Small bodies that become many JSON values."""
    bodies = [repeated(b'[', b'{},', 21 << 20, b'{}]'), repeated(b'{"a":[', b'[],', 21 << 20, b'0]}'),
              repeated(b'{"series":[', b'{"labels":[{}]},', 4 << 20, b'{}]}'), repeated(b'[', b'1,', 32 << 20, b'1]'),
              repeated(b'{', b'"":{},', 10 << 20, b'"a":1}')]
    with Crowd(ctx) as c:
        calls = [lambda p=path, b=body: c.server.post(p, b, {**bearer(BAD), **JSON, **GZIP}) for path in JSON_PATHS for body in bodies]
        with c.attack('JSON bombs'):
            results = at_once(calls)
        ctx.check('all are refused', all(r and isinstance(r[0], int) and 400 <= r[0] < 500 for r in results), [r and (r[0], r[1][:60]) for r in results][:8])
        ctx.check('memory is returned', until(lambda: c.server.rss() < ctx.memory // 2, 10), f'{c.server.rss()} MiB')


@scenario('deep JSON')
def deep_json(ctx):
    n = 1 << 20
    bodies = [b'[' * n, b'[' * n + b']' * n, b'{"a":' * n + b'1' + b'}' * n, b'{"series":[' * (n // 8),
              b'{"profile":' + b'{"labelSelector":' * (n // 16) + b'1' + b'}' * (n // 16 + 1), b'[[],' * n, b'"' + b'\\u0000' * n + b'"', b'-' * n, b'1' * n,
              b'{"' + b'a' * n + b'":1}', b'\xff' * n, b'\xef\xbb\xbf[]', b'nul', b'[1,]', b'"\\ud800"', b'']
    with Crowd(ctx) as c:
        with c.attack('deep JSON'):
            for path in JSON_PATHS:
                for i, body in enumerate(bodies):
                    status, data = c.server.post(path, gzip.compress(body, 1), {**bearer(BAD), **JSON, **GZIP})
                    ctx.check(f'{path} body {i}: answered', isinstance(status, int) and status < 500, (status, data[:100]))


def colliding(n):
    """Strings of one hash under the unkeyed hash that kiln had: the first word cancels the length's mixing."""
    first = struct.pack('<Q', 16 ^ 0x9e3779b97f4a7c15)
    return [first + struct.pack('<Q', i) for i in range(n)]


def profile_of_strings(strings):
    base = [b'', b'samples', b'count', b'cpu', b'nanoseconds', b'main', b'a.c']
    return b''.join([field(1, message((1, 1), (2, 2))), field(11, message((1, 3), (2, 4))), field(12, 1),
                     field(5, message((1, 1), (2, 5), (3, 5), (4, 6))), field(4, message((1, 1)) + field(4, message((1, 1), (2, 1)))),
                     field(2, packed(1, [1]) + packed(2, [1])), *(field(6, s) for s in base + strings),
                     message((9, time.time_ns()), (10, 10**9))])


@scenario(6)
def hash_flood(ctx):
    n = 30000
    flood = gzip.compress(profile_of_strings(colliding(n)), 6)
    plain = gzip.compress(profile_of_strings([b'ordinary%08d' % i for i in range(n)]), 6)
    with Crowd(ctx) as c:
        def cost(body):
            before = c.server.cpu()
            at_once([lambda: c.server.post('/ingest?name=v.cpu&format=pprof', body, bearer(BAD))] * 4)
            return c.server.cpu() - before
        ordinary = cost(plain)
        with c.attack('colliding strings'):
            took = cost(flood)
        ctx.check('cost no more than others', took <= 3 * ordinary + 0.5, f'{took:.2f} s of CPU, ordinary strings {ordinary:.2f} s')


@scenario(8)
def quadratic_pack(ctx):
    """Span ids ascend while nodes descend: rows that packing must not sort by insertion."""
    nodes, rows = 40000, 80000
    width = int(nodes ** 0.5) + 1
    strings = [b'', b'samples', b'count', b'cpu', b'nanoseconds', b'span_id'] + [b'%x' % (i + 1) for i in range(rows)]

    def sample(node, span):
        return field(2, packed(1, [width + node % width + 1, node // width + 1]) + b'\x12\x01\x01' + field(3, message((1, 5), (2, 6 + span))))
    body = b''.join([field(1, message((1, 1), (2, 2))), field(11, message((1, 3), (2, 4))), field(12, 1),
                     *(field(4, message((1, k + 1), (3, 0x1000 + k))) for k in range(2 * width)),
                     *(sample(i, rows - 1 - i) for i in range(nodes)),
                     *(sample(nodes - 1 - i % 1000, i) for i in range(rows - nodes)),
                     *(field(6, s) for s in strings), message((9, time.time_ns()), (10, 10**9))])
    with Crowd(ctx) as c:
        with c.attack('rows in the worst order'):
            before = c.server.cpu()
            status, data = c.server.post(PUSH, push_body(labels_of('v'), gzip.compress(body, 1)), {**PROTO, **bearer(BAD)})
            took = c.server.cpu() - before
        ctx.check('answered', status in (200, 400, 429), (status, data[:100]))
        ctx.check('in reasonable time', took < 2.5, f'{took:.1f} s of CPU')


@scenario('quadratic types')
def many_types(ctx):
    """A profile of many types beside a list of many types: each is not looked up in the list."""
    def body(types):
        strings = [b'', b'samples', b'count', b'cpu', b'nanoseconds'] + [b'type%d' % i for i in range(types)]
        sent = b''.join([*(field(1, message((1, 5 + i), (2, 2))) for i in range(types)), field(2, packed(2, [1] * types)), *(field(6, s) for s in strings)])
        listed = json.dumps({'t%d' % i: {} for i in range(100000)}).encode()
        return b''.join(b'--B\r\nContent-Disposition: form-data; name="%s"; filename="x"\r\n\r\n%s\r\n' % part
                        for part in ((b'profile', sent), (b'sample_type_config', listed))) + b'--B--\r\n'
    with Crowd(ctx) as c:
        def cost(types):
            before = c.server.cpu()
            answer = c.server.post('/ingest?name=v', body(types), {**bearer(BAD), 'Content-Type': 'multipart/form-data; boundary=B'})
            return c.server.cpu() - before, answer
        ordinary, _ = cost(10)
        with c.attack('many types', least=1):
            took, answer = cost(20000)
        ctx.check('refused', answer[0] in (400, 422), answer)
        ctx.check('costs no more than a few', took <= 5 * ordinary + 0.5, f'{took:.2f} s of CPU, a few types {ordinary:.2f} s')


@scenario(10)
def many_days(ctx):
    """Profiles of thousands of days in one request open no thousand databases."""
    base = cpu_profile({('a', 'b'): 1}, 0)
    with Crowd(ctx) as c:
        before, most, done = c.server.descriptors(), [0], threading.Event()

        def watch():
            while not done.wait(0.02):
                with contextlib.suppress(OSError):
                    most[0] = max(most[0], c.server.descriptors())
        watcher = threading.Thread(target=watch)
        watcher.start()
        now = time.time_ns()
        for what, times in (('from 1971 on', [(366 + i) * 24 * HOUR + 1 for i in range(600)]),
                            ('of the last two years', [now - i * 24 * HOUR for i in range(600)]),
                            ('of the next year', [now + i * 24 * HOUR for i in range(300)])):
            body = gzip.compress(b''.join(push_body(labels_of('v'), base + field(9, t)) for t in times), 1)
            with c.attack(what, least=1):
                status, data = c.server.post(PUSH, body, {**PROTO, **bearer(BAD), **GZIP})
            ctx.check(f'{what}: answered', isinstance(status, int) and status < 500, (status, data[:150]))
        done.set()
        watcher.join()
        ctx.check('descriptors', most[0] < before + 150, f'{before} before, {most[0]} at the most')
        days = [f for _, _, files in os.walk(c.folder.name) for f in files if f.endswith('.db')]
        ctx.check('databases', len(days) < 60, len(days))


@scenario(10)
def months(ctx):
    """Pushes with a profile of each day of a month, which are as many commits: others do not wait for all of them."""
    now, seconds = time.time_ns(), 5
    with Crowd(ctx) as c:
        def attack(number):
            results, end = [], time.monotonic() + seconds
            for i in range(10**6):
                if time.monotonic() > end:
                    return results
                body = b''.join(push_body(labels_of('v%d' % number), cpu_profile({('a', 'b%d' % i): 1}, (now - day * 24 * HOUR) / 1e9)) for day in range(30))
                results.append(c.server.post(PUSH, gzip.compress(body, 1), {**PROTO, **bearer(BAD), **GZIP}, timeout=30))
        with c.attack('a month in each push'):
            results = at_once([lambda i=i: attack(i) for i in range(4)], seconds + 40)
        statuses = [status for r in results for status, _ in r or [(None, b'')]]
        ctx.check('stored, or told to come again', len(statuses) > 3 and set(statuses) <= {200, 429, 503}, collections.Counter(statuses))


@scenario(14)
def oversized_service(ctx):
    """A service whose symbols do not fit is refused alone; its tenant's other services are stored. The
    well-behaved clients are the oversized service's own tenant."""
    def fat(i, n=10000):
        strings = [b'', b'samples', b'count', b'cpu', b'nanoseconds', b'a.c'] + [b'generated.Lambda$%d$%d.apply(Ljava/lang/Object;)V' % (i, k) for k in range(n)]
        out = [field(1, message((1, 1), (2, 2))), field(11, message((1, 3), (2, 4))), field(12, 1)]
        for k in range(n):
            out.append(field(5, message((1, k + 1), (2, 6 + k), (3, 6 + k), (4, 5))) + field(4, message((1, k + 1)) + field(4, message((1, k + 1), (2, 1)))))
            if k % 50 == 49:
                out.append(field(2, packed(1, range(k - 48, k + 2)) + packed(2, [1])))
        return push_body(labels_of('fat'), b''.join([*out, *(field(6, x) for x in strings), message((9, time.time_ns()), (10, 10**9))]))
    with Crowd(ctx, {'memory': '32MiB'}, token=BAD) as c:
        h, refused = {**PROTO, **bearer(BAD)}, 0
        for i, n in enumerate([10000] * 20 + [2000] * 20):
            status, data = c.server.post(PUSH, fat(i, n), h)
            refused += n == 2000 and status == 429
            if refused > 1:
                break
        # Symbols that are in ClickHouse take no memory here.
        ctx.check('the oversized service is refused at last', refused or ctx.remote, (status, data[:100]))
        bodies, others = [fat(1000 + i, 2000) for i in range(20)], []
        with c.attack('20 oversized pushes a second', least=3):
            start = time.monotonic()
            for i in range(60):
                threading.Thread(target=c.server.post, args=(PUSH, bodies[i % 20], h), daemon=True).start()
                for _ in range(2):  # at the same moment, to be stored together
                    others.append(c.server.post(PUSH, push_body(labels_of('other'), cpu_profile({('a',): 1}, time.time())), h)[0])
                time.sleep(max(0, start + (i + 1) / 20 - time.monotonic()))
        ctx.same('pushes of another service beside it', others.count(200), len(others))
        if ctx.remote:
            return
        refusals = [c.server.ask('POST', PUSH, bodies[i], h) for i in range(12)]
        waits = [r.getheader('Retry-After') for r in refusals if r.status == 429]
        ctx.check('refusals say when to come back', waits and all(w and w.isdigit() and int(w) > 0 for w in waits), waits)
        ctx.check('not all at the same time', len(set(waits)) > 1, waits)


@scenario('a busy tenant')
def floods(ctx):
    """One tenant's 32 connections push, or ask, as fast as they can."""
    random.seed(1)
    stacks = {tuple(f'function_{random.randrange(400)}' for _ in range(12)): random.randrange(1, 90) for _ in range(480)}
    with Crowd(ctx) as c:
        bodies = {'strangers': (PUSH, 'application/proto', bytes(1000)),
                  'pushes': (PUSH, 'application/proto', push_body(labels_of('busy'), cpu_profile(stacks, time.time()))),
                  'queries': (QUERIER + 'SelectMergeProfile', 'application/json', json.dumps({
                      'profileTypeID': 'process_cpu:cpu:nanoseconds:cpu:nanoseconds', 'labelSelector': '{}',
                      'start': int(time.time() * 1000) - 600000, 'end': int(time.time() * 1000) + 60000}).encode())}
        for what, (path, kind, body) in bodies.items():
            name = f'{c.folder.name}/body'
            with open(name, 'wb') as file:
                file.write(body)
            with c.attack(f'a flood of {what}'):
                done = subprocess.run([sys.executable, LOAD, str(c.server.port), '32', '2.5', 'nobody' if what == 'strangers' else BAD, path, kind, name], capture_output=True, text=True, timeout=120)
            ctx.check(f'{what}: some are answered', ('"401"' if what == 'strangers' else '"200"') in done.stdout, done.stdout[:300] + done.stderr[-300:])


@scenario('many names')
def many_names(ctx):
    """Thousands of services, series and tenants of one sender."""
    base = cpu_profile({('a', 'b'): 1}, time.time())
    with Crowd(ctx) as c:
        for what, make in (('services', lambda i: labels_of(f'service-{i}')), ('series', lambda i: labels_of('v', pod=f'pod-{i}')),
                           ('label names', lambda i: labels_of('v', **{f'label_{i}': 'x'}))):
            with c.attack(f'600 {what}', least=1):
                for at in range(0, 600, 200):
                    body = gzip.compress(b''.join(push_body(make(i), base) for i in range(at, at + 200)), 1)
                    status, data = c.server.post(PUSH, body, {**PROTO, **bearer(BAD), **GZIP})
                    ctx.check(f'{what}: answered', status in (200, 400, 429), (status, data[:150]))
    with Crowd(ctx, settings='multitenant: true\n', token='') as c:
        before = c.server.descriptors()
        with c.attack('200 tenants', least=1):
            for i in range(200):
                c.server.post(PUSH, push_body(labels_of('v'), base), {**PROTO, 'X-Scope-OrgID': f'tenant-{i}'})
        # With 128 MiB 256 days may be open, three descriptors each.
        ctx.check('descriptors', c.server.descriptors() < before + 3 * 256 + 50, f'{before} before, {c.server.descriptors()} now')
