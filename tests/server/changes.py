"""Changes found by the server: deploys, /api/v1/changes, marks, annotations, restarts, tenants; kiln query changes, kiln annotate."""
import base64
import http.server
import json
import math
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import threading
import time

from harness import CPU, Server, check, cpu_profile, same, temporary, until

HOUR = 3600
NOW = int(time.time()) // HOUR * HOUR
HOURS, STEP = 150, 130  # of history; when `hot` becomes more expensive
T = NOW - HOURS * HOUR
CONFIG = '''
limits: {past: 31d}
auth:
  - {token: push-of-one, scopes: [push], tenants: [one]}
  - {token: read-of-one, scopes: [read], tenants: [one]}
  - {user: boss, password: admin-of-one, scopes: [admin, read], tenants: [one]}
  - {token: all-of-two, scopes: [push, read, admin], tenants: [two]}
'''
WATCH = {'enabled': True, 'window': HOUR * 1000, 'lasting': 6 * HOUR * 1000}  # of every answer
JSON = {'Content-Type': 'application/json'}


def bearer(token):
    return {'Authorization': 'Bearer ' + token}


READ, PUSH, TWO = bearer('read-of-one'), bearer('push-of-one'), bearer('all-of-two')
ADMIN = {'Authorization': 'Basic ' + base64.b64encode(b'boss:admin-of-one').decode()}


def poisson(r, mean):
    return max(0, round(r.gauss(mean, math.sqrt(mean))))


def hour(r, share, load):
    stacks = {('main', 'serve', f'work_{i}'): poisson(r, 8000 * load * 0.01 * (1 + i % 6)) for i in range(20)}
    stacks['main', 'handle', 'hot'] = poisson(r, 8000 * load * share)
    return stacks


def fill(s, service, after, headers, seed):
    r = random.Random(seed)
    series = []
    for i in range(HOURS):
        changed = i >= STEP
        labels = {'__name__': 'process_cpu', 'service_name': service, 'service_version': '1.5' if changed else '1.4'}
        load = 1 + 0.3 * math.cos((i % 24 - 14) / 12 * math.pi)
        series.append((labels, cpu_profile(hour(r, after if changed else 0.05, load), T + i * HOUR + 60)))
    for i in range(0, HOURS, 50):
        same(f'push of {service}', s.push(series[i:i + 50], headers=headers).status, 200)


def ask(s, headers=READ, **parameters):
    r = s.ask('GET', '/api/v1/changes', headers=headers, query=parameters)
    return r.status, json.loads(r.plain)


def metric(s, name, headers=READ):
    text = s.ask('GET', '/metrics', headers=headers).plain.decode()
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith(name + ' ')))


def looked(s, folder, tenant):
    """The job has looked at everything that was there."""
    def test():
        try:
            with sqlite3.connect(f'file:{folder}/data/changes/{tenant}.db?mode=ro', uri=True) as db:
                return db.execute("SELECT value FROM number WHERE name = 'looked'").fetchone()
        except sqlite3.Error:
            return None
    return until(test, 120)


def found(s):
    status, got = ask(s)
    changes = got['changes']
    same('a change is found, once', (status, len(changes), 'next' in got), (200, 1, False))
    if not changes:
        raise RuntimeError('nothing was found: ' + s.log_text()[-500:])
    c = changes[0]
    same('what changed', (c['serviceName'], c['profileTypeID'], c['function'], c['verdict'], c['state'], c['costUnit'], c['valueUnit']),
         ('shop', CPU, 'hot', 'lasting', 'open', 'cores', 'share'))
    check('when', c['low'] / 1000 - HOUR <= T + STEP * HOUR <= c['high'] / 1000, c)
    check('how much', 0.03 < c['before'] < 0.08 < c['after'] < 0.15 and 0 < c['cost'] < 1 and c['q'] < 0.01, c)
    same('since which deploy', c['deploy'], {'time': (T + STEP * HOUR) * 1000, 'text': 'service_version=1.5'})
    check('ranges to compare', c['baseline']['from'] < c['baseline']['until'] <= c['comparison']['from'] < c['comparison']['until'], c)
    diff = s.json('Diff', {side: {'profileTypeID': CPU, 'labelSelector': '{service_name="shop"}', 'start': c[key]['from'], 'end': c[key]['until']}
                           for side, key in (('left', 'baseline'), ('right', 'comparison'))}, READ)
    check('which can be compared', 'hot' in diff['flamegraph']['names'], diff)
    return c


