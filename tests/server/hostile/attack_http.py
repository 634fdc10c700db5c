"""Attacks on the HTTP server itself: slow, huge, odd, broken off and too many requests."""
import contextlib
import os
import random
import re
import resource
import select
import socket
import ssl
import struct
import subprocess
import threading
import time

from clients import push_body
from crowd import AUTH, BAD, GOOD, PUSH, QUERIER, Crowd, at_once, head, labels_of
from harness import cpu_profile, temporary, until
from scenario import Skip, scenario
from scopes import routes

REQUEST_TIME = 2
SLOW = {'request_time': f'{REQUEST_TIME}s'}


def is_closed(s):
    """Whether the server has ended the connection; its answers are read and dropped."""
    s.setblocking(False)
    try:
        while True:
            if not s.recv(65536):
                return True
    except BlockingIOError:
        return False
    except OSError:
        return True


def reset(s):
    """Ends a connection with RST."""
    with contextlib.suppress(OSError):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    s.close()


def still_open(sockets):
    return sum(not is_closed(s) for s in sockets)


@scenario('slowloris')
def slow_senders(ctx):
    """Heads and bodies byte by byte: harmless, and cut off after request_time."""
    kinds = {'heads': (b'GET /ready HTTP/1.1\r\nHost: 127.0.0.1\r\n', b'X-Header: value\r\n'),
             'request lines': (b'GET /', b'a'),
             'bodies': (head('POST', PUSH, BAD, 1 << 20, 'Content-Type: application/proto'), b'\n'),
             'chunks': (head('POST', PUSH, BAD, None, 'Transfer-Encoding: chunked'), b'1\r\nx\r\n')}
    with Crowd(ctx, SLOW) as c:
        sockets = {kind: [c.server.socket() for _ in range(60)] for kind in kinds}
        with c.attack('byte by byte'):
            for kind, (first, _) in kinds.items():
                for s in sockets[kind]:
                    s.sendall(first)
            end, at = time.monotonic() + REQUEST_TIME + 0.5, 0
            while time.monotonic() < end:
                for kind, (_, text) in kinds.items():
                    for s in sockets[kind]:
                        with contextlib.suppress(OSError):
                            s.send(text[at % len(text):at % len(text) + 1])
                at += 1
                time.sleep(0.05)
        for kind, these in sockets.items():
            ctx.check(f'{kind}: cut off after request_time', until(lambda: not still_open(these), 5), f'{still_open(these)} of {len(these)} are open')
            for s in these:
                s.close()


@scenario(2)
def silent_bodies(ctx):
    """A head that claims a large body reserves nothing: neither without credentials nor with them."""
    with Crowd(ctx) as c:
        for who, token in ('nobody', None), ('a tenant', BAD):
            with c.attack(f'silent bodies of {who}'):
                sockets = [c.server.socket() for _ in range(16)]
                for path in (PUSH, '/ingest?name=a.cpu', '/api/v1/flame', '/api/v1/debuginfo/upload'):
                    for s in sockets[:4]:
                        s.sendall(head('POST', path, token, 256 << 20, 'Content-Type: application/proto'))
                    sockets = sockets[4:] + sockets[:4]
                time.sleep(2)
                if not token:
                    answers = [s.recv(16)[:12] if select.select([s], [], [], 0)[0] else b'' for s in sockets]
                    ctx.check('nobody: 401 before the body', all(a.endswith(b'401') for a in answers), answers)
            for s in sockets:
                s.close()


def send_quietly(s, data):
    with contextlib.suppress(OSError):
        s.sendall(data)


@scenario(2)
def claimed_sizes(ctx):
    """Bodies that arrive in part, from many connections of one tenant: it may be refused, the others may not."""
    with Crowd(ctx) as c:
        with c.attack('half bodies'):
            sockets = [c.server.socket(2) for _ in range(40)]  # 640 MiB: more than the server may have
            request = head('POST', '/ingest?name=a.cpu&format=pprof', BAD, 200 << 20) + bytes(16 << 20)
            at_once([lambda s=s: send_quietly(s, request) for s in sockets], 5)
            time.sleep(1)
        for s in sockets:
            reset(s)


