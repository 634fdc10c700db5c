"""Attacks by what is asked: costly queries, regular expressions, answers that nobody reads."""
import gzip
import json
import socket
import threading
import time

from attack_bodies import GZIP
from clients import push_body
from crowd import BAD, CPU, JSON, PROTO, PUSH, QUERIER, Crowd, at_once, bearer, head, labels_of, last_hour
from harness import Profile, cpu_profile, field, message, packed, until
from scenario import scenario

QUERY_TIME = 2
DEADLINE = {'query_time': f'{QUERY_TIME}s'}
LATE = 3 * QUERY_TIME  # seconds that a client waits at the most: the answer is 504, long before
SAMPLES = 'process_cpu:samples:count:cpu:nanoseconds'


def with_spans(rows, width=300):
    """A profile with a span id of its own on every sample."""
    strings = [b'', b'samples', b'count', b'cpu', b'nanoseconds', b'span_id'] + [b'%x' % (i + 1) for i in range(rows)]
    return b''.join([field(1, message((1, 1), (2, 2))), field(11, message((1, 3), (2, 4))), field(12, 1),
                     *(field(4, message((1, k + 1), (3, 0x1000 + k))) for k in range(2 * width)),
                     *(field(2, packed(1, [width + i % width + 1, i // width % width + 1]) + b'\x12\x01\x01' + field(3, message((1, 5), (2, 6 + i))))
                       for i in range(rows)),
                     *(field(6, s) for s in strings), message((9, time.time_ns()), (10, 10**9))])


def calms_down(ctx, c, what):
    """When nobody waits for the answers any more, the server stops working on them."""
    def idle():
        before = c.server.cpu()
        time.sleep(0.5)
        return c.server.cpu() - before < 0.25
    ctx.check(f'{what}: the work ends when the clients leave', until(idle, 8), 'still busy after 8 s')


@scenario(9)
def costly_spans(ctx):
    """Samples times spans."""
    with Crowd(ctx, DEADLINE) as c:
        status, data = c.server.post(PUSH, push_body(labels_of('v'), gzip.compress(with_spans(80000), 1)), {**PROTO, **bearer(BAD)})
        ctx.check('setup', status == 200, (status, data[:100]))
        query = gzip.compress(json.dumps({**last_hour(), 'profileTypeID': SAMPLES, 'labelSelector': '{}',
                                          'spanSelector': ['%016x' % (0xfff0000000000000 + i) for i in range(60000)]}).encode(), 6)
        with c.attack('span queries', least=3):
            results = at_once([lambda: c.server.post(QUERIER + 'SelectMergeSpanProfile', query, {**JSON, **GZIP, **bearer(BAD)}, timeout=LATE)] * 8, LATE + 1)
        ctx.check('answered in time', all(r and r[0] in (200, 400, 413, 429, 503, 504) for r in results),
                  [r and (r[0], r[1][:100]) for r in results])
        late = [r[1] for r in results if r and r[0] == 504]
        ctx.check('504 says why', all(b'"message"' in data for data in late), late[:1])
        calms_down(ctx, c, 'spans')


def form(**parts):
    return b''.join(b'--B\r\nContent-Disposition: form-data; name="%s"\r\n\r\n' % name.encode() + value + b'\r\n' for name, value in parts.items()) + b'--B--\r\n'


@scenario(9)
def regex_bombs(ctx):
    """Regular expressions that backtrack, below the match limit of each name and above all patience together."""
    k, n = 18, 4000
    p = Profile([('samples', 'count')], ('cpu', 'nanoseconds', 1), time=time.time_ns(), duration=10**9)
    for i in range(n):
        p.sample([p.location([(p.function('a' * k + 'c%d' % i), 1, 0)], 0, 16 * i + 1)], [1])
    zipped = gzip.compress(p.bytes(), 6)
    bomb = ('^(a?){%d}a{%d}[xy]' % (k, k)).encode()
    with Crowd(ctx, DEADLINE) as c:
        with c.attack('focus, ignore, hide', least=3):
            kind = {'Content-Type': 'multipart/form-data; boundary=B', **bearer(BAD)}
            bodies = [form(profile=zipped, **{name: bomb}) for name in ('focus', 'ignore', 'hide', 'show')]
            results = at_once([lambda b=b: c.server.post('/api/v1/flame', b, kind, timeout=LATE) for b in bodies * 2], LATE + 1)
        ctx.check('focus: answered in time', all(r and r[0] in (200, 400, 422, 429, 503, 504) for r in results),
                  [r and (r[0], r[1][:100]) for r in results])
        calms_down(ctx, c, 'focus')
        # Label values that a matcher's expression has to be tried on.
        series = b''.join(push_body(labels_of('v', pod='a' * k + 'c%d' % i), cpu_profile({('m',): 1}, time.time())) for i in range(300))
        status, data = c.server.post(PUSH, series, {**PROTO, **bearer(BAD)})
        ctx.check('setup', status == 200, (status, data[:100]))
        with c.attack('matchers', least=3):
            matchers = ['{pod=~"%s"}' % bomb.decode(), '{pod!~"(a+)+$"}', '{pod=~"(a|aa)+$"}', '{pod=~"%s"}' % ('(' * 5000 + ')' * 5000), '{pod=~"a{65535}{65535}"}',
                        '{pod=~"%s"}' % ('a?' * 5000), '{pod=~"(?R)"}', '{pod=~"%s"}' % ('[' * 5000)]
            calls = []
            for m in matchers:
                body = json.dumps({**last_hour(), 'profileTypeID': CPU, 'labelSelector': m, 'matchers': [m]}).encode()
                calls += [lambda b=body, name=name: c.server.post(QUERIER + name, b, {**JSON, **bearer(BAD)}, timeout=LATE) for name in ('SelectMergeStacktraces', 'LabelNames')]
            results = at_once(calls, LATE + 1)
        ctx.check('matchers: answered in time', all(r and r[0] in (200, 400, 429, 503, 504) for r in results),
                  [r and (r[0], r[1][:100]) for r in results])
        calms_down(ctx, c, 'matchers')


@scenario('huge queries')
def huge_queries(ctx):
    """Selectors, label lists and batches of absurd size."""
    with Crowd(ctx) as c:
        base = {**last_hour(), 'profileTypeID': CPU, 'labelSelector': '{}'}
        queries = [('SelectMergeStacktraces', {**base, 'labelSelector': '{' + ','.join('l%d="v"' % i for i in range(50000)) + '}'}),
                   ('SelectMergeStacktraces', {**base, 'labelSelector': '{a="' + 'x' * (4 << 20) + '"}'}),
                   ('Series', {**last_hour(), 'labelNames': ['l%d' % i for i in range(200000)]}),
                   ('LabelNames', {**last_hour(), 'matchers': ['{l%d="v"}' % i for i in range(50000)]}),
                   ('SelectSeries', {**base, 'start': 0, 'end': 2**53, 'step': 0.001}),
                   ('SelectSeries', {**base, 'start': 0, 'step': 1, 'groupBy': ['l%d' % i for i in range(100000)]}),
                   ('SelectMergeProfile', {**base, 'profileIdSelector': ['x%d' % i for i in range(200000)]}),
                   ('SelectMergeStacktraces', {**base, 'traceIdSelector': ['%032x' % i for i in range(200000)]}),
                   ('SelectMergeStacktraces', {**base, 'maxNodes': 2**62})]
        with c.attack('huge queries'):
            results = at_once([lambda m=m, q=q: c.server.post(QUERIER + m, gzip.compress(json.dumps(q).encode(), 1), {**JSON, **GZIP, **bearer(BAD)}, timeout=10)
                               for m, q in queries], 12)
        ctx.check('answered', all(r and r[0] in (200, 400, 413, 429, 503, 504) for r in results), [r and (r[0], r[1][:100]) for r in results])


def large_profile(n):
    strings = [b'', b'samples', b'count', b'cpu', b'nanoseconds', b'a.c'] + [b'com.example.some.pack.Service$%d.method_with_a_long_name_%d' % (i, i) for i in range(n)]
    out = [field(1, message((1, 1), (2, 2))), field(11, message((1, 3), (2, 4))), field(12, 1)]
    for i in range(n):
        out.append(field(5, message((1, i + 1), (2, 6 + i), (3, 6 + i), (4, 5))) + field(4, message((1, i + 1)) + field(4, message((1, i + 1), (2, 1)))))
        out.append(field(2, packed(1, [i + 1, 1]) + packed(2, [1])))
    return b''.join([*out, *(field(6, s) for s in strings), message((9, time.time_ns()), (10, 10**9))])


@scenario(11)
def slow_readers(ctx):
    """Large answers that nobody reads hold no memory beyond the limit."""
    with Crowd(ctx) as c:
        status, data = c.server.post(PUSH, push_body(labels_of('big'), gzip.compress(large_profile(40000), 1)), {**PROTO, **bearer(BAD)})
        ctx.check('setup', status == 200, (status, data[:100]))
        query = json.dumps({**last_hour(), 'profileTypeID': SAMPLES, 'labelSelector': '{}'}).encode()
        status, data = c.server.post(QUERIER + 'SelectMergeProfile', query, {**JSON, **bearer(BAD)})
        ctx.check('the answer is large', status == 200 and len(data) > 2 << 20, (status, len(data)))
        request = head('POST', QUERIER + 'SelectMergeProfile', BAD, len(query), 'Content-Type: application/json') + query
        sockets = []
        with c.attack('answers that nobody reads', least=4):
            for _ in range(100):
                s = socket.socket()
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                s.connect(('127.0.0.1', c.server.port))
                s.sendall(request)
                sockets.append(s)
            for _ in range(30):
                time.sleep(0.1)
                for s in sockets[::2]:
                    s.setblocking(False)
                    try:
                        s.recv(512)
                    except OSError:
                        pass
        for s in sockets:
            s.close()
        ctx.check('memory is returned', until(lambda: c.server.rss() < ctx.memory // 2, 10), f'{c.server.rss()} MiB')


@scenario(17)
def parallel_queries(ctx):
    """A long query of a service does not hold up a short one of the same service and day."""
    with Crowd(ctx) as c:
        h = {**PROTO, **bearer(BAD)}
        for service, body in ('v', with_spans(80000)), ('w', cpu_profile({('a',): 1}, time.time())):
            ctx.check('setup', c.server.post(PUSH, push_body(labels_of(service), gzip.compress(body, 1)), h)[0] == 200)
        short = json.dumps({**last_hour(), 'profileTypeID': SAMPLES, 'labelSelector': '{service_name="v"}', 'maxNodes': 8}).encode()

        def ask():
            start = time.monotonic()
            status, data = c.server.post(QUERIER + 'SelectMergeStacktraces', short, {**JSON, **bearer(BAD)})
            ctx.check('the short query', status == 200, (status, data[:100]))
            return time.monotonic() - start
        alone = min(ask() for _ in range(3))
        slow = gzip.compress(json.dumps({**last_hour(), 'profileTypeID': SAMPLES, 'labelSelector': '{service_name="v"}',
                                         'spanSelector': ['%016x' % (0xfff0000000000000 + i) for i in range(60000)]}).encode(), 6)
        with c.attack('a long query', least=1):
            long = threading.Thread(target=c.server.post, args=(QUERIER + 'SelectMergeSpanProfile', slow, {**JSON, **GZIP, **bearer(BAD)}), kwargs={'timeout': 6}, daemon=True)
            long.start()
            time.sleep(0.3)
            beside = ask()  # only the first: when it has waited, the long query is over
        ctx.check('the short query does not wait', beside < 6 * alone + 0.2, f'{1000 * beside:.0f} ms, alone {1000 * alone:.0f} ms', noisy=True)