def filters(s, c):
    count = lambda **p: len(ask(s, **p)[1]['changes'])
    same('by service', (count(service_name='shop'), count(service_name='calm'), count(service_name='')), (1, 0, 1))
    same('by type', (count(profileTypeID=CPU), count(profileTypeID='a:b:c:d:e')), (1, 0))
    same('by time', (count(**{'from': T + STEP * HOUR - 7200}), count(**{'from': NOW}), count(until=T)), (1, 0, 0))
    same('by state', [count(state=x) for x in ('any', 'open', 'acknowledged', 'muted', 'gone')], [1, 1, 0, 0, 0])
    everything = ask(s, verdict='any')[1]['changes']
    check('what explains the others', len(everything) >= 1 and all(x['verdict'] != 'unsure' or x['serviceName'] == 'shop' for x in everything), everything)
    pages, cursor = [], None
    while len(pages) < 100:
        got = ask(s, verdict='any', limit=1, **({'cursor': cursor} if cursor else {}))[1]
        pages += got['changes']
        cursor = got.get('next')
        if not cursor:
            break
    same('in pages', [x['id'] for x in pages], [x['id'] for x in everything])
    for name, value in ('limit', 0), ('limit', 1001), ('limit', 'x'), ('state', 'shut'), ('verdict', 'guilty'), ('cursor', 'x'), ('cursor', '-'), ('cursor', '9' * 30 + '-1'), ('from', '9' * 30):
        status, got = ask(s, **{name: value})
        check(f'refused: {name}={value}', status == 400 and name in got['message'], got)
    same('POST', s.ask('POST', '/api/v1/changes', b'{}', {**READ, **JSON}).status, 405)


def deploys(s):
    """Both kinds of markers, of a service and of all."""
    ask_for = lambda headers=READ, **p: s.ask('GET', '/api/v1/deploys', headers=headers, query=p)
    listed = lambda headers=READ, **p: json.loads(ask_for(headers, **p).plain)['deploys']
    label = {'time': (T + STEP * HOUR) * 1000, 'text': 'service_version=1.5'}
    noted = [{'time': (T + HOUR) * 1000, 'text': '1.6', 'annotation': 3}, {'time': T * 1000, 'text': '1.5 "rc"', 'annotation': 1}]
    same('deploys by label and annotation', listed(service_name='shop'), [label, *noted])
    same('of another service', [x['text'] for x in listed(service_name='calm')], ['service_version=1.5'])
    same('of all services', listed(), [])
    same('until a time', listed(service_name='shop', to=(T + HOUR) * 1000), noted)
    same('from a time', listed(service_name='shop', **{'from': (T + HOUR) * 1000 + 1}), [label])
    same('the last one', listed(service_name='shop', limit=1), [label])
    same('of another tenant', listed(TWO, service_name='shop'), [])
    same('refused', [ask_for(service_name='shop', **{name: value}).status for name, value in (('limit', 0), ('limit', 'x'), ('from', '9' * 30))], [400] * 3)
    same('only with the scope', (ask_for(PUSH).status, ask_for({}).status), (403, 401))


def mark(s, body, headers=ADMIN):
    r = s.ask('POST', '/api/v1/changes/state', body if isinstance(body, bytes) else json.dumps(body).encode(), {**headers, **JSON})
    return r.status, json.loads(r.plain)


