"""Who may do what: every path with every kind of credentials, and nothing of another tenant."""
import json
import os
import re
import time

from harness import CPU, Server, check, cpu_profile, same, temporary

CONFIG = '''
auth:
  - {token: push-of-one, scopes: [push], tenants: [one]}
  - {token: read-of-one, scopes: [read], tenants: [one]}
  - {token: admin-of-one, scopes: [admin], tenants: [one]}
  - {token: push-of-two, scopes: [push], tenants: [two]}
  - {token: read-of-two, scopes: [read], tenants: [two]}
'''
JSON = {'Content-Type': 'application/json'}
QUERIER = '/querier.v1.QuerierService/'
PAGES = {'/', '/explore', '/diff', '/tags', '/compare', '/changes', '/targets', '/files'}
PUBLIC = PAGES | {'/api/v1/status/buildinfo', '/ready', '/healthz'}
PUSH = {'/push.v1.PusherService/Push', '/ingest', '/v1development/profiles', '/api/v1/debuginfo/upload', '/api/v1/annotations'}
ADMIN = {'/api/v1/debuginfo/upload', '/api/v1/debuginfo/delete', '/api/v1/services/delete',
         '/api/v1/changes/state', '/api/v1/annotations/delete'}
BY_METHOD = {'/api/v1/annotations'}  # read lists, push adds
NOW = int(time.time())
RANGE = {'start': (NOW - 3600) * 1000, 'end': (NOW + 60) * 1000}


def routes():
    """Every path of src/server/routes.c, with the scopes of which one is needed."""
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, '..', '..', 'src', 'server', 'routes.c')) as file:
        text = file.read().replace('QUERIER "', f'"{QUERIER}')
    found = re.findall(r'\{"([^"]+)",\s*([A-Z_| 0]+),', text)
    return {path: {s.lower() for s in re.findall('SCOPE_([A-Z]+)', scopes)} for path, scopes in found
            if path != '/ui/'}  # files of the pages


def bearer(token):
    return {'Authorization': 'Bearer ' + token}


def every_path(s):
    paths = routes()
    check('routes are found', len(paths) > 30 and '/ingest' in paths, paths)
    for scope, want in ('push', PUSH), ('admin', ADMIN), ('read', (set(paths) - PUBLIC - PUSH - ADMIN) | BY_METHOD):
        same(f'what {scope} allows', {p for p, scopes in paths.items() if scope in scopes}, want)
    same('without credentials', {p for p, scopes in paths.items() if not scopes}, PUBLIC)
    for path, scopes in paths.items():
        got = {who: s.ask('POST', path, b'{}', {**JSON, **(bearer(f'{who}-of-one') if who else {})}).status
               for who in ('', 'push', 'read', 'admin')}
        want = {who: not scopes or who in (scopes - {'read'} if path in BY_METHOD else scopes) for who in got}
        for who, status in got.items():
            check(f'{path} by {who or "nobody"}', (status not in (401, 403)) == want[who] and
                  (status != 401 or not who), status)
            check(f'{path} by {who or "nobody"}: no 500', status < 500, status)


def tenants(s):
    push = lambda token, service: s.push([({'__name__': 'process_cpu', 'service_name': service}, cpu_profile({('main', service): 5}, NOW - 60))],
                                         headers=bearer(token)).status
    same('pushes', (push('push-of-one', 'secret-service'), push('push-of-two', 'other')), (200, 200))
    merge = {**RANGE, 'profileTypeID': CPU, 'labelSelector': '{}'}
    calls = [('POST', QUERIER + method, json.dumps(body).encode()) for method, body in [
        ('ProfileTypes', RANGE), ('LabelNames', RANGE), ('LabelValues', {**RANGE, 'name': 'service_name'}), ('Series', RANGE),
        ('SelectMergeStacktraces', merge), ('SelectMergeStacktraces', {**merge, 'format': 4}), ('SelectMergeProfile', merge),
        ('SelectMergeSpanProfile', merge), ('SelectSeries', {**merge, 'step': 15, 'groupBy': ['service_name'], 'exemplarType': 2}),
        ('Diff', {'left': merge, 'right': merge}), ('GetProfileStats', {})]]
    calls.append(('POST', '/api/v1/flame', json.dumps({'profile': merge, 'base': merge}).encode()))
    window = f'from={NOW - 3600}&until={NOW + 60}'
    calls.append(('GET', f'/api/v1/functions/series?query={CPU}%7B%7D&function=main&groupBy=service_name&{window}', None))
    calls += [('GET', f'/pyroscope/render?query={CPU}%7B%7D&{window}', None), ('GET', f'/label-values?label=service_name&{window}', None),
              ('GET', f'/labels?{window}', None), ('GET', '/api/v1/debuginfo?missing=1', None), ('GET', '/api/v1/targets', None), ('GET', '/api/v1/changes?verdict=any', None),
              ('GET', '/api/v1/annotations', None), ('GET', '/api/v1/deploys?service_name=secret-service', None)]
    seen = 0
    for method, path, body in calls:
        ask = lambda token, **more: s.ask(method, path, body, {**JSON, **bearer(token), **more})
        mine, other = ask('read-of-one'), ask('read-of-two')
        what = path.split('?')[0]
        same(f'{what}: both are answered', (mine.status, other.status), (200, 200))
        seen += b'secret-service' in mine.plain
        check(f'{what}: nothing of another tenant', b'secret-service' not in other.plain, other.plain)
        asked = ask('read-of-two', **{'X-Scope-OrgID': 'one'})
        check(f'{what}: not by naming it', asked.status == 403 and b'secret-service' not in asked.plain, asked.plain)
    check('it can be seen by its own', seen >= 10, seen)
    same('no push to another tenant', s.push([({'__name__': 'process_cpu', 'service_name': 'x'}, cpu_profile({('a',): 1}, NOW))],
                                             headers={**bearer('push-of-two'), 'X-Scope-OrgID': 'one'}).status, 403)
    for name in '..', '.', 'one/../two', '../one', 'one%00', 'a' * 151:
        check(f'tenant {name[:20]!r}', s.ask('POST', QUERIER + 'ProfileTypes', b'{}', {
            **JSON, **bearer('read-of-two'), 'X-Scope-OrgID': name}).status in (401, 403))


def main(kiln):
    with temporary() as folder:
        s = Server(kiln, folder, config=CONFIG)
        every_path(s)
        tenants(s)
        log = s.log_text()
        check('no secret is in the log', '-of-one' not in log and '-of-two' not in log, log[-300:])
        s.stop()
