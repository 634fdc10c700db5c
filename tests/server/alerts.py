"""Alerts about changes: what receivers get and how often, receivers that fail, restarts, reloads; a real Alertmanager."""
import contextlib
import datetime
import hashlib
import hmac
import http.server
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import threading
import time
import urllib.parse
import urllib.request

from harness import CPU, Server, check, free_port, same, skip, temporary, until

SECRET = 'open sesame'
JSON = {'Content-Type': 'application/json'}
NOW = int(time.time())
COLUMNS = ['id', 'service', 'type', 'verdict', 'measured', 'function', 'because', 'time', 'low', 'high', 'before', 'after', 'deviation', 'cost', 'q', 'marker_time',
           'marker', 'before_start', 'before_end', 'after_start', 'after_end', 'checked', 'found', 'gone']


class Receiver:
    """Answers as answers() says, which takes a request and returns (status, headers, body), or None if it did so itself."""

    def __init__(self, answers=lambda request: (200, {}, b''), port=0):
        receiver = self
        self.got, self.answers = [], answers

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def log_message(self, *arguments):
                pass

            def do_GET(self):
                receiver.got.append(('GET', self.path, None, None))
                self.send_error(404)

            def do_POST(self):
                body = self.rfile.read(int(self.headers['Content-Length']))
                answer = receiver.answers(self)
                if answer:
                    self.send_response(answer[0])
                    for name, value in {'Content-Length': len(answer[2]), **answer[1]}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(answer[2])
                receiver.got.append((answer and answer[0], self.path, self.headers, body))

        class Web(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *arguments):
                pass  # the server ends what takes too long

        self.web = Web(('127.0.0.1', port), Handler)
        self.url = f'http://127.0.0.1:{self.web.server_address[1]}'
        threading.Thread(target=self.web.serve_forever, daemon=True).start()

    def taken(self):
        """What was acknowledged."""
        return [json.loads(body) for status, _, _, body in list(self.got) if status == 200]

    def alerts(self):
        return [(a['labels'].get('function'), a['status']) for group in self.taken() for a in group['alerts']]

    def stop(self):
        self.web.shutdown()
        self.web.server_close()


def database(folder, tenant='anonymous'):
    return sqlite3.connect(f'file:{folder}/data/changes/{urllib.parse.quote(tenant)}.db?mode=rw', uri=True, timeout=20)


def open_change(folder, number, function, service='shop', tenant='anonymous', **more):
    """number: the id, or a range of them."""
    at = (NOW - 36000) * 10**9
    rows = []
    for i in number if isinstance(number, range) else [number]:
        row = dict(id=i, service=service, type=CPU, verdict=1, measured=1, function=function, because='', time=at, low=at - 10**12, high=at + 10**12, before=0.05,
                   after=0.09, deviation=0.001, cost=5e8, q=0.001, marker_time=at, marker='version=2', before_start=at - 10**13, before_end=at, after_start=at, after_end=at + 10**13,
                   checked=at, found=at + 10**12, gone=0)
        row.update(more)
        if isinstance(number, range):
            row['function'] = f'{function}{i}'
        rows.append([row[name] for name in COLUMNS])
    with database(folder, tenant) as db:
        db.executemany(f'INSERT OR REPLACE INTO change({", ".join(COLUMNS)}) VALUES({", ".join("?" * len(COLUMNS))})', rows)
    db.close()


def change(folder, sql, *values, tenant='anonymous'):
    with database(folder, tenant) as db:
        got = db.execute(sql, values).fetchall()
    db.close()
    return got


def mark(s, number, state, **headers):
    return s.ask('POST', '/api/v1/changes/state', json.dumps({'id': str(number), 'state': state}).encode(), {**JSON, **headers}).status


def wake(s):
    """As after a look."""
    same('no such change', mark(s, 10**15, 'open'), 404)


def make_database(s, **headers):
    same('an annotation makes the database', s.ask('POST', '/api/v1/annotations', b'{"text": "x"}', {**JSON, **headers}).status, 200)


def metric(s, name):
    text = s.ask('GET', '/metrics').plain.decode()
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith(name + ' ')))


def reload(s, config):
    s.write(config)
    before = s.log_text().count('rules reloaded')
    s.process.send_signal(signal.SIGHUP)
    check('reloaded', until(lambda: s.log_text().count('rules reloaded') > before), s.log_text()[-300:])