@scenario('header floods')
def header_floods(ctx):
    with Crowd(ctx, SLOW) as c:
        def refused(what, data, allowed=(400, 413, 414, 431, 500)):
            answer = c.server.raw(data)
            status = int(answer[9:12]) if answer[:5] == b'HTTP/' else 0
            ctx.check(f'{what}: refused or closed', not answer or status in allowed, answer[:80])
        with c.attack('huge heads', least=1):
            refused('1 MB path', head('GET', '/' + 'a' * (1 << 20)), (400, 404, 414, 431))
            refused('1 MB header', head('GET', '/ready', None, None, 'X-A: ' + 'a' * (1 << 20)))
            refused('20,000 headers', head('GET', '/ready', None, None, *(f'X-{i}: {i}' for i in range(20000))))
            refused('1 MB header name', head('GET', '/ready', None, None, 'a' * (1 << 20) + ': x'))
            refused('1 MB without a line end', b'A' * (1 << 20))
            answer = c.server.raw(head('GET', '/ready?' + 'a&' * 14000, None, None, 'Connection: close'))
            ctx.check('14,000 parameters are answered', answer[9:12] == b'200', answer[:80])
        with c.attack('endless headers at full speed'):
            line, threads = b'X-Flood: ' + b'a' * 200 + b'\r\n', []
            end = time.monotonic() + 2.5
            for _ in range(2):
                threads.append(threading.Thread(target=flood_headers, args=(c.server, line * 50, end)))
                threads[-1].start()
            for t in threads:
                t.join()


def flood_headers(server, lines, end):
    while time.monotonic() < end:
        with contextlib.suppress(OSError), server.socket(2) as s:
            s.sendall(b'GET /ready HTTP/1.1\r\nHost: 127.0.0.1\r\n')
            for _ in range(1000):
                if time.monotonic() > end:
                    break
                s.sendall(lines)
                time.sleep(0.001)