def marks(s, c):
    same('who may only read may not', mark(s, {'id': c['id'], 'state': 'muted'}, READ)[0], 403)
    same('nor who may only push', mark(s, {'id': c['id'], 'state': 'muted'}, PUSH)[0], 403)
    same('another tenant has no such change', mark(s, {'id': c['id'], 'state': 'muted'}, TWO)[0], 404)
    same('acknowledged', mark(s, {'id': c['id'], 'state': 'acknowledged', 'comment': 'known: "cache"'})[0], 200)
    got = ask(s, state='acknowledged')[1]['changes'][0]
    same('it says so', (got['state'], got['comment'], got['by']), ('acknowledged', 'known: "cache"', 'boss'))
    same('muted for a while', mark(s, {'id': int(c['id']), 'state': 'muted', 'until': (NOW + 10**6) * 1000})[0], 200)
    got = ask(s, state='muted')[1]['changes'][0]
    same('it says so', (got['state'], got['until'], 'comment' in got), ('muted', (NOW + 10**6) * 1000, False))
    same('muted', mark(s, {'id': c['id'], 'state': 'muted'})[0], 200)
    for what, body, words in [
            ('no body', b'', 'expected'), ('no JSON', b'{', 'expected'), ('a list', b'[]', 'object'), ('no id', {'state': 'open'}, 'id'), ('a bad id', {'id': 'x', 'state': 'open'}, 'id'),
            ('no state', {'id': c['id']}, 'state'), ('a bad state', {'id': c['id'], 'state': 'gone'}, 'state'), ('until of open', {'id': c['id'], 'state': 'open', 'until': 5}, 'until'),
            ('a bad time', {'id': c['id'], 'state': 'muted', 'until': -5}, 'until'), ('a huge time', {'id': c['id'], 'state': 'muted', 'until': 10**30}, 'until'),
            ('seconds', {'id': c['id'], 'state': 'muted', 'until': NOW + 10**6}, 'in the future'),
            ('a comment that is none', {'id': c['id'], 'state': 'open', 'comment': 5}, 'comment'), ('a long comment', {'id': c['id'], 'state': 'open', 'comment': 'x' * 5000}, 'comment'),
            ('bytes', b'{"id": "\xff"}', 'UTF-8'), ('deep', b'[' * 100000, 'inside of each other')]:
        status, got = mark(s, body)
        check(f'refused: {what}', status == 400 and words in got['message'], (status, got))
    same('too large', mark(s, b' ' * (2 << 20))[0], 413)
    same('an unknown id', mark(s, {'id': '123456', 'state': 'open'})[0], 404)
    same('another type', s.ask('POST', '/api/v1/changes/state', b'{}', {**ADMIN, 'Content-Type': 'text/plain'}).status, 415)
    same('it is still muted', len(ask(s, state='muted')[1]['changes']), 1)


def annotate(s, body, headers=PUSH):
    r = s.ask('POST', '/api/v1/annotations', body if isinstance(body, bytes) else json.dumps(body).encode(), {**headers, **JSON})
    return r.status, json.loads(r.plain) if r.plain else None


