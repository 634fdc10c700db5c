"""What a page of another site makes a browser send: DNS rebinding and cross-site requests. And what one
tenant may learn of another."""
import json
import re
import time

from clients import push_body
from crowd import AUTH, BAD, CPU, GOOD, JSON, PUSH, QUERIER, Crowd, bearer, labels_of, last_hour
from harness import cpu_profile, free_port
from scenario import scenario

CROSS = {'Origin': 'http://evil.example', 'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'cors', 'Sec-Fetch-Dest': 'empty'}
FORM = (b'--B\r\nContent-Disposition: form-data; name="profile"; filename="p"\r\n\r\n' + cpu_profile({('planted',): 1}, time.time())
        + b'\r\n--B--\r\n')


def ask(server, method, path, body=None, host=None, **headers):
    """(status, answer) with exactly these headers."""
    lines = [f'{method} {path} HTTP/1.1', f'Host: {host or "127.0.0.1:%d" % server.port}', 'Connection: close']
    lines += [f'{name}: {value}' for name, value in headers.items()]
    if body is not None:
        lines.append(f'Content-Length: {len(body)}')
    answer = server.raw('\r\n'.join([*lines, '', '']).encode() + (body or b''))
    return int(answer[9:12]) if answer[:5] == b'HTTP/' else 0, answer


def state_changing():
    """(method, path, body, headers) of everything that stores, deletes or costs work."""
    when = int(time.time())
    span = f'from={when - 20}&until={when}'
    push = push_body(labels_of('planted'), cpu_profile({('planted',): 1}, time.time()))
    yield 'POST', f'/ingest?name=planted.cpu&{span}', b'main;evil 100\n', {'Content-Type': 'text/plain'}
    yield 'POST', f'/ingest?name=planted.cpu&{span}', b'main;evil 100\n', {}
    yield 'POST', f'/ingest?name=planted.cpu&{span}', b'a=b 1\n', {'Content-Type': 'application/x-www-form-urlencoded'}
    yield 'POST', f'/ingest?name=planted.cpu&format=pprof&{span}', FORM, {'Content-Type': 'multipart/form-data; boundary=B'}
    yield 'POST', PUSH, push, {'Content-Type': 'text/plain'}
    yield 'POST', PUSH, push, {'Content-Type': 'application/proto'}
    yield 'POST', '/v1development/profiles', b'', {'Content-Type': 'application/x-protobuf'}
    yield 'POST', '/api/v1/flame', FORM, {'Content-Type': 'multipart/form-data; boundary=B'}
    yield 'POST', '/api/v1/services/delete?service_name=secret', b'{}', {'Content-Type': 'application/json'}
    yield 'POST', '/api/v1/services/delete?service_name=secret', b'', {'Content-Type': 'text/plain'}
    yield 'POST', '/api/v1/debuginfo/upload', b'\x7fELF', {'Content-Type': 'application/octet-stream'}
    yield 'POST', '/api/v1/debuginfo/delete?build_id=abcd', b'{}', {'Content-Type': 'application/json'}
    yield 'POST', QUERIER + 'LabelValues', json.dumps({**last_hour(), 'name': 'service_name'}).encode(), {'Content-Type': 'application/json'}


def reading():
    when = int(time.time())
    span = f'from={when - 3600}&until={when + 60}'
    for path in (f'/label-values?label=service_name&{span}', f'/pyroscope/render?query={CPU}%7B%7D&{span}', '/metrics', '/api/v1/targets',
                 '/api/v1/debuginfo', '/', '/explore'):
        yield 'GET', path, None, {}


@scenario(12)
def foreign_hosts(ctx):
    """A default server, on loopback and without authentication, answers to its own names only."""
    with Crowd(ctx, settings='', token='') as c:
        s = c.server
        s.push([(labels_of('secret'), cpu_profile({('main', 'f'): 5}, time.time()))])
        with c.attack('foreign hosts', least=1):
            for host in ('evil.example', f'evil.example:{s.port}', 'localhost.evil.example', '127.0.0.1.evil.example', 'evil.example.', '0x7f.1.evil',
                         'evil.example@127.0.0.1', 'xn--localhost.evil'):
                for method, path, body, headers in [*state_changing(), *reading()] if host == 'evil.example' else list(reading())[:2]:
                    name = f'{method} {path.split("?")[0]} {headers.get("Content-Type", "")} for {host}'
                    status, answer = ask(s, method, path, body, host=host, **headers)
                    ctx.check(f'{name}: refused', status in (400, 403, 421), answer[:120])
                    ctx.check(f'{name}: says nothing', b'secret' not in answer, answer[-200:])
            # After rebinding the page is of the same origin.
            status, _ = ask(s, 'POST', '/api/v1/services/delete?service_name=secret', b'{}', host=f'evil.example:{s.port}',
                            **JSON, **{'Sec-Fetch-Site': 'same-origin', 'Origin': f'http://evil.example:{s.port}'})
            ctx.check('a rebound page cannot delete', status in (400, 403, 421), status)
            for host in (f'127.0.0.1:{s.port}', f'localhost:{s.port}', 'localhost', 'LocalHost', '127.0.0.1', f'[::1]:{s.port}', '10.1.2.3:4040'):
                status, answer = ask(s, 'GET', '/label-values?label=service_name', host=host)
                ctx.check(f'{host}: answered', status == 200, answer[:200])
            status, answer = ask(s, 'GET', '/ready', host='kiln.internal.example')
            ctx.check('health checks may come by any name', status in (200, 403, 421), answer[:100])
        names = s.services()
        ctx.check('nothing was planted or deleted', 'secret' in names and 'planted' not in names, names)


@scenario(12)
def cross_site(ctx):
    """Requests that a page of another site can send without being asked first."""
    with Crowd(ctx, settings='', token='') as c:
        s = c.server
        s.push([(labels_of('secret'), cpu_profile({('main', 'f'): 5}, time.time()))])
        with c.attack('cross-site requests', least=1):
            for how, extra in (('Sec-Fetch-Site', CROSS), ('same-site', {**CROSS, 'Sec-Fetch-Site': 'same-site'}),
                               ('Origin alone', {'Origin': 'http://evil.example'}), ('Origin: null', {'Origin': 'null'}),
                               ('another port', {'Origin': 'http://127.0.0.1:1'}),
                               ('a form', {**CROSS, 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'document'})):
                for method, path, body, headers in state_changing():
                    name = f'{how}: {method} {path.split("?")[0]} {headers.get("Content-Type", "")}'
                    status, answer = ask(s, method, path, body, **headers, **extra)
                    ctx.check(f'{name}: refused', status in (400, 403, 415), answer[:120])
                    ctx.check(f'{name}: no CORS', b'Access-Control-Allow' not in answer, answer[:300])
            for method, path, body, headers in list(reading())[:5]:
                status, answer = ask(s, method, path, body, **headers, **CROSS)
                ctx.check(f'cross-site {path.split("?")[0]}: refused', status == 403, answer[:120])
            # A link from another site to a page is how people come.
            status, answer = ask(s, 'GET', '/', **{**CROSS, 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'document'})
            ctx.check('a link is followed', status in (200, 404), answer[:100])
            for origin in (f'http://127.0.0.1:{s.port}', f'http://localhost:{s.port}'):
                host = origin.partition('//')[2]
                status, answer = ask(s, 'POST', '/ingest?name=own.cpu', b'a;b 1\n', host=host, Origin=origin, **{'Sec-Fetch-Site': 'same-origin'})
                ctx.check(f'its own page, {origin}', status == 200, answer[:200])
            for who in ({}, {'Sec-Fetch-Site': 'none'}):
                status, answer = ask(s, 'POST', '/ingest?name=own.cpu', b'a;b 1\n', **who)
                ctx.check(f'no browser, {who}', status == 200, answer[:200])
            status, answer = ask(s, 'OPTIONS', '/api/v1/services/delete', **CROSS, **{'Access-Control-Request-Method': 'POST'})
            ctx.check('a preflight is not granted', b'Access-Control-Allow' not in answer, answer[:300])
        names = s.services()
        ctx.check('nothing was planted or deleted', 'secret' in names and 'planted' not in names, names)


@scenario(18)
def other_tenants_targets(ctx):
    """Scrape targets and their labels are not shown to tenants that they do not belong to."""
    port = free_port()
    settings = AUTH + f'''
scrape_configs:
  - job_name: secret-job
    scrape_interval: 1s
    static_configs: [{{targets: ["127.0.0.1:{port}"], labels: {{team: secret-team}}}}]
'''
    with Crowd(ctx, settings=settings, clients=False) as c:
        time.sleep(0.5)
        for path in ('/api/v1/targets', '/metrics'):
            for token in (GOOD, BAD):
                status, answer = c.server.post(path, None, bearer(token), method='GET')
                ctx.check(f'{path}: not of others', status in (200, 403) and not re.search(rb'secret|:%d\b' % port, answer), answer[:300])


@scenario(18)
def numbers(ctx):
    """Times and numbers at the ends of their ranges."""
    with Crowd(ctx) as c:
        with c.attack('numbers', least=1):
            for value in ('99999999999', '9223372036854775807', '9223372036854775808', '-9223372036854775808', '18446744073709551616', '1' * 19, '9' * 40,
                          '-1', '0', '1e400', 'NaN', 'now-9999999999999d', 'now-99999999999999999999h', ''):
                for path in (f'/pyroscope/render?query={CPU}%7B%7D&from={value}&until={value}', f'/render?query={CPU}%7B%7D&from=0&until={value}&max-nodes={value}',
                             f'/label-values?label=service_name&from={value}&until=now', f'/api/v1/debuginfo?missing=1&from={value}&until={value}'):
                    status, data = c.server.post(path, None, bearer(GOOD), method='GET', timeout=10)
                    ctx.check(f'{path.split("?")[0]} {value!r}: answered', isinstance(status, int) and status < 500, (status, data[:200]))
                status, data = c.server.post(f'/ingest?name=numbers.cpu&from={value}&until={value}&sampleRate={value}', b'a;b 1\n', bearer(BAD), timeout=10)
                ctx.check(f'/ingest {value!r}: answered', isinstance(status, int) and status < 500, (status, data[:200]))
                for key in ('start', 'end', 'step', 'maxNodes'):
                    query = json.dumps({'profileTypeID': CPU, 'labelSelector': '{}', **last_hour(), 'step': 15, key: value}).encode()
                    for method in ('SelectSeries', 'SelectMergeStacktraces', 'LabelNames'):
                        status, data = c.server.post(QUERIER + method, query, {**JSON, **bearer(GOOD)}, timeout=10)
                        ctx.check(f'{method} {key} {value!r}: answered', isinstance(status, int) and status < 500, (status, data[:200]))