@contextlib.contextmanager
def many_descriptors(most):
    """How many sockets the test may open, and the limit of the server."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    n = min(most, hard - 2000)
    if n < 500:
        raise Skip(f'only {hard} descriptors are allowed')
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield n, hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@scenario('10,000 connections')
def many_connections(ctx):
    sockets = []
    with many_descriptors(10000) as (n, hard), contextlib.ExitStack() as at_end:
        at_end.callback(lambda: [s.close() for s in sockets])
        with Crowd(ctx, {'connections': n + 1000}, files=hard) as c:
            # While they come, a new client waits in the kernel's queue behind them.
            with c.attack(f'{n} connections come', skip=('fresh',)):
                for i in range(n):
                    s = c.server.socket()
                    s.sendall([b'', b'GET /rea', b'POST /ingest HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999\r\n\r\n'][i % 3])
                    sockets.append(s)
            with c.attack(f'{n} connections stay', least=1.5):
                pass
            for s in sockets:
                reset(s)
            ctx.check('descriptors are closed', until(lambda: c.server.descriptors() < 200, 10), c.server.descriptors())


@scenario('connection limit')
def connection_limit(ctx):
    """Idle strangers beyond limits.connections: clients that are connected notice nothing, and new ones are served."""
    with Crowd(ctx, {'connections': 200}) as c:
        sockets = []
        with c.attack('idle connections beyond the limit', skip=('fresh',)):
            for _ in range(400):
                s = socket.socket()
                s.setblocking(False)
                s.connect_ex(('127.0.0.1', c.server.port))
                sockets.append(s)
            time.sleep(1)
            with_new = c.server.post('/ready', None, timeout=5, method='GET')[0]
        ctx.same('a new client is served meanwhile', with_new, 200)
        for s in sockets:
            reset(s)
        ctx.same('and afterwards', until(lambda: c.server.post('/ready', None, timeout=2, method='GET')[0] == 200, 10), True)


@scenario('idle connections and memory')
def idle_crowd(ctx):
    """A connection that is kept takes 32 KiB once it has had a request: a server with little memory keeps fewer."""
    with many_descriptors(4000) as (n, hard), Crowd(ctx, {'process_memory': '256MiB', 'memory': '64MiB'}, files=hard) as c:
        sockets = []
        with c.attack('idle connections', memory=ctx.memory if ctx.sanitized else 96, skip=('fresh',)):
            for _ in range(n):
                s = c.server.socket()
                send_quietly(s, head('GET', '/ready'))
                with contextlib.suppress(OSError):
                    s.recv(4096)
                sockets.append(s)
        for s in sockets:
            reset(s)


@scenario('half bodies on all connections')
def crowded_bodies(ctx):
    """Twice as many half bodies of one tenant as connections are kept: new clients are served at once."""
    with Crowd(ctx, {'connections': 200}) as c:
        sockets = []
        with c.attack('half bodies', least=3):
            for _ in range(600):
                s = c.server.socket()
                send_quietly(s, head('POST', PUSH, BAD, 2000, 'Content-Type: application/proto') + b'a')
                sockets.append(s)
        for s in sockets:
            reset(s)


@scenario('half bodies and requests of one tenant')
def crowded_tenant(ctx):
    """Half bodies with the credentials of well-behaved clients, as on a server without credentials: after 2 s, they give way."""
    with Crowd(ctx, {'connections': 200}) as c:
        sockets = []
        for _ in range(200):
            s = c.server.socket()
            send_quietly(s, head('POST', PUSH, GOOD, 2000, 'Content-Type: application/proto') + b'a')
            sockets.append(s)
        time.sleep(2.5)
        with c.attack('half bodies of the same tenant', least=3):
            pass
        for s in sockets:
            reset(s)


@scenario('half bodies of several tenants')
def crowded_tenants(ctx):
    """Each of five tenants has less than its share of the connections, together they would have all that there can be."""
    tenants = [f'token-of-bad-{i}' for i in range(5)]
    tokens = ''.join(f'  - {{token: {token}, scopes: [push], tenants: [bad{i}]}}\n' for i, token in enumerate(tenants))
    with Crowd(ctx, {'connections': 200}, settings=AUTH + tokens) as c:
        sockets = []
        with c.attack('half bodies of five tenants', least=4):
            for token in tenants * 140:
                s = c.server.socket()
                send_quietly(s, head('POST', PUSH, token, 2000, 'Content-Type: application/proto') + b'a')
                sockets.append(s)
        for s in sockets:
            reset(s)


@scenario('answers that nobody reads')
def unread_answers(ctx):
    """Requests without credentials, one after another on each connection, whose answers are never read: neither
    are these connections idle, nor do they belong to a tenant."""
    requests = head('GET', '/metrics') * 4000
    with Crowd(ctx, {'connections': 200}) as c:
        sockets = []
        # While they come, a new client waits in the kernel's queue behind them.
        with c.attack('unread answers', least=4, skip=('fresh',)):
            for i in range(600):
                s = socket.socket()
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                s.setblocking(False)
                s.connect_ex(('127.0.0.1', c.server.port))
                sockets.append(s)
                for each in sockets if i % 50 == 49 else ():
                    with contextlib.suppress(OSError):
                        each.send(requests)
            with_new = c.server.post('/ready', None, timeout=5, method='GET')[0]
        ctx.same('a new client is served meanwhile', with_new, 200)
        for s in sockets:
            reset(s)


STATUS_LINE = re.compile(rb'HTTP/1\.[01] \d\d\d ')


@scenario(2)
def bodies_of_several_tenants(ctx):
    """Three tenants send bodies that fill what each may hold: together they leave something to the others."""
    tenants = [f'token-of-bad-{i}' for i in range(3)]
    tokens = ''.join(f'  - {{token: {token}, scopes: [push], tenants: [bad{i}]}}\n' for i, token in enumerate(tenants))
    size, chunk = 40 << 20, bytes(1 << 20)
    with Crowd(ctx, settings=AUTH + tokens) as c:
        stopping = threading.Event()

        def send(token):
            while not stopping.is_set():
                with contextlib.suppress(OSError), c.server.socket() as s:
                    s.sendall(head('POST', '/ingest?name=large.cpu', token, size))
                    for _ in range(size // len(chunk) - 1):
                        s.sendall(chunk)
                    stopping.wait(1.5)
        def send_slowly():
            """A push of a well-behaved client that takes longer than a transfer may when memory is short."""
            body = push_body(labels_of('slow'), cpu_profile({('main', f'f{i}' * 100): 1 for i in range(1000)}, time.time()))
            with contextlib.suppress(OSError), c.server.socket(30) as s:
                s.sendall(head('POST', PUSH, GOOD, len(body), 'Content-Type: application/proto'))
                for i in range(0, len(body), len(body) // 50 + 1):
                    s.sendall(body[i:i + len(body) // 50 + 1])
                    time.sleep(0.1)
                return s.recv(100)[9:12]
        threads = [threading.Thread(target=send, args=(token,), daemon=True) for token in tenants * 8]
        with c.attack('bodies of three tenants', least=6):
            for t in threads:
                t.start()
            time.sleep(0.5)
            answers = at_once([send_slowly] * 3)
        ctx.same('slow pushes of others are not cut off', answers, [b'200'] * 3)
        stopping.set()
        for t in threads:
            t.join(15)


def count_answers(data):
    """Of a client that leaves when it is told to: libmicrohttpd sends some refusals twice."""
    ends = [m.start() for m in STATUS_LINE.finditer(data)] + [len(data)]
    for i in range(len(ends) - 1):
        if b'connection: close' in data[ends[i]:ends[i + 1]].lower():
            return i + 1
    return len(ends) - 1


HIDDEN = b'GET /hidden HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'


def framed(*lines, body=b'', method='POST', path='/ingest?name=smuggled.cpu', version='HTTP/1.1', host='Host: 127.0.0.1'):
    return '\r\n'.join([f'{method} {path} {version}', *([host] if host else []), *lines, '', '']).encode('latin-1') + body


def smuggling_cases():
    """(what, bytes, whether it must be refused). Others may be answered, once, or refused. Chunks with LF
    instead of CRLF are read by libmicrohttpd before anybody else sees them; what counts is that nothing
    behind them is taken for a request (docs/decisions/0026)."""
    chunk = b'5\r\na;b 1\r\n0\r\n\r\n'
    te = 'Transfer-Encoding: chunked'
    yield 'Content-Length and chunked', framed('Content-Length: 4', te, body=b'0\r\n\r\n' + HIDDEN), False
    yield 'chunked and Content-Length', framed(te, f'Content-Length: {len(HIDDEN) + 5}', body=b'0\r\n\r\n' + HIDDEN), False
    yield 'two lengths', framed('Content-Length: 0', f'Content-Length: {len(HIDDEN)}', body=HIDDEN), True
    yield 'two lengths, reversed', framed(f'Content-Length: {len(HIDDEN)}', 'Content-Length: 0', body=HIDDEN), True
    yield 'a list of lengths', framed(f'Content-Length: 0, {len(HIDDEN)}', body=HIDDEN), True
    for value in ('-1', '+5', '0x5', '5 5', '5;5', '', ' ', '5a', '1e3', '99999999999999999999', '18446744073709551616'):
        yield f'Content-Length: {value!r}', framed(f'Content-Length: {value}', body=b'a;b 1' + HIDDEN), True
    for value in ('xchunked', 'chunked, identity', 'identity, chunked', 'chunked, chunked', 'gzip, chunked', '"chunked"', 'chunked;x=1'):
        yield f'Transfer-Encoding: {value}', framed(f'Transfer-Encoding: {value}', body=chunk + HIDDEN), True
    yield 'Transfer-Encoding twice', framed(te, te, body=chunk + HIDDEN), True
    yield 'two different Transfer-Encodings', framed(te, 'Transfer-Encoding: identity', body=chunk + HIDDEN), True
    yield 'chunked in HTTP/1.0', framed(te, body=chunk + HIDDEN, version='HTTP/1.0'), False
    for size in ('-1', '-5', '0x5', '+5', ' 5', '5 5', 'g', '', 'ffffffffffffffff', '10000000000000005', '7fffffffffffffff', '00000000000000000000000000000005x'):
        yield f'chunk size {size!r}', framed(te, body=size.encode() + b'\r\na;b 1\r\n0\r\n\r\n' + HIDDEN), True
    yield 'a chunk longer than its size', framed(te, body=b'2\r\na;b 1\r\n0\r\n\r\n' + HIDDEN), True
    yield 'a chunk without its line end', framed(te, body=b'5\r\na;b 10\r\n\r\n' + HIDDEN), True
    yield 'bare LF in chunks', framed(te, body=b'5\na;b 1\n0\n\n' + HIDDEN), False
    yield 'an LF in a chunk extension', framed(te, body=b'5;a\na;b 1\r\n0;\n\n' + HIDDEN), False
    yield 'a chunk extension with LF', framed(te, body=b'5;a\nb\r\na;b 1\r\n0\r\n\r\n' + HIDDEN), True
    yield 'a chunk extension of 1 MB', framed(te, body=b'5;' + b'x' * (1 << 20) + b'\r\na;b 1\r\n0\r\n\r\n'), True
    yield 'trailers of 1 MB', framed(te, body=b'0\r\n' + b'X-A: b\r\n' * (1 << 17) + b'\r\n'), True
    yield 'trailers with a length', framed(te, body=b'5\r\na;b 1\r\n0\r\nContent-Length: 99\r\n\r\n'), False
    for n in (1, 2, 3, 4):
        yield f'bare LF, {n}', framed(f'Content-Length: {len(HIDDEN)}', 'X-A: b', body=HIDDEN).replace(b'\r\n', b'\n', n), True
    yield 'bare LF at the end', framed('Content-Length: 0').replace(b'\r\n\r\n', b'\r\n\n') + HIDDEN, True
    yield 'LF CR LF', framed('X-A: b\n', 'Content-Length: 0') + HIDDEN, True
    yield 'bare CR', framed(f'X-A: b\rContent-Length: {len(HIDDEN)}', 'Content-Length: 0', body=b''), True
    yield 'folded header', framed('X-A: b\r\n Content-Length: 5', 'Content-Length: 0'), False
    yield 'folded length', framed('Content-Length:\r\n 40', body=HIDDEN[:40]), False
    yield 'a folded first line', framed(host=' Host: 127.0.0.1'), True
    yield 'space before the colon', framed(f'Content-Length : {len(HIDDEN)}', body=HIDDEN), True
    yield 'tab before the colon', framed(f'Transfer-Encoding\t: chunked', body=chunk + HIDDEN), True
    yield 'an empty name', framed(': x', 'Content-Length: 0'), True
    yield 'an empty name, last', framed('Content-Length: 0', ': x'), True
    yield 'an empty name, first', framed(host=': x'), True
    yield 'a request behind an empty name', framed(':', body=HIDDEN, method='GET', path='/ready'), True
    yield 'only a colon', framed(':', 'Content-Length: 0'), True
    yield 'a header without a colon', framed('nothing', 'Content-Length: 0'), True
    yield 'NUL in a value', framed('X-A: a\0b', 'Content-Length: 0'), True
    yield 'NUL at the end of a value', framed('X-A: a\0', 'Content-Length: 0'), True
    yield 'NUL in a length', framed('Content-Length: 0\x0010', body=b'a;b 1\n' + HIDDEN), True
    yield 'a header behind NULs', framed(f'X-A: a\0\0Content-Length: {len(HIDDEN)}', 'Content-Length: 0', body=HIDDEN), True
    yield 'NUL in the version', framed('Content-Length: 0', version='HTTP/1.1\0'), True
    yield 'NUL in a name', framed('X\0A: b', 'Content-Length: 0'), True
    yield 'NUL in the path', framed('Content-Length: 0', path='/ready\0/x', method='GET'), False
    yield 'a control character in a name', framed('X\x01A: b', 'Content-Length: 0'), True
    yield 'no host', framed('Content-Length: 0', host=None), True
    yield 'two hosts', framed('Host: evil.example', 'Content-Length: 0'), True
    for name, values in (('Authorization', ('Bearer a', 'Bearer b')), ('X-Scope-OrgID', ('a', 'b')), ('Origin', ('http://a', 'http://b'))):
        yield f'two of {name}', framed(*(f'{name}: {value}' for value in values), 'Content-Length: 0'), True
    yield 'an absolute URI of another host', framed(method='GET', path='http://evil.example/ready'), True
    yield 'HTTP/9.9', framed(method='GET', path='/ready', version='HTTP/9.9'), True
    yield 'HTTP/1.10', framed(method='GET', path='/ready', version='HTTP/1.10'), True
    yield 'XTTP/1.1', framed(method='GET', path='/ready', version='XTTP/1.1'), True
    yield 'no version', b'GET /ready\r\n\r\n', False
    yield 'two spaces', framed(method='GET', path=' /ready'), False
    yield 'HTTP/2 preface', b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', True
    yield 'binary', bytes(range(256)) * 8, True
    yield 'a body of GET', framed(f'Content-Length: {len(HIDDEN)}', method='GET', path='/ready', body=HIDDEN), False
    yield 'a body of HEAD', framed(f'Content-Length: {len(HIDDEN)}', method='HEAD', path='/ready', body=HIDDEN), False
    yield 'a body of DELETE', framed(f'Content-Length: {len(HIDDEN)}', method='DELETE', path='/ready', body=HIDDEN), False
    yield 'a body of OPTIONS', framed(f'Content-Length: {len(HIDDEN)}', method='OPTIONS', path='/ready', body=HIDDEN), False


def until_answered(server, data, quiet=0.25):
    """What comes back until the server closes, or is silent after its first answer."""
    answer = b''
    try:
        with server.socket(1) as s:
            s.sendall(data)
            while part := s.recv(65536):
                answer += part
                s.settimeout(quiet)
    except OSError:
        pass
    return answer


@scenario('request smuggling')
def smuggling(ctx):
    """A request that two servers could read in two ways is refused, or answered once and not gone on from."""
    with Crowd(ctx, settings='', token='') as c:
        with c.attack('odd framing', least=1):
            cases = list(smuggling_cases())
            answers = at_once([lambda data=data: until_answered(c.server, data) for _, data, _ in cases])
            for (what, data, must_refuse), answer in zip(cases, answers):
                status = answer[9:12].decode('latin-1') if answer[:5] == b'HTTP/' else 'closed'
                ctx.check(f'{what}: one answer at most', count_answers(answer) <= 1, answer[:400])
                if b'chunked' in data.partition(b'\r\n\r\n')[0] and answer:
                    ctx.check(f'{what}: ends the connection', b'connection: close' in answer.lower(), answer[:200])
                if must_refuse:
                    ctx.check(f'{what}: refused', status == 'closed' or status[:1] in '45', answer[:100])


@scenario('methods')
def methods(ctx):
    """HEAD, OPTIONS and methods that nobody knows, on every route."""
    with Crowd(ctx) as c:
        with c.attack('methods', least=1):
            for path in sorted(routes()) + ['/nothing', '/ui/nothing.js', '*']:
                for method in ('HEAD', 'OPTIONS', 'PUT', 'DELETE', 'TRACE', 'BREW'):
                    answer = c.server.raw(head(method, path, GOOD, 0, 'Connection: close', 'X-Secret: secret'))
                    top, _, body = answer.partition(b'\r\n\r\n')
                    status = int(answer[9:12]) if answer[:5] == b'HTTP/' else 0
                    ctx.check(f'{method} {path}: answered', 200 <= status < 500 or status == 501, answer[:80])
                    if method == 'HEAD':
                        ctx.check(f'HEAD {path}: no body', not body, body[:80])
                    ctx.check(f'{method} {path}: no CORS, nothing echoed', b'Access-Control' not in top and b'secret' not in answer, answer[:300])
                    if method in ('PUT', 'TRACE', 'BREW', 'DELETE'):
                        ctx.check(f'{method} {path}: not done', status >= 400, status)
            answer = c.server.raw(head('A' * 5000, '/ready', None, None, 'Connection: close'))
            ctx.check('a method of 5,000 letters', answer[9:10] != b'2', answer[:60])


@scenario('Expect, HTTP/1.0, pipelining')
def old_and_eager(ctx):
    with Crowd(ctx) as c:
        with c.attack('old and eager clients', least=1):
            # A refusal comes instead of 100 Continue.
            for what, token, length, want in (('nobody', None, 256 << 20, b'401'), ('too large', BAD, 10 << 30, b'413')):
                with c.server.socket(5) as s:
                    s.sendall(head('POST', PUSH, token, length, 'Expect: 100-continue', 'Content-Type: application/proto'))
                    answer = s.recv(1000)
                ctx.check(f'Expect of {what}: refused at once', answer[9:12] == want, answer[:80])
            body = b'a;b 1\n'
            with c.server.socket(5) as s:
                s.sendall(head('POST', '/ingest?name=expected.cpu', GOOD, len(body), 'Expect: 100-continue'))
                first = s.recv(1000)
                s.sendall(body)
                second = s.recv(1000)
            ctx.check('Expect: 100, then 200', (first[9:12], second[9:12]) == (b'100', b'200'), (first[:40], second[:40]))
            answer = c.server.raw(b'GET /ready HTTP/1.0\r\n\r\n')
            ctx.check('HTTP/1.0: answered and closed', answer[9:12] == b'200' and answer.endswith(b'ready\n'), answer[:200])
            answer = until_answered(c.server, b'GET /ready HTTP/1.0\r\nConnection: keep-alive\r\n\r\n' * 2)
            ctx.check('HTTP/1.0 with keep-alive', answer[9:12] == b'200', answer[:100])
            with c.server.socket(5) as s:
                s.sendall(head('GET', '/ready'))
                s.shutdown(socket.SHUT_WR)
                answer = s.recv(100)
            ctx.check('a client that closed its half gets its answer', answer[9:12] == b'200', answer[:60])
            # Heads that arrive in pieces are read as those that come at once.
            whole = head('POST', '/ingest?name=pieces.cpu', GOOD, len(body), *(f'X-{i}: {"v" * (i % 50)}' for i in range(300)))
            with c.server.socket(5) as s:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for at in range(0, len(whole), 61):
                    s.sendall(whole[at:at + 61])
                    time.sleep(0.0005)
                s.sendall(body + head('GET', '/ready'))
                answer = s.recv(1000)
            ctx.check('a head of 300 headers in pieces', answer[9:12] == b'200', answer[:80])
            answer = until_answered(c.server, head('GET', '/ready') * 500 + head('GET', '/nothing'), 1)
            ctx.same('500 pipelined requests', (answer.count(b'200 OK'), answer.count(b'404 Not Found')), (500, 1))
        with c.attack('pipelines that nobody reads'):
            query = b'{"start": 0, "end": 99999999999999}'
            one = head('POST', QUERIER + 'LabelNames', BAD, len(query), 'Content-Type: application/json') + query
            sockets = []
            for _ in range(20):
                s = c.server.socket()
                s.setblocking(False)
                with contextlib.suppress(OSError):
                    s.send(one * 2000)
                sockets.append(s)
            time.sleep(2)
            for s in sockets:
                reset(s)


@scenario('resets')
def resets(ctx):
    """Connections that are reset in the middle of everything."""
    random.seed(17)
    with Crowd(ctx) as c:
        before = c.server.descriptors()
        query = b'{"start": 0, "end": 99999999999999, "name": "service_name"}'
        whole = (head('POST', QUERIER + 'LabelValues', BAD, len(query), 'Content-Type: application/json') + query,
                 head('POST', '/ingest?name=reset.cpu', BAD, 6) + b'a;b 1\n', head('GET', '/metrics', BAD), head('GET', '/'))
        with c.attack('resets'):
            end = time.monotonic() + 2.5
            while time.monotonic() < end:
                request = random.choice(whole)
                s = c.server.socket()
                s.sendall(request[:random.randrange(len(request) + 1)] if random.random() < 0.6 else request)
                if random.random() < 0.5:
                    time.sleep(random.random() * 0.004)
                if random.random() < 0.3:
                    s.settimeout(0.002)
                    with contextlib.suppress(OSError):
                        s.recv(100)
                if random.random() < 0.2:
                    with contextlib.suppress(OSError):
                        s.shutdown(random.choice([socket.SHUT_RD, socket.SHUT_WR]))
                random.choice([reset, reset, socket.socket.close])(s)
        ctx.check('descriptors are closed', until(lambda: c.server.descriptors() <= before + 20, 10), f'{before} before, {c.server.descriptors()} now')


def certificate(folder):
    cert, key = os.path.join(folder, 'cert.pem'), os.path.join(folder, 'key.pem')
    made = subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
                           '-subj', '/CN=localhost', '-keyout', key, '-out', cert], capture_output=True)
    return (cert, key) if made.returncode == 0 else None


@scenario('TLS')
def half_closed_tls(ctx):
    with temporary() as folder:
        files = certificate(folder)
        if not files:
            raise Skip('no openssl')
        settings = AUTH + f'tls: {{cert_file: {files[0]}, key_file: {files[1]}}}\n'
        with Crowd(ctx, SLOW, settings, tls=True) as c:
            before = c.server.descriptors()
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            hello = client_hello(context)
            kept = []
            with c.attack('TLS that does not go on', least=REQUEST_TIME + 1):
                for i in range(120):
                    s = c.server.socket()
                    kept.append(s)
                    with contextlib.suppress(OSError):
                        if i % 6 == 0:
                            s.sendall(hello[:i % len(hello)])
                        elif i % 6 == 1:
                            s.sendall(hello)
                        elif i % 6 == 2:
                            s.sendall(head('GET', '/ready'))  # no TLS at all
                        elif i % 6 == 3:
                            kept[-1] = context.wrap_socket(s)
                        elif i % 6 == 4:
                            t = kept[-1] = context.wrap_socket(s)
                            t.sendall(head('GET', '/ready'))
                            socket.socket.shutdown(t, socket.SHUT_WR)  # no close_notify
                        else:
                            t = kept[-1] = context.wrap_socket(s)
                            t.sendall(head('POST', PUSH, BAD, 100000)[:60])
                            reset(t)
            ctx.check('cut off after request_time', until(lambda: c.server.descriptors() <= before + 5, 8),
                      f'{before} descriptors before, {c.server.descriptors()} now')
            for s in kept:
                s.close()


def client_hello(context):
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(into, out).do_handshake()
    return out.read()
