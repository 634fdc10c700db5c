"""Scraping for several tenants, and targets that want to do harm: endless, slow, huge, redirecting."""
import gzip
import http.server
import json
import os
import signal
import threading
import time

from harness import Server, check, cpu_profile, field, gzip_bomb, message, same, temporary, until

AUTH = '''
auth:
  - {token: read-of-one, scopes: [read], tenants: [one]}
  - {token: read-of-two, scopes: [read], tenants: [two]}
  - {token: read-of-both, scopes: [read], tenants: [one, two]}
  - {token: boss-of-one, scopes: [read, admin], tenants: [one]}
  - {token: boss-of-all, scopes: [read, admin], tenants: ["*"]}
'''
CPU_ONLY = 'profiling_config: {pprof_config: {process_cpu: {path: %s}}}'


class Web(http.server.ThreadingHTTPServer):
    """answers: {path: function of the handler, or bytes}; asked: [(path, headers, time)]"""
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, answers=None):
        self.answers, self.asked = answers or {}, []
        super().__init__(('127.0.0.1', 0), Handler)
        self.address = '127.0.0.1:%d' % self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *arguments):
        pass  # who hangs up on a hostile target is right

    def times(self, path):
        return [at for p, _, at in self.asked if p == path]


class Apart:
    """A Web in a process of its own, so that it does not delay the others by itself."""

    def __init__(self, answers, nice=0):
        read, write = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                os.nice(nice)
                os.write(write, Web(answers).address.encode())
                time.sleep(600)
            finally:
                os._exit(0)
        self.address = os.read(read, 100).decode()
        os.close(read)
        os.close(write)

    def shutdown(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        path = self.path.split('?')[0]
        self.server.asked.append((path, dict(self.headers), time.monotonic()))
        answer = self.server.answers.get(path, good)
        if callable(answer):
            answer = answer(self)
        if answer is None:
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header('Content-Length', str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


def good(handler=None):
    return cpu_profile({('main', 'work'): 7}, time.time())


def bearer(token, **more):
    return {'Authorization': 'Bearer ' + token, **more}


def targets(s, headers=None):
    r = s.ask('GET', '/api/v1/targets', headers=headers)
    return json.loads(r.data)['data']['activeTargets'] if r.status == 200 else r.status


def jobs(s, headers=None):
    return sorted({t['scrapePool'] for t in targets(s, headers)})


def tenants(kiln):
    web = Web({'/sd': json.dumps([{'targets': ['127.0.0.1:1'], 'labels': {'__tenant_id__': 'two'}}]).encode()})
    config = AUTH + f'''
scrape_configs:
  - job_name: of-one
    tenant: one
    scrape_interval: 1s
    static_configs: [{{targets: ["{web.address}"], labels: {{team: secret-team}}}}]
    {CPU_ONLY % '/a'}
  - job_name: of-two
    tenant: two
    scrape_interval: 1s
    static_configs: [{{targets: ["{web.address}"]}}]
    {CPU_ONLY % '/b'}
  - job_name: by-label
    scrape_interval: 1s
    static_configs: [{{targets: ["{web.address}"], labels: {{owner: two}}}}]
    relabel_configs: [{{source_labels: [owner], target_label: __tenant_id__}}]
    {CPU_ONLY % '/c'}
  - job_name: of-nobody
    scrape_interval: 1s
    static_configs: [{{targets: ["{web.address}"]}}]
    {CPU_ONLY % '/d'}
  - job_name: bad-tenant
    static_configs: [{{targets: ["{web.address}"], labels: {{__tenant_id__: "../one"}}}}]
    {CPU_ONLY % '/e'}
  - job_name: found-by-one
    tenant: one
    http_sd_configs: [{{url: "http://{web.address}/sd", refresh_interval: 1s}}]
    {CPU_ONLY % '/f'}
'''
    with temporary() as folder:
        s = Server(kiln, folder, config=config)
        one, two = bearer('read-of-one'), bearer('read-of-two')
        until(lambda: jobs(s, one) == ['found-by-one', 'of-one'] and all(
            t['health'] != 'unknown' for t in targets(s, one) + targets(s, two) if t['scrapePool'] != 'found-by-one'))
        same('targets of one', jobs(s, one), ['found-by-one', 'of-one'])
        same('targets of two', jobs(s, two), ['by-label', 'of-two'])
        same('who may see both asks for one', jobs(s, bearer('read-of-both')), ['found-by-one', 'of-one'])
        same('or for the other', jobs(s, bearer('read-of-both', **{'X-Scope-OrgID': 'two'})), ['by-label', 'of-two'])
        same('the default tenant', jobs(s, bearer('boss-of-all')), ['of-nobody'])
        check('nobody names another tenant by a path', not web.times('/e'), web.asked)
        same('keys of a target', sorted(targets(s, one)[0]), ['health', 'labels', 'lastError', 'lastScrapeDuration',
             'lastScrapeMs', 'profile', 'scrapePool', 'scrapeUrl'])
        metrics = lambda token: s.ask('GET', '/metrics', headers=bearer(token)).plain.decode()
        seen = lambda token: sorted({line.split('job="')[1].split('"')[0] for line in metrics(token).splitlines()
                                     if line.startswith('kiln_scrape_up{')})
        every = {'by-label', 'of-nobody', 'of-one', 'of-two'}
        until(lambda: every <= set(seen('boss-of-all')))
        same('metrics of one', set(seen('read-of-one')) - {'found-by-one'}, {'of-one'})
        same('metrics of two', seen('read-of-two'), ['by-label', 'of-two'])
        same('metrics of one, by its administrator', set(seen('boss-of-one')) - {'found-by-one'}, {'of-one'})
        check('all metrics', every <= set(seen('boss-of-all')), seen('boss-of-all'))
        for token in 'read-of-two', 'boss-of-one':
            check(f'totals for {token}', 'kiln_scrapes_total ' in metrics(token) and 'kiln_store_bytes ' in metrics(token))
        span = {'start': int(time.time() - 60) * 1000, 'end': int(time.time() + 60) * 1000}
        names = lambda token, **more: set(s.json('LabelValues', {'name': 'service_name', **span}, bearer(token, **more)).get('names', []))
        for token, want in ('read-of-one', {'of-one'}), ('read-of-two', {'by-label', 'of-two'}), ('boss-of-all', {'of-nobody'}):
            until(lambda: names(token) == want)
            same(f'profiles by {token}', names(token), want)
        same('stops', s.stop(), 0)
    web.shutdown()


def discovery_credentials(kiln):
    """What targets are sent is not sent to the URL that names them, nor the other way around."""
    found = lambda handler: json.dumps([{'targets': [handler.headers['Host']]}]).encode()
    web = Web({'/sd': found, '/sd-basic': found, '/sd-bearer': found, '/sd-file': found})
    config = f'''
scrape_configs:
  - job_name: plain
    scrape_interval: 1s
    basic_auth: {{username: target-user, password: target-password}}
    http_sd_configs: [{{url: "http://{web.address}/sd", refresh_interval: 1s}}]
    {CPU_ONLY % '/plain'}
  - job_name: basic
    scrape_interval: 1s
    authorization: {{credentials: target-secret}}
    http_sd_configs: [{{url: "http://{web.address}/sd-basic", basic_auth: {{username: u, password: p}}}}]
    {CPU_ONLY % '/basic'}
  - job_name: bearer
    scrape_interval: 1s
    bearer_token: target-token
    http_sd_configs: [{{url: "http://{web.address}/sd-bearer", authorization: {{type: Token, credentials: sd-secret}}}}]
    {CPU_ONLY % '/bearer'}
  - job_name: file
    scrape_interval: 1s
    http_sd_configs: [{{url: "http://{web.address}/sd-file", authorization: {{credentials_file: "%s/none"}}}}]
    {CPU_ONLY % '/file'}
'''
    with temporary() as folder:
        s = Server(kiln, folder, config=config % folder)
        until(lambda: all(web.times(p) for p in ('/plain', '/basic', '/bearer')))
        got = {}
        for path, headers, _ in web.asked:
            got.setdefault(path, set()).add(headers.get('Authorization'))
        same('credentials', got, {
            '/sd': {None}, '/plain': {'Basic dGFyZ2V0LXVzZXI6dGFyZ2V0LXBhc3N3b3Jk'},
            '/sd-basic': {'Basic dTpw'}, '/basic': {'Bearer target-secret'},
            '/sd-bearer': {'Token sd-secret'}, '/bearer': {'Bearer target-token'}})
        check('a secret that cannot be read is not left out', 'none: No such file' in s.log_text(), s.log_text())
        same('stops', s.stop(), 0)
    web.shutdown()


def reloads(kiln):
    """A configuration whose targets cannot be used changes nothing, and nothing of the old one is freed."""
    web = Web()
    job = '{job_name: %s, scrape_interval: 1s, static_configs: [{targets: [%s]}], params: {x: ["%s"]}, ' + CPU_ONLY % '/p' + '}'
    with temporary() as folder:
        s = Server(kiln, folder, config='scrape_configs: [%s]\n' % (job % ('steady', f'"{web.address}"', 'y')))
        until(lambda: web.times('/p'))
        s.write('scrape_configs: [%s]\n' % (job % ('again', f'"{web.address}"', 'y')))
        s.process.send_signal(signal.SIGHUP)
        same('reloaded once', until(lambda: jobs(s) == ['again']), True)
        # More than 256 MiB of URLs and keys.
        many = ', '.join(f'"10.0.{i // 250}.{i % 250 + 1}:1"' for i in range(5000))
        s.write('scrape_configs: [%s]\n' % (job % ('too-many', many, '%' * 20000)))
        s.process.send_signal(signal.SIGHUP)
        check('too many targets are told', until(lambda: 'keeping the old ones' in s.log_text() or s.process.poll() is not None, 120), s.log_text())
        before = len(web.times('/p'))
        check('and the old ones go on', until(lambda: len(web.times('/p')) > before + 2), s.log_text())
        same('and are shown', jobs(s), ['again'])
        for i in range(20):  # while answers are under way
            s.write('scrape_configs: [%s]\n' % (job % (f'next{i}', f'"{web.address}"', 'y')))
            s.process.send_signal(signal.SIGHUP)
            time.sleep(0.02)
        check('reloaded', until(lambda: jobs(s) == ['next19']), s.log_text()[-2000:])
        for bad in ('scrape_interval: 99999999999d', 'scrape_interval: 0s', 'scrape_timeout: 9000000000s', 'tenant: "a/b"',
                    'target_limit: 99999999999', 'body_size_limit: 99999999TB', 'tenant: ""\n    bearer_token: x\n    basic_auth: {username: u}',
                    'http_sd_configs: [{url: "file:///etc/passwd"}]', 'http_sd_configs: [{url: "http://x", refresh_interval: 0s}]',
                    'file_sd_configs: [{files: [x], refresh_interval: 8000000000s}]'):
            n = s.log_text().count('keeping the old one')
            s.write(f'scrape_configs:\n  - job_name: bad\n    {bad}\n')
            s.process.send_signal(signal.SIGHUP)
            check(f'{bad}: refused', until(lambda: s.log_text().count('keeping the old one') > n, 10), s.log_text()[-500:])
        same('after all of them', jobs(s), ['next19'])
        check('stops', s.stop() == 0, s.log_text()[-3000:])
    web.shutdown()


def begin(handler, status, *headers):
    handler.wfile.write(b'\r\n'.join([b'HTTP/1.1 %d Whatever' % status, *headers, b'', b'']))


def raw(handler, text):
    handler.wfile.write(text)


def endless(handler):
    begin(handler, 200, b'Transfer-Encoding: chunked')
    piece = b'10000\r\n' + b'x' * 65536 + b'\r\n'
    while True:
        handler.wfile.write(piece)


def drip(handler):
    begin(handler, 200, b'Content-Length: 1000')
    for _ in range(1000):
        handler.wfile.write(b'x')
        time.sleep(0.2)


def hang(handler):
    time.sleep(600)


def long_head(handler):
    handler.wfile.write(b'HTTP/1.1 200 OK\r\n')
    while True:
        handler.wfile.write(b'X-A: ' + b'y' * 1000 + b'\r\n')


def many_heads(handler):
    while True:
        begin(handler, 100)


def redirect(place):
    def answer(handler):
        begin(handler, 302, b'Location: ' + place, b'Content-Length: 0')
        return None
    return answer


GOOD_CONFIG = f'''
scrape_configs:
  - job_name: good
    scrape_interval: 1s
    scrape_timeout: 5s
    static_configs: [{{{{targets: ["{{good}}"]}}}}]
    {(CPU_ONLY % '/good').replace('{', '{{').replace('}', '}}')}
'''
HOSTILE_CONFIG = '''
limits: {{process_memory: 256MiB, memory: 32MiB}}
''' + GOOD_CONFIG + '''
  - job_name: hostile
    scrape_interval: 1s
    scrape_timeout: 3s
    bearer_token: secret-of-targets
    static_configs: [{{targets: ["{hostile}"]}}]
    profiling_config: {{pprof_config: {{{profiles}}}}}
  - job_name: heavy
    scrape_interval: 1s
    scrape_timeout: 3s
    static_configs: [{{targets: ["{heavy}"]}}]
    profiling_config: {{pprof_config: {{{heavy_profiles}}}}}
  - job_name: sources
    scrape_interval: 1s
    scrape_timeout: 3s
    http_sd_configs: [{sources}]
'''


def resident(s):
    with open(f'/proc/{s.process.pid}/statm') as file:
        return int(file.read().split()[1]) * os.sysconf('SC_PAGESIZE')


def scrapes_while(webs, seconds, look=lambda: None):
    """How often each of them is asked meanwhile."""
    begun = time.monotonic()
    while time.monotonic() < begun + seconds:
        look()
        time.sleep(0.05)
    return [sum(begun < t < begun + seconds for t in web.times('/good')) for web in webs]


def hostile(kiln):
    good_web, calm_web, other = Web(), Web(), Web()
    bomb = gzip_bomb(1 << 30)
    with open('/etc/hostname', 'rb') as file:
        local = file.read()
    answers = {
        '/endless': endless, '/drip': drip, '/hang': hang, '/long_head': long_head, '/many_heads': many_heads,
        '/bomb': lambda handler: bomb, '/huge': lambda handler: begin(handler, 200, b'Content-Length: 10000000000'),
        '/negative': lambda handler: begin(handler, 200, b'Content-Length: -5'),
        '/to_file': redirect(b'file:///etc/hostname'), '/to_gopher': redirect(b'gopher://' + other.address.encode() + b'/x'),
        '/to_other': redirect(b'http://' + other.address.encode() + b'/stolen'), '/empty': lambda handler: b'',
        '/noise': lambda handler: os.urandom(100000), '/not_http': lambda handler: raw(handler, b'SSH-2.0\r\n'),
        '/loop': redirect(b'/loop'), '/error': lambda handler: raw(handler, b'HTTP/1.1 500 Bad\r\nContent-Length: 3\r\n\r\n\x00\xff"'),
        '/deep': b'[' * 3000000, '/laughs': laughs(), '/anchors': anchors(),
        '/labels': json.dumps([{'targets': ['a:1'], 'labels': {f'l{i}': 'x' for i in range(200000)}}]).encode(),
        '/schemes': json.dumps([{'targets': ['a:1', 'a/b', 'u:p@a', 'a b', ''], 'labels': {'__scheme__': 'file'}}]).encode(),
        '/million': json.dumps([{'targets': [f'10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}:0' for i in range(300000)]}]).encode(),
        # 150 times as much in memory, if all of it is read at once.
        '/nodes': b'[{"targets":[' + b'0,' * (7 << 20) + b'0]}]',
    }
    # Those that never end are in a process of their own: they would delay the others.
    heavy = ('/endless', '/drip', '/hang', '/long_head', '/many_heads', '/bomb')
    web = Apart({p: a for p, a in answers.items() if p not in heavy})
    heavy_web = Apart({p: answers[p] for p in heavy}, 10)
    at = lambda p: heavy_web.address if p in heavy else web.address
    profiles = lambda names: ', '.join('%s: {path: %s}' % (p[1:], p) for p in names)
    paths = [p for p in answers if p not in heavy and p not in ('/deep', '/laughs', '/anchors', '/labels', '/schemes', '/million', '/nodes')]
    sources = [p for p in answers if p not in ('/noise', '/to_file', '/negative')]
    config = HOSTILE_CONFIG.format(
        good=good_web.address, hostile=web.address, heavy=heavy_web.address, profiles=profiles(paths), heavy_profiles=profiles(heavy),
        sources=', '.join('{url: "http://%s%s", refresh_interval: 1s, bearer_token: secret-of-sources}' % (at(p), p) for p in sources))
    with temporary() as folder, temporary() as beside:
        calm = Server(kiln, beside, config=GOOD_CONFIG.format(good=calm_web.address))
        s = Server(kiln, folder, config=config)
        named = lambda: {t['profile']: t for t in targets(s) if t['scrapePool'] in ('hostile', 'heavy')}
        until(lambda: good_web.times('/good') and calm_web.times('/good'))
        highest = []
        alone, count = scrapes_while((calm_web, good_web), 10, lambda: highest.append(resident(s)))
        check('a good target is asked as often as by a server without hostile ones', count > alone * 0.75, f'{alone} -> {count}')
        same('and is up', {t['health'] for t in targets(s) if t['scrapePool'] == 'good'}, {'up'})
        if 'asan' not in kiln:  # which keeps what is freed
            check('memory is bounded by limits.process_memory', max(highest) < 256 << 20, f'{max(highest) >> 20} MiB')
        calm.stop()
        until(lambda: all(t['health'] == 'down' for t in named().values()))
        for name, target in named().items():
            check(f'{name} is down and says why', target['health'] == 'down' and target['lastError'], target)
            check(f'{name}: nothing of this machine', not local.strip() or local.strip() not in target['lastError'].encode(), target)
        same('redirects are not followed', other.asked, [])
        check('and say so', until(lambda: 'redirects are not followed' in named()['to_other']['lastError']), named()['to_other'])
        check('10 GB are refused', until(lambda: 'larger than 64 MiB' in named()['huge']['lastError']), named()['huge'])
        same('stops', s.stop(), 0)
        check('before its shutdown times out', 'shutdown timed out' not in s.log_text(), s.log_text()[-500:])
    for w in good_web, calm_web, other, web, heavy_web:
        w.shutdown()


def laughs():
    """A text of 2 KB that would be 10^9 items."""
    text = 'a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n'
    for i in range(1, 9):
        text += f'a{i}: &a{i} [{",".join([f"*a{i - 1}"] * 10)}]\n'
    return text.encode()


def anchors():
    return ('- targets: [' + ', '.join(f'&a{i} x' for i in range(300000)) + ']\n').encode()


def expensive(kiln):
    """Profiles that take long to decode delay nobody else."""
    strings = [b'', b'samples', b'count', b'cpu', b'nanoseconds', b'f']
    sample = message((2, message((1, 1), (2, 1))))
    body = message((1, message((1, 1), (2, 2)))) + sample * 3000000 + message(
        (4, message((1, 1), (3, 1), (4, message((1, 1))))), (5, message((1, 1), (2, 5), (3, 5)))) + b''.join(
            field(6, text) for text in strings) + message((11, message((1, 3), (2, 4))), (12, 10000000))
    zipped = gzip.compress(body, 1)
    good_web, calm_web, web = Web(), Web(), Apart({f'/p{i}': zipped for i in range(8)})
    config = GOOD_CONFIG.format(good=good_web.address) + f'''
  - job_name: expensive
    scrape_interval: 1s
    static_configs: [{{targets: ["{web.address}"]}}]
    profiling_config: {{pprof_config: {{{", ".join(f"process_cpu{i}: {{path: /p{i}}}" for i in range(8))}}}}}
'''
    with temporary() as folder, temporary() as beside:
        calm = Server(kiln, beside, config=GOOD_CONFIG.format(good=calm_web.address))
        s = Server(kiln, folder, config=config)
        until(lambda: all(t['health'] != 'unknown' for t in targets(s)), 60)
        alone, count = scrapes_while((calm_web, good_web), 8)
        def last():
            return next(t['lastScrapeMs'] for t in targets(s) if t['scrapePool'] == 'good')
        before = last()
        calm.stop()
        check('a good target is asked as often beside expensive ones', count > alone * 0.75, f'{alone} -> {count}')
        check('and goes on being scraped', until(lambda: last() > before, 60), before)
        same('stops', s.stop(), 0)
    for w in good_web, calm_web, web:
        w.shutdown()


def run(kiln):
    tenants(kiln)
    discovery_credentials(kiln)
    reloads(kiln)
    hostile(kiln)
    if 'asan' not in kiln:  # it measures, and the tests of pushes decode more
        expensive(kiln)