def refusals(kiln):
    webhook = 'url: http://x/y, format: webhook'
    with temporary() as folder:
        for what, text, words in [
                ('no url', '{format: webhook}', 'alerts: url is missing'), ('another scheme', '{url: "file:///etc/passwd", format: webhook}', 'url: expected http'),
                ('credentials', '{url: "http://a:b@x/y", format: webhook}', 'basic_auth'), ('no host', '{url: "http:///x", format: webhook}', 'url: expected'),
                ('no format', '{url: http://x/y}', 'format is missing'), ('another format', '{url: http://x/y, format: email}', "unknown format 'email'"),
                ('a path that is not its', '{url: http://x:9093, format: alertmanager}', '/api/v2/alerts'), ('a short secret', f'{{{webhook}, secret: x}}', 'shorter than 8'),
                ('two secrets', f'{{{webhook}, secret: long enough, secret_file: f}}', 'cannot be combined'),
                ('a signature that nobody checks', '{url: http://x/api/v2/alerts, format: alertmanager, secret: long enough}', 'does not check'),
                ('a label of the server', f'{{{webhook}, labels: {{tenant: x}}}}', "'tenant' is set by the server"), ('no label', f'{{{webhook}, labels: {{a-b: x}}}}', "'a-b' is not a label"),
                ('a short interval', f'{{{webhook}, interval: 1s}}', 'interval: must be 10s to 1h'), ('a long timeout', f'{{{webhook}, timeout: 5m}}', 'timeout: must be'),
                ('a tenant that is none', f'{{{webhook}, tenants: ["../x"]}}', 'not a tenant name'), ('an unknown key', f'{{{webhook}, colour: red}}', 'colour: unknown key'),
                ('two ways to authenticate', f'{{{webhook}, bearer_token: a, basic_auth: {{username: b}}}}', 'cannot be combined'), ('twice', f'{{{webhook}}}, {{{webhook}}}', 'receivers 1 and 2'),
                ('many', ', '.join(f'{{url: http://x/{i}, format: webhook}}' for i in range(21)), 'at most 20')]:
            with open(folder + '/kiln.yaml', 'w') as file:
                file.write(f'data: {folder}/data\nlisten: 127.0.0.1:0\nchanges:\n  alerts: [{text}]\n')
            got = subprocess.run([kiln, 'server', '--config', folder + '/kiln.yaml'], capture_output=True, text=True, timeout=20)
            check(f'refused: {what}', got.returncode == 2 and 'kiln.yaml:' in got.stderr and words in got.stderr, (got.returncode, got.stderr))
        for url in 'ftp://x', 'http://', 'http://a@b', 'x':
            with open(folder + '/kiln.yaml', 'w') as file:
                file.write(f'external_url: {url}\n')
            got = subprocess.run([kiln, 'server', '--config', folder + '/kiln.yaml'], capture_output=True, text=True, timeout=20)
            check(f'refused: external_url {url}', got.returncode == 2 and 'kiln.yaml:1: external_url' in got.stderr, (got.returncode, got.stderr))