def annotations(s, kiln):
    listed = lambda headers=READ, **p: json.loads(s.ask('GET', '/api/v1/annotations', headers=headers, query=[(k, x) for k, v in p.items() for x in (v if isinstance(v, list) else [v])]).plain)
    same('no annotation', listed(), [])
    status, got = annotate(s, {'time': T * 1000, 'timeEnd': (T + 60) * 1000, 'tags': ['deploy', 'service_name:shop'], 'text': '1.5 "rc"', 'dashboardUID': 'x', 'panelId': 2})
    same("Grafana's answer", (status, got), (200, {'message': 'Annotation added', 'id': 1}))
    status, got = annotate(s, {'text': 'now'})
    same('only a text', (status, got['id']), (200, 2))
    got = listed()
    same('the newest first', [x['id'] for x in got], [2, 1])
    same('as it came', got[1], {'id': 1, 'time': T * 1000, 'timeEnd': (T + 60) * 1000, 'text': '1.5 "rc"', 'tags': ['deploy', 'service_name:shop']})
    check('now', abs(got[0]['time'] / 1000 - time.time()) < 300, got)
    same('by time', [[x['id'] for x in listed(**p)] for p in ({'to': T * 1000}, {'from': (T + 60) * 1000}, {'from': (T + 61) * 1000})], [[1], [2, 1], [2]])
    same('by tags', [[x['id'] for x in listed(tags=t)] for t in ('deploy', ['deploy', 'none'], ['deploy', 'service_name:shop'])], [[1], [], [1]])
    same('by any tag', [x['id'] for x in listed(tags=['deploy', 'none'], matchAny='true')], [1])
    same('the last one', [x['id'] for x in listed(limit=1)], [2])
    same('nothing of another tenant', listed(TWO), [])
    same('who may read may not add', annotate(s, {'text': 'x'}, READ)[0], 403)
    same('who may push may not list', s.ask('GET', '/api/v1/annotations', headers=PUSH).status, 403)
    same('nobody may', s.ask('GET', '/api/v1/annotations').status, 401)
    for what, body in [
            ('no text', {}), ('an empty text', {'text': ''}), ('no string', {'text': 5}), ('a long text', {'text': 'x' * 20000}), ('a negative time', {'text': 'x', 'time': -1}),
            ('a time far ahead', {'text': 'x', 'time': 10**17}), ('seconds', {'text': 'x', 'time': NOW}), ('a time of words', {'text': 'x', 'time': 'now'}), ('an end before the beginning', {'text': 'x', 'time': NOW * 1000, 'timeEnd': NOW * 1000 - 1}),
            ('tags that are none', {'text': 'x', 'tags': 'deploy'}), ('a tag that is none', {'text': 'x', 'tags': [1]}), ('an empty tag', {'text': 'x', 'tags': ['']}),
            ('a zero byte', {'text': 'x', 'tags': ['a\0b']}), ('many tags', {'text': 'x', 'tags': ['a'] * 65}), ('a long tag', {'text': 'x', 'tags': ['a' * 1025]}),
            ('a list', b'[]'), ('no JSON', b'x'), ('bytes', b'{"text": "\xff"}')]:
        status, got = annotate(s, body)
        check(f'refused: {what}', status == 400 and got['code'] == 'invalid_argument', (status, got))
    same('refused: too large', annotate(s, b'{"text": "' + b'x' * (2 << 20) + b'"}')[0], 413)
    same('refused: another type', s.ask('POST', '/api/v1/annotations', b'{"text": "x"}', {**PUSH, 'Content-Type': 'text/plain'}).status, 415)
    same('refused: another method', s.ask('PUT', '/api/v1/annotations', b'{}', {**PUSH, **JSON}).status, 405)
    remove = lambda i, headers=ADMIN: s.ask('POST', '/api/v1/annotations/delete', b'', {**headers, **JSON}, query={'id': i}).status
    same('removed', (remove(2, PUSH), remove(2, TWO), remove('x'), remove(2), remove(2)), (403, 404, 400, 200, 404))
    same('nothing else came', [x['id'] for x in listed()], [1])
    run = lambda *words, token='push-of-one': subprocess.run([kiln, 'annotate', '--server', f'http://127.0.0.1:{s.port}', '--token', token, *words], capture_output=True, text=True)
    got = run('--service', 'shop', '--tag', 'deploy', '--time', str(T + HOUR), '1.6')
    same('kiln annotate', (got.returncode, got.stdout), (0, '3\n'))
    same('it is there', listed()[0], {'id': 3, 'time': (T + HOUR) * 1000, 'timeEnd': (T + HOUR) * 1000, 'text': '1.6', 'tags': ['deploy', 'service_name:shop']})
    for words, text in ([], 'no text'), (['a', 'b'], 'quote the text'), (['--what', 'x'], 'unknown option'), (['--time', '9' * 30, 'x'], 'invalid time'):
        got = run(*words)
        check(f'kiln annotate {words}', got.returncode == 2 and text in got.stderr, (got.returncode, got.stderr))
    got = run('x', token='read-of-one')
    check('without permission', got.returncode == 2 and '403' in got.stderr, (got.returncode, got.stderr))


def command(s, kiln):
    run = lambda *words: subprocess.run([kiln, 'query', 'changes', '--server', f'http://127.0.0.1:{s.port}', '--token', 'read-of-one', *words], capture_output=True, text=True)
    got = run()
    check('kiln query changes', got.returncode == 0 and len(got.stdout.splitlines()) == 1 and all(
        x in got.stdout for x in ('shop', 'hot', ' cores', 'service_version=1.5', '->')), (got.returncode, got.stdout, got.stderr))
    same('--json', [x['function'] for x in json.loads(run('--json', '{service_name="shop"}').stdout)['changes']], ['hot'])
    got = run('{service_name="calm"}')
    check('no change', got.returncode == 0 and not got.stdout and 'no changes' in got.stderr and 'changes.enabled' not in got.stderr, got)
    for words, text in (['{region="eu"}'], 'service_name'), (['--state', 'x'], 'state'), (['x'], 'unexpected argument'):
        got = run(*words)
        check(f'kiln query changes {words}', got.returncode == 2 and text in got.stderr, (got.returncode, got.stderr))


def windows(kiln, folder):
    """A length of which nothing would ever be found is refused."""
    for window, fine in ('1m', True), ('15m', True), ('1h', True), ('59s', False), ('2m', False), ('5m', False), ('12m', False), ('25m', False), ('2h', False):
        config = f'{folder}/window.yaml'
        with open(config, 'w') as file:
            file.write('changes: {window: %s}\n' % window)
        # Where fine, the address is what it fails for.
        got = subprocess.run([kiln, 'server', '--config', config, '--listen', 'nowhere.invalid:1', '--data', f'{folder}/window'], capture_output=True, text=True)
        same(f'window: {window}', ('window must be' in got.stderr, got.returncode != 0), (not fine, True))


