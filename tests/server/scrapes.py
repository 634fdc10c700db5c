"""Scraping: targets from the file, from files and from a URL, what they answer, how it is shown."""
import http.server
import json
import os
import signal
import threading
import time
import urllib.parse

from harness import Server, check, cpu_profile, profile, same, temporary, until

MEMORY = [('alloc_objects', 'count'), ('alloc_space', 'bytes'), ('inuse_objects', 'count'),
          ('inuse_space', 'bytes')]
CONFIG = '''
scrape_configs:
  - job_name: shop
    scrape_interval: 1s
    params: {{kind: [special]}}
    bearer_token: open-sesame
    static_configs:
      - targets: ["127.0.0.1:{port}"]
        labels: {{region: eu, drop_me: "x"}}
    relabel_configs:
      - {{regex: drop_me, action: labeldrop}}
      - {{source_labels: [__address__], regex: "(.*):.*", target_label: host, replacement: "host-$1"}}
    profiling_config:
      path_prefix: /prefix
      pprof_config:
        process_cpu: {{path: /debug/pprof/profile, delta: true}}
        memory: {{path: /debug/pprof/heap}}
        broken: {{path: /nothing}}
  - job_name: found
    scrape_interval: 1s
    file_sd_configs: [{{files: ["{folder}/sd/*.json"], refresh_interval: 1s}}]
    http_sd_configs: [{{url: "http://127.0.0.1:{port}/targets", refresh_interval: 1s}}]
    relabel_configs:
      - {{source_labels: [unwanted], regex: "yes", action: drop}}
    profiling_config: {{pprof_config: {{process_cpu: {{path: /debug/pprof/profile, delta: true, seconds: 1}}}}}}
'''


class Service(http.server.BaseHTTPRequestHandler):
    asked = []
    count = 0

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        Service.asked.append((url.path, dict(urllib.parse.parse_qsl(url.query)), self.headers.get('Authorization')))
        if url.path == '/targets':
            body = json.dumps([{'targets': [self.headers['Host']], 'labels': {'from': 'url'}},
                               {'targets': ['127.0.0.1:1'], 'labels': {'unwanted': 'yes'}}]).encode()
        elif url.path.endswith('/profile'):
            body = cpu_profile({('main', 'work'): 7}, time.time())
        elif url.path.endswith('/heap'):
            Service.count += 1
            n = Service.count
            body = profile(MEMORY, ('space', 'bytes', 524288), {('main', 'make'): [n, n * 100, 5, 50]}, time.time())
        else:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def run(kiln):
    web = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Service)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    port = web.server_address[1]
    with temporary() as folder:
        os.mkdir(folder + '/sd')
        with open(folder + '/sd/a.json', 'w') as file:
            json.dump([{'targets': [f'127.0.0.1:{port}'], 'labels': {'from': 'file'}}], file)
        s = Server(kiln, folder, config=CONFIG.format(port=port, folder=folder))
        start = int(time.time() - 60) * 1000
        span = lambda: {'start': start, 'end': int(time.time() + 60) * 1000}
        targets = lambda: json.loads(s.ask('GET', '/api/v1/targets').data)['data']['activeTargets']
        until(lambda: Service.count >= 4 and len(targets()) == 5 and all(t['health'] != 'unknown' for t in targets()))
        time.sleep(0.3)
        got = {(t['scrapePool'], t['profile'], t['labels'].get('from')): t for t in targets()}
        same('targets', sorted(map(str, got)), sorted(map(str, [
            ('shop', 'process_cpu', None), ('shop', 'memory', None), ('shop', 'broken', None),
            ('found', 'process_cpu', 'file'), ('found', 'process_cpu', 'url')])))
        for key, target in got.items():
            if key[1] == 'broken':
                check('a broken target is down and says why', target['health'] == 'down' and '404' in target['lastError'], target)
            else:
                same(f'{key} is up', (target['health'], target['lastError']), ('up', ''))
        same('labels of a target', got['shop', 'memory', None]['labels'],
             {'region': 'eu', 'host': 'host-127.0.0.1', 'job': 'shop', 'instance': f'127.0.0.1:{port}', 'service_name': 'shop'})
        asked = next(a for a in Service.asked if a[0] == '/prefix/debug/pprof/profile')
        same('what a target is asked', asked, ('/prefix/debug/pprof/profile', {'kind': 'special', 'seconds': '1'}, 'Bearer open-sesame'))
        flame = s.flame('{service_name="shop", region="eu"}', **{k: v for k, v in span().items()})
        check('scraped profiles', flame.get(('main', 'work'), (0,))[0] >= 7 * 10**7, flame)
        points = s.json('SelectSeries', {'profileTypeID': 'memory:alloc_space:bytes:space:bytes', 'labelSelector': '{service_name="shop"}', 'step': 1, **span()})
        values = {p['value'] for x in points.get('series', []) for p in x['points']}
        check('counters are differences', values and values <= {100, 200}, points)
        inuse = s.flame('{service_name="shop"}', kind='memory:inuse_space:bytes:space:bytes', **span())
        same('what is in use is not', inuse, {('main',): (50, 0), ('main', 'make'): (50, 50)})
        # A process that starts anew counts from zero.
        Service.count = 0
        time.sleep(2.5)
        points = s.json('SelectSeries', {'profileTypeID': 'memory:alloc_space:bytes:space:bytes', 'labelSelector': '{service_name="shop"}', 'step': 1, **span()})
        check('also after a restart', all(0 < p['value'] <= 200 for x in points['series'] for p in x['points']), points)
        # Fewer targets, by SIGHUP.
        s.write('scrape_configs: [{job_name: shop, static_configs: [{targets: ["127.0.0.1:%d"]}], '
                'profiling_config: {pprof_config: {memory: {path: /debug/pprof/heap}}}}]\n' % port)
        s.process.send_signal(signal.SIGHUP)
        same('reloaded', until(lambda: [t['profile'] for t in targets()] == ['memory']), True)
        s.write('scrape_configs: 7\n')
        s.process.send_signal(signal.SIGHUP)
        check('a bad file leaves the old targets', until(lambda: 'keeping the old one' in s.log_text()) and len(targets()) == 1)
        same('stops', s.stop(), 0)
    web.shutdown()