def signed(headers, body):
    parts = dict(part.split('=', 1) for part in headers['X-Kiln-Signature'].split(','))
    want = hmac.new(SECRET.encode(), parts['t'].encode() + b'.' + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(want, parts['v1']) and abs(int(parts['t']) - time.time()) < 300


def example():
    """The Python of docs/guides/alerts.md, which ends with an assertion."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'docs', 'guides', 'alerts.md')) as file:
        text = file.read().split('In Python:\n\n')[1].split('\nWith openssl')[0]
    names = {}
    exec('\n'.join(line[4:] for line in text.splitlines()), names)
    wrong = names['is_signed'](b'open sesame', 't=1790000000,v1=00', b'{"a":1}', now=1790000060)
    same('the example rejects what is not signed', wrong, False)


def delivery(kiln, folder):
    failures = [(500, {}, b'no'), (503, {'Retry-After': '1'}, b'later'), (302, {'Location': '/elsewhere'}, b'')]
    receiver = Receiver(lambda request: failures.pop(0) if failures else (200, {}, b''))
    with open(folder + '/secret', 'w') as file:
        file.write(SECRET + '\n')
    config = (f'external_url: https://kiln.example.com/x/\nchanges:\n  alerts:\n    - url: {receiver.url}/hook\n      format: webhook\n      name: team\n      secret_file: {folder}/secret\n'
              f'      labels: {{team: shop}}\n      authorization: {{credentials: let-me-in}}\n      interval: 10s\n')
    s = Server(kiln, folder, config=config)
    make_database(s)
    # Any look at the changes may come in between: it is gone until it has been acknowledged, and the open one comes last.
    open_change(folder, 10, 'acknowledged', gone=NOW * 10**9)
    same('acknowledged before it is sent', mark(s, 10, 'acknowledged'), 200)
    change(folder, 'UPDATE change SET gone = 0 WHERE id = 10')
    open_change(folder, 8, 'shifted', verdict=2)
    open_change(folder, 9, 'gone', gone=NOW * 10**9)
    open_change(folder, 7, 'hot"\n\\')
    wake(s)
    check('a receiver that fails gets it in the end', until(receiver.taken), s.log_text()[-500:])
    same('each failure is tried again', [x[0] for x in receiver.got], [500, 503, 302, 200])
    same('redirects are not followed', {(x[0] == 'GET', x[1]) for x in receiver.got}, {(False, '/hook')})
    _, _, headers, body = receiver.got[-1]
    check('signed', signed(headers, body), dict(headers))
    same('headers', (headers['Content-Type'], headers['Authorization']), ('application/json', 'Bearer let-me-in'))
    group = json.loads(body)
    same('only what is open', [(a['labels']['function'], a['status']) for a in group['alerts']], [('hot"\n\\', 'firing')])
    same('labels', group['alerts'][0]['labels'], {
        'alertname': 'KilnChange', 'change_id': '7', 'direction': 'increase', 'function': 'hot"\n\\', 'measured': 'self', 'profile_type': CPU, 'service_name': 'shop',
        'severity': 'warning', 'team': 'shop', 'tenant': 'anonymous'})
    check('the link', group['alerts'][0]['generatorURL'].startswith('https://kiln.example.com/x/diff?query=%7Bservice_name%3D%22shop%22%7D&type=process_cpu'), group)
    until(lambda: metric(s, 'kiln_alerts_sent_total') == 1)
    same('metrics', [metric(s, 'kiln_alerts_' + x) for x in ('sent_total', 'failed_total', 'receivers', 'receivers_failing')], [1, 3, 1, 0])
    log = s.log_text()
    same('the log tells once that it failed, and that it works again', (log.count('cannot deliver alerts'), log.count('delivered again')), (1, 1))
    check('without what may be a secret', '/hook' not in log and 'sesame' not in log, log[-500:])
    marks(s, folder, receiver)
    same('it stops', s.stop(), 0)
    receiver.stop()


def marks(s, folder, receiver):
    first = receiver.taken()[0]['alerts'][0]
    same('muted', mark(s, 7, 'muted'), 200)
    check('muting resolves it', until(lambda: len(receiver.taken()) == 2), receiver.alerts())
    last = receiver.taken()[-1]
    same('all of it', (last['status'], [a['status'] for a in last['alerts']]), ('resolved', ['resolved']))
    same('it is the same alert', [last['alerts'][0][k] for k in ('fingerprint', 'labels', 'startsAt')], [first[k] for k in ('fingerprint', 'labels', 'startsAt')])
    check('which has ended', datetime.datetime.fromisoformat(last['alerts'][0]['endsAt'][:19]).year >= 2020, last)
    check('and is forgotten', until(lambda: change(folder, 'SELECT count(*) FROM alert') == [(0,)]))
    same('open again', mark(s, 7, 'open'), 200)
    check('it fires again', until(lambda: len(receiver.taken()) == 3), receiver.alerts())
    open_change(folder, 11, 'second')
    wake(s)
    check('another change of the service', until(lambda: len(receiver.taken()) == 4), receiver.alerts())
    same('the group has both', sorted((a['labels']['function'], a['status']) for a in receiver.taken()[-1]['alerts']), [('hot"\n\\', 'firing'), ('second', 'firing')])
    same('with what they have in common', sorted(receiver.taken()[-1]['commonLabels']),
         ['alertname', 'direction', 'measured', 'profile_type', 'service_name', 'severity', 'team', 'tenant'])
    change(folder, 'UPDATE change SET gone = ? WHERE id = 11', NOW * 10**9)
    wake(s)
    check('what went back is resolved', until(lambda: len(receiver.taken()) == 5), receiver.alerts())
    same('the other one still fires', (receiver.taken()[-1]['status'], sorted((a['labels']['function'], a['status']) for a in receiver.taken()[-1]['alerts'])),
         ('firing', [('hot"\n\\', 'firing'), ('second', 'resolved')]))
    same('a service is deleted', s.ask('POST', '/api/v1/services/delete', b'', JSON, query={'service_name': 'shop'}).status, 200)
    check('its alerts are resolved', until(lambda: len(receiver.taken()) == 6), receiver.alerts())
    same('as they were sent', [(a['labels']['function'], a['status']) for a in receiver.taken()[-1]['alerts']], [('hot"\n\\', 'resolved')])


def restarts(kiln, folder):
    """Nothing is lost, and nothing is repeated that was acknowledged."""
    port = free_port()
    config = f'changes: {{alerts: [{{url: "http://127.0.0.1:{port}/hook", format: webhook, secret: {SECRET}, interval: 10s, timeout: 1s}}]}}\n'
    s = Server(kiln, folder, config=config)
    make_database(s)
    s.stop()
    # Of the version before alerts.
    for statement in ['DROP TABLE alert', 'DROP INDEX change_open', 'DROP TABLE version_window', 'DROP TABLE canary', 'ALTER TABLE version DROP COLUMN since',
                      'PRAGMA user_version = 1',
                      *(f'ALTER TABLE change DROP COLUMN version_{name}' for name in ('label', 'before', 'after', 'part'))]:
        change(folder, statement)
    open_change(folder, 1, 'first')
    s.start()
    check('nobody listens', until(lambda: metric(s, 'kiln_alerts_failed_total') > 0), s.log_text()[-300:])
    same('its failure is shown', metric(s, 'kiln_alerts_receivers_failing'), 1)
    s.stop(signal.SIGKILL)
    # Now it does, and is silent until the server is killed again.
    silent = socket.create_server(('127.0.0.1', port))
    s.start()
    silent.settimeout(60)
    connection = silent.accept()[0]
    check('it has got it', until(lambda: b'"first"' in connection.recv(65536, socket.MSG_PEEK)))
    s.stop(signal.SIGKILL)
    connection.close()
    silent.close()
    receiver = Receiver(port=port)
    change(folder, "INSERT INTO alert VALUES('of a receiver that is gone', 1, 'shop', 1, 1, '{}')")
    s.start()
    check('it is not lost', until(receiver.taken), s.log_text()[-300:])
    for how in signal.SIGKILL, signal.SIGTERM:
        until(lambda: change(folder, 'SELECT told FROM alert WHERE told = 1'))
        s.stop(how)
        s.start()
    open_change(folder, 2, 'second', service='bank')
    wake(s)
    check('a later one comes', until(lambda: len(receiver.taken()) >= 2), s.log_text()[-300:])
    same('and nothing twice', receiver.alerts(), [('first', 'firing'), ('second', 'firing')])
    same('what receivers that are gone knew is forgotten', change(folder, 'SELECT count(DISTINCT receiver) FROM alert'), [(1,)])
    s.stop()
    same('muted meanwhile', change(folder, 'INSERT INTO mute VALUES(?, ?, ?, 1, 0, ?, ?)', 'shop', CPU, 'first', '', ''), [])
    s.start()
    check('it is resolved', until(lambda: len(receiver.taken()) == 3), receiver.alerts())
    same('the last one', receiver.alerts()[-1], ('first', 'resolved'))
    s.stop()
    receiver.stop()


def slow_head(request):
    for byte in b'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n':
        request.wfile.write(bytes([byte]))
        time.sleep(0.5)


def slow_body(request):
    request.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n')
    for _ in range(60):
        request.wfile.write(b'x')
        time.sleep(0.5)


def endless_body(request):
    request.wfile.write(b'HTTP/1.1 500 No\r\nContent-Length: 1000000000\r\n\r\n')
    while True:
        request.wfile.write(b'x' * 65536)


def bad_receivers(kiln, folder):
    """One that misbehaves delays nobody else. Many changes, odd names."""
    good, slow, endless = Receiver(), Receiver(slow_head), Receiver(endless_body)
    dripping = Receiver(slow_body)
    manager = Receiver()
    webhook = lambda receiver, more='': f'{{url: {receiver.url}/hook, format: webhook, interval: 10s, timeout: 1s{more}}}'
    alerts = [webhook(slow), webhook(endless), webhook(dripping), '{url: "http://does-not-exist.invalid/x", format: webhook, timeout: 1s}', '{url: "http://127.0.0.1:1/x", format: webhook}',
              webhook(good, ', tenants: [anonymous, two], decreases: false'), f'{{url: {manager.url}/api/v2/alerts, format: alertmanager, interval: 10s}}']
    config = f'multitenant: true\nchanges: {{alerts: [{", ".join(alerts)}]}}\n'
    s = Server(kiln, folder, config='multitenant: true\n')
    make_database(s)
    for tenant in 'two', 'three':
        make_database(s, **{'X-Scope-OrgID': tenant})
        open_change(folder, 1, 'of_' + tenant, tenant=tenant)
    open_change(folder, range(100, 1100), 'many_', service='wide')
    open_change(folder, 1, b'\xff\xfe{}"\n'.decode('latin-1') + 'x' * 70000)
    open_change(folder, 2, '')
    change(folder, "UPDATE change SET (function, marker) = (CAST(x'66ff22c30a' AS TEXT), CAST(x'fffe' AS TEXT)) WHERE id = 2")
    open_change(folder, 3, 'cheaper', cost=-1e9)
    reload(s, config)
    everything = {('anonymous', f'{i}') for i in [1, 2, 3, *range(100, 1100)]} | {('two', '1'), ('three', '1')}
    seen = lambda receiver, listed: {(a['labels']['tenant'], a['labels']['change_id']) for status, _, _, body in list(receiver.got) if status == 200 for a in listed(json.loads(body))}
    check('an Alertmanager gets all', until(lambda: seen(manager, lambda got: got) == everything, 120), len(seen(manager, lambda got: got)))
    check('a hundred at a time', all(len(json.loads(x[3])) <= 100 for x in manager.got))
    check('a webhook gets all of its tenants', until(lambda: seen(good, lambda got: got['alerts']) == everything - {('three', '1'), ('anonymous', '3')}, 120), len(seen(good, lambda got: got['alerts'])))
    same('nobody waits for the slow one', slow.taken(), [])
    wide = [x for x in good.taken() if x['groupLabels']['service_name'] == 'wide']
    parts = [(len(x['alerts']), x['truncatedAlerts']) for x in wide]
    # More than ten if it took longer than the interval: they are sent again.
    check('a large service comes in parts', len(parts) >= 10 and set(parts) == {(100, 900)}, parts)
    check('names are valid and bounded', all(len(x[3]) < 300000 for x in good.got) and 'f\ufffd"\ufffd\n' in {x[0] for x in good.alerts()}, [len(x[3]) for x in good.got])
    check('2xx is enough, whatever the body', until(lambda: change(folder, "SELECT count(*) FROM alert WHERE told = 1 AND change = 1", tenant='three')[0][0] >= 2, 60), 'dripping')
    check('a slow receiver is given up', until(lambda: metric(s, 'kiln_alerts_failed_total') > 200, 60), metric(s, 'kiln_alerts_failed_total'))
    same('four of them fail', until(lambda: metric(s, 'kiln_alerts_receivers_failing') == 4, 60), True)
    n = len(manager.got)
    check('open ones are sent again', until(lambda: len(manager.got) >= n + 12, 60), len(manager.got))
    again = [a for x in manager.got[n:] for a in json.loads(x[3])]
    check('until a later time', all(datetime.datetime.fromisoformat(a['endsAt'][:19]).timestamp() + time.timezone * -1 > time.time() - 86400 for a in again[:5]), again[:1])
    # Alerts that are not configured any more.
    reload(s, 'multitenant: true\n')
    until(lambda: metric(s, 'kiln_alerts_receivers') == 0)
    n = len(good.got), len(manager.got)
    open_change(folder, 5000, 'late')
    wake(s)
    time.sleep(1.5)
    same('nothing is sent without receivers', (len(good.got), len(manager.got)), n)
    reload(s, config)
    check('back again', until(lambda: ('late', 'firing') in good.alerts()))
    same('it stops', s.stop(), 0)
    check('before its shutdown times out', 'shutdown timed out' not in s.log_text(), s.log_text()[-500:])
    for receiver in good, slow, endless, dripping, manager:
        receiver.stop()


def damaged_database(kiln, folder):
    """The database of a tenant cannot be read: others hear of their changes."""
    receiver = Receiver()
    s = Server(kiln, folder, config='multitenant: true\n')
    for tenant in 'broken', 'whole':
        make_database(s, **{'X-Scope-OrgID': tenant})
        open_change(folder, 1, 'of_' + tenant, tenant=tenant)
    s.stop()
    with open(f'{folder}/data/changes/broken.db', 'r+b') as file:
        file.write(b'no database at all' * 100)
    s.write(f'multitenant: true\nchanges: {{alerts: [{{url: "{receiver.url}/hook", format: webhook, interval: 10s}}]}}\n')
    s.start()
    check('another tenant is alerted', until(lambda: receiver.alerts() == [('of_whole', 'firing')], 30), (receiver.alerts(), s.log_text()[-300:]))
    check('the log names the file', until(lambda: 'broken.db is damaged' in s.log_text()), s.log_text()[-300:])
    open_change(folder, 2, 'later', service='bank', tenant='whole')
    s.ask('POST', '/api/v1/changes/state', b'{"id": "77", "state": "open"}', {**JSON, 'X-Scope-OrgID': 'whole'})
    check('also later', until(lambda: ('later', 'firing') in receiver.alerts(), 30), receiver.alerts())
    same('it stops', s.stop(), 0)
    receiver.stop()


def ask_manager(port, path):
    with urllib.request.urlopen(f'http://127.0.0.1:{port}{path}', timeout=5) as answer:
        return json.load(answer)


def find_alertmanager():
    return shutil.which('prometheus-alertmanager') or shutil.which('alertmanager')


@contextlib.contextmanager
def alertmanager(program, folder, hook):
    """Yields the port of an Alertmanager whose webhook has that URL; None if it does not start."""
    with open(folder + '/am.yml', 'w') as file:
        file.write(f'route: {{receiver: hook, group_by: [alertname, service_name, tenant], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}}\n'
                   f'receivers: [{{name: hook, webhook_configs: [{{url: "{hook}"}}]}}]\n')
    port = free_port()
    with open(folder + '/am.log', 'wb') as log:
        manager = subprocess.Popen([program, f'--config.file={folder}/am.yml', f'--storage.path={folder}/am', f'--web.listen-address=127.0.0.1:{port}', '--cluster.listen-address='],
                                   stdout=log, stderr=subprocess.STDOUT)

    def ready():
        try:
            return ask_manager(port, '/api/v2/status')
        except OSError:
            return None
    try:
        is_ready = until(ready, 30)
        check('Alertmanager starts', is_ready, open(folder + '/am.log').read()[-500:])
        yield port if is_ready else None
    finally:
        manager.terminate()
        manager.wait(20)


def real_alertmanager(kiln, folder):
    """Both ways: kiln pushes to an Alertmanager, and what its webhook sends is in the form of kiln's."""
    program = find_alertmanager()
    if not program:
        return skip('no Alertmanager (Debian: prometheus-alertmanager)')
    hook, own = Receiver(), Receiver()
    with alertmanager(program, folder, hook.url + '/am') as port:
        if not port:
            return None
        s = Server(kiln, folder, config=f'changes: {{alerts: [{{url: "http://127.0.0.1:{port}/api/v2/alerts", format: alertmanager, name: am}}, '
                                        f'{{url: "{own.url}/own", format: webhook, name: hook}}]}}\n')
        make_database(s)
        open_change(folder, 7, 'hot "quoted"\n')
        open_change(folder, 8, 'other', gone=1)  # a round of alerts may come before the name is changed
        change(folder, "UPDATE change SET function = CAST(x'66ff22c30a' AS TEXT), gone = 0 WHERE id = 8")
        wake(s)
        listed = lambda: {a['labels']['change_id']: a for a in ask_manager(port, '/api/v2/alerts')}
        check('the Alertmanager has both', until(lambda: len(listed()) == 2), (listed(), s.log_text()[-300:]))
        got = listed()
        same('as they are', (got['7']['labels']['function'], got['7']['status']['state'], got['8']['labels']['function']), ('hot "quoted"\n', 'active', 'f\ufffd"\ufffd\n'))
        same('nothing was refused', metric(s, 'kiln_alerts_failed_total'), 0)
        check('both webhooks fire', until(lambda: len({a['labels']['change_id'] for g in hook.taken() for a in g['alerts']}) == 2 and own.taken()), (hook.alerts(), own.alerts()))
        theirs, ours = hook.taken()[-1], own.taken()[-1]
        same('the same keys', (sorted(ours), sorted(ours['alerts'][0])), (sorted(theirs), sorted(theirs['alerts'][0])))
        by_id = lambda group: {a['labels']['change_id']: a for a in group['alerts']}
        same('the same alerts', [{k: x[k] for k in ('status', 'labels', 'annotations', 'generatorURL', 'fingerprint')} for x in (by_id(ours)['7'], by_id(ours)['8'])],
             [{k: x[k] for k in ('status', 'labels', 'annotations', 'generatorURL', 'fingerprint')} for x in (by_id(theirs)['7'], by_id(theirs)['8'])])
        same('the same groups', [ours[k] for k in ('version', 'status', 'groupKey', 'groupLabels', 'commonLabels', 'commonAnnotations')],
             [theirs[k] for k in ('version', 'status', 'groupKey', 'groupLabels', 'commonLabels', 'commonAnnotations')])
        same('muted', mark(s, 7, 'muted'), 200)
        check('it is resolved there', until(lambda: sorted(listed()) == ['8']), listed())
        check('and its webhook hears it', until(lambda: ('hot "quoted"\n', 'resolved') in hook.alerts(), 30), hook.alerts())
        s.stop()
    hook.stop()
    own.stop()
    return None


def versions(kiln, folder):
    """Of two versions that ran at the same time."""
    receiver = Receiver()
    s = Server(kiln, folder, config=f'external_url: https://kiln.example.com\nchanges: {{alerts: [{{url: "{receiver.url}/hook", format: webhook, interval: 10s}}]}}\n')
    make_database(s)
    start, end = (NOW - 7200) * 10**9, NOW * 10**9
    open_change(folder, 1, 'hot', verdict=0, time=start, low=start, high=end, before_start=start, before_end=end, after_start=start, after_end=end)
    change(folder, "UPDATE change SET verdict = 1, version_label = 'app.version', version_before = '1.4', version_after = '1.5 \"rc\"', version_part = 0.1")
    wake(s)
    check('the receiver gets it', until(receiver.taken), s.log_text()[-500:])
    alert = receiver.taken()[0]['alerts'][0]
    same('what it would cost', alert['annotations']['summary'], 'shop: hot costs +0.5 cores if all of it has app.version=1.5 "rc"')
    same('which versions', alert['annotations']['versions'], 'app.version: 1.4 -> 1.5 "rc"')
    check('compared at the same time', all(x in alert['annotations']['description'] for x in (
        'hot takes 9', ' in app.version=1.5 "rc" and 5', ' in 1.4 at the same time', '10 % of the profiles')), alert['annotations'])
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(alert['generatorURL']).query)
    same('the diff of both', (query['left_query'], query['query']), (['{service_name="shop", "app.version"="1.4"}'], ['{service_name="shop", "app.version"="1.5 \\"rc\\""}']))
    same('at the same time', (query['left_from'], query['left_until']), (query['from'], query['until']))
    c = json.loads(s.ask('GET', '/api/v1/changes').plain)['changes'][0]
    same('as in the list', (c['versions'], c['baseline']['labelSelector'], c['comparison']['labelSelector']),
         ({'label': 'app.version', 'before': '1.4', 'after': '1.5 "rc"', 'part': 0.1}, query['left_query'][0], query['query'][0]))
    s.stop()
    receiver.stop()


def main(kiln):
    refusals(kiln)
    example()
    for part in delivery, restarts, versions, bad_receivers, damaged_database, real_alertmanager:
        with temporary() as folder:
            part(kiln, folder)