def odd_answer(kiln):
    """Numbers that no server sends."""
    class Odd(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps({'changes': [{'id': '1', 'time': 1e300, 'cost': -1e300, 'costUnit': 'bytes/s', 'before': 1e-300, 'after': 1e300, 'valueUnit': 'share'}]}).encode()
            self.send_response(200)
            self.send_header('Content-Length', str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(('127.0.0.1', 0), Odd) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        got = subprocess.run([kiln, 'query', 'changes', '--server', f'http://127.0.0.1:{server.server_port}'], capture_output=True, text=True)
        same('an odd answer is shown', (got.returncode, len(got.stdout.splitlines())), (0, 1))
        server.shutdown()


def damaged(s, kiln, folder):
    """A database that cannot be read concerns its tenant only, and a backup has everything else."""
    same('its tenant is told', s.ask('GET', '/api/v1/changes', headers=READ).status, 500)
    same('other tenants are served', (ask(s, TWO, verdict='any')[0], annotate(s, {'text': 'x'}, TWO)[0]), (200, 200))
    check('its look fails', until(lambda: metric(s, 'kiln_changes_failed_total') > 0, 60), s.log_text()[-500:])
    same('profiles are still taken', s.push([({'__name__': 'process_cpu', 'service_name': 'calm'}, cpu_profile({('main',): 1}, NOW))], headers=PUSH).status, 200)
    same('and shown', s.json('LabelValues', {'name': 'service_name', 'start': T * 1000, 'end': (NOW + HOUR) * 1000}, READ)['names'], ['calm'])
    backup = subprocess.run([kiln, 'server', 'backup', '--data', f'{folder}/data', f'{folder}/rest'], capture_output=True, text=True)
    check('a backup reports it', backup.returncode == 1 and 'changes/one.db is damaged' in backup.stdout and 'it is not in the backup' in backup.stdout and not backup.stderr, backup)
    same('and has the rest', sorted(os.listdir(f'{folder}/rest') + os.listdir(f'{folder}/rest/changes')), ['changes', 'debuginfo', 'tenants', 'two.db'])
    same('which is whole', subprocess.run([kiln, 'server', 'check', '--data', f'{folder}/rest'], capture_output=True).returncode, 0)
    os.remove(f'{folder}/data/changes/one.db')
    same('without it', ask(s), (200, {'changes': [], **WATCH}))


def canary(kiln, folder):
    """Two versions at the same time are compared with each other, in a history that is too short for steps."""
    s = Server(kiln, folder, config='limits: {past: 31d}\nchanges: {enabled: false}\n')
    r = random.Random(5)
    labels = lambda version, pod: {'__name__': 'process_cpu', 'service_name': 'shop', 'service_version': version, 'pod': pod}
    series = [(labels(version, f'{version}-{pod}'), cpu_profile(hour(r, 0.09 if version == '1.5' else 0.05, 0.5), NOW - (30 - i) * HOUR + 60 + pod))
              for i in range(30) for version, pods in (('1.4', 4), ('1.5', 1)) for pod in range(pods) if version == '1.4' or i >= 22]
    for i in range(0, len(series), 50):
        same('push', s.push(series[i:i + 50]).status, 200)
    s.write('limits: {past: 31d}\nchanges: {enabled: true}\n')
    s.process.send_signal(signal.SIGHUP)
    check('it has looked', looked(s, folder, 'anonymous'), s.log_text()[-500:])
    got = ask(s, {})[1]['changes']
    same('one change', [(c['function'], c['verdict'], c['state']) for c in got], [('hot', 'lasting', 'open')])
    c = got[0]
    same('of two versions', c['versions'], {'label': 'service_version', 'before': '1.4', 'after': '1.5', 'part': 0.2})
    start = (NOW - 8 * HOUR) * 1000
    same('since which deploy', (c['deploy'], c['time']), ({'time': start, 'text': 'service_version=1.5'}, start))
    check('how much', 1.4 < c['after'] / c['before'] < 2.1 and c['costUnit'] == 'cores', c)
    end = c['baseline']['until']
    check('until the last window', end in (NOW * 1000, (NOW - HOUR) * 1000), c)  # one is closed five minutes after its end
    side = lambda version: {'from': start, 'until': end, 'labelSelector': '{service_name="shop", service_version="%s"}' % version}
    same('the same time, another selector', (c['baseline'], c['comparison']), (side('1.4'), side('1.5')))
    ticks = [s.json('SelectMergeStacktraces', {'profileTypeID': CPU, 'labelSelector': x['labelSelector'], 'start': x['from'], 'end': x['until'] - 1})['flamegraph']['total']
             for x in (c['baseline'], c['comparison'])]
    check('which can be asked', 3 < int(ticks[0]) / int(ticks[1]) < 5, ticks)
    run = subprocess.run([kiln, 'query', 'changes', '--server', f'http://127.0.0.1:{s.port}'], capture_output=True, text=True)
    check('kiln query changes', run.returncode == 0 and run.stdout.strip().endswith('hot  service_version=1.5 beside 1.4 (20 %)'), run)
    same('the service is deleted', s.ask('POST', '/api/v1/services/delete', b'', JSON, query={'service_name': 'shop'}).status, 200)
    same('with all that was noted', ask(s, {}, verdict='any')[1]['changes'], [])
    s.stop()


def main(kiln):
    with temporary() as folder:
        canary(kiln, folder)
    with temporary() as folder:
        windows(kiln, folder)
        odd_answer(kiln)
        # The history is there before the first look.
        s = Server(kiln, folder, config=CONFIG)
        fill(s, 'shop', 0.09, PUSH, 1)
        fill(s, 'calm', 0.05, PUSH, 2)
        fill(s, 'calm', 0.05, TWO, 3)
        same('paused', (metric(s, 'kiln_changes_paused'), ask(s)), (1, (200, {'changes': [], **WATCH, 'enabled': False})))
        got = subprocess.run([kiln, 'query', 'changes', '--server', f'http://127.0.0.1:{s.port}', '--token', 'read-of-one'], capture_output=True, text=True)
        check('kiln query changes says so', got.returncode == 0 and 'set changes.enabled' in got.stderr, got)
        check('and leaves nothing', not os.path.exists(f'{folder}/data/changes'))
        annotations(s, kiln)
        s.write(CONFIG + 'changes: {enabled: true}\n')
        s.process.send_signal(signal.SIGHUP)
        # Killed while it reads.
        check('it begins', until(lambda: metric(s, 'kiln_changes_cpu_seconds_total') > 0, 60))
        s.stop(signal.SIGKILL)
        s.start()
        check('it has looked', looked(s, folder, 'one') and looked(s, folder, 'two'), s.log_text()[-500:])
        same('not paused', metric(s, 'kiln_changes_paused'), 0)
        c = found(s)
        same('nothing in another tenant', ask(s, TWO, verdict='any'), (200, {'changes': [], **WATCH}))
        filters(s, c)
        deploys(s)
        command(s, kiln)
        marks(s, c)
        same('it stops', s.stop(), 0)
        check('before its shutdown times out', 'shutdown timed out' not in s.log_text(), s.log_text()[-500:])
        s.start()
        looked(s, folder, 'one')
        same('nothing is lost or repeated', [(x['id'], x['state']) for x in ask(s)[1]['changes']], [(c['id'], 'muted')])
        backup = subprocess.run([kiln, 'server', 'backup', '--data', f'{folder}/data', f'{folder}/copy'], capture_output=True, text=True)
        check('a backup has it', backup.returncode == 0 and os.path.exists(f'{folder}/copy/changes/one.db'), backup)
        same('which is whole', subprocess.run([kiln, 'server', 'check', '--data', f'{folder}/copy'], capture_output=True).returncode, 0)
        same('a service is deleted', s.ask('POST', '/api/v1/services/delete', b'', {**ADMIN, **JSON}, query={'service_name': 'shop'}).status, 200)
        same('with its changes', ask(s, verdict='any')[1], {'changes': [], **WATCH})
        s.stop()
        with open(f'{folder}/copy/changes/one.db', 'r+b') as file:
            file.write(b'no database at all' * 100)
        broken = subprocess.run([kiln, 'server', 'check', '--data', f'{folder}/copy'], capture_output=True, text=True)
        check('a damaged one is told', broken.returncode == 1 and 'changes/one.db' in broken.stdout, broken)
        shutil.rmtree(f'{folder}/data/changes')  # with logs, which looked() keeps open
        os.rename(f'{folder}/copy/changes', f'{folder}/data/changes')
        s.start()
        r = s.ask('POST', '/api/v1/services/delete', b'', {**ADMIN, **JSON}, query={'service_name': 'calm'})
        check('what is deleted then, and what is not', r.status == 500 and b'deleted the profiles' in r.plain and b'move it away' in r.plain, r.plain)
        damaged(s, kiln, folder)
        s.stop()
