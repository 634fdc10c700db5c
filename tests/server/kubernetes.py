"""Targets out of a Kubernetes API server, which is recorded here: lists in pages, watches, bookmarks, and what goes
wrong with them."""
import http.server
import json
import os
import signal
import ssl
import subprocess
import threading
import time
import urllib.parse

from harness import Server, check, same, skip, temporary, until
from scrape_tenants import Web

AUTH = '''
auth:
  - {{token: reader-of-shop, scopes: [read], tenants: [shop]}}
  - {{token: reader-of-other, scopes: [read], tenants: [other]}}
'''
JOB = '''
  - job_name: pods
    tenant: shop
    scrape_interval: 1s
    kubernetes_sd_configs:
      - role: pod
        api_server: {api}
        bearer_token_file: {folder}/token
        namespaces: {{names: [shop]}}
        selectors: [{{role: pod, label: "app=car,tier in (a,b)", field: "spec.nodeName=node-1"}}]
    relabel_configs:
      - {{source_labels: [__meta_kubernetes_pod_annotation_scrape], regex: "true", action: keep}}
      - {{source_labels: [__meta_kubernetes_pod_container_port_name], regex: pprof, action: keep}}
      - {{regex: __meta_kubernetes_pod_label_(.+), action: labelmap}}
      - {{source_labels: [__meta_kubernetes_pod_name], target_label: pod}}
    profiling_config: {{pprof_config: {{process_cpu: {{path: /debug/pprof/profile}}}}}}
'''
OTHERS = '''
  - job_name: slices
    tenant: shop
    kubernetes_sd_configs: [{{role: endpointslice, api_server: {api}, bearer_token_file: {folder}/token}}]
    relabel_configs:
      - {{source_labels: [__meta_kubernetes_service_label_team], target_label: team}}
      - {{source_labels: [__meta_kubernetes_pod_name], target_label: pod}}
      - {{source_labels: [__meta_kubernetes_endpointslice_port_name], regex: pprof, action: keep}}
    profiling_config: {{pprof_config: {{process_cpu: {{path: /debug/pprof/profile}}}}}}
  - job_name: annotated
    tenant: shop
    kubernetes_sd_configs:
      - {{role: pod, annotations: true, api_server: {api}, bearer_token_file: {folder}/token}}
'''
PAGE = 2


class Cluster(http.server.ThreadingHTTPServer):
    """An API server with the objects of its clients, and its faults."""
    daemon_threads = True

    def __init__(self, tls=None):
        self.lock = threading.Condition()
        self.version, self.oldest = 100, 0
        self.objects = {}  # (resource, namespace, name) -> object
        self.events = []  # (version, resource, type, object)
        self.asked = []  # (path, parameters)
        self.token, self.raw, self.close = 'first', (), 0
        self.cut = 0  # so many events end, with their connection, in the middle
        super().__init__(('127.0.0.1', 0), Api)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = '%s://127.0.0.1:%d' % ('https' if tls else 'http', self.server_address[1])
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *arguments):
        pass  # a client that hangs up

    def put(self, resource, name, body=None, namespace='shop'):
        with self.lock:
            self.version += 1
            key = resource, namespace, name
            kind = 'DELETED' if body is None else 'MODIFIED' if key in self.objects else 'ADDED'
            item = dict(body or self.objects[key])
            item['metadata'] = {**item.get('metadata', {}), 'name': name, 'namespace': namespace,
                                'resourceVersion': str(self.version)}
            self.objects.pop(key, None)
            if body is not None:
                self.objects[key] = item
            self.events.append((self.version, resource, kind, item))
            self.lock.notify_all()

    def bookmark(self):
        with self.lock:
            self.version += 1
            item = {'kind': 'Pod', 'metadata': {'resourceVersion': str(self.version)}}
            self.events.append((self.version, None, 'BOOKMARK', item))
            self.lock.notify_all()
            return self.version

    def compact(self):
        """Forgets all events: watches of before must begin again."""
        with self.lock:
            self.version += 1
            self.oldest, self.events = self.version, []

    def end_watches(self, raw=()):
        """raw: lines that are sent first."""
        with self.lock:
            self.raw = raw
            self.close += 1
            self.lock.notify_all()

    def count(self, watch, resource='pods'):
        return sum(path.endswith('/' + resource) and ('watch' in p) == watch for path, p in self.asked)


class Api(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *arguments):
        pass

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        c = self.server
        url = urllib.parse.urlsplit(self.path)
        p = dict(urllib.parse.parse_qsl(url.query))
        parts = url.path.strip('/').split('/')
        namespace = parts[parts.index('namespaces') + 1] if 'namespaces' in parts else None
        with c.lock:
            c.asked.append((url.path, p))
        if self.headers.get('Authorization') != 'Bearer ' + c.token:
            return self.answer(401, {'kind': 'Status', 'code': 401, 'reason': 'Unauthorized'})
        if 'watch' in p:
            return self.watch(parts[-1], namespace, int(p['resourceVersion']))
        self.list(parts[-1], namespace, p)

    def list(self, resource, namespace, p):
        c = self.server
        with c.lock:
            items = [o for (r, n, _), o in sorted(c.objects.items())
                     if r == resource and namespace in (None, n)]
            version = c.version
        begin = int(p.get('continue', '0'))
        more = str(begin + PAGE) if begin + PAGE < len(items) else ''
        self.answer(200, {'kind': 'List', 'metadata': {'resourceVersion': str(version), 'continue': more},
                          'items': items[begin:begin + PAGE] or None})

    def send_event(self, text):
        self.wfile.write(b'%x\r\n%s\r\n' % (len(text), text))
        self.wfile.flush()

    def watch(self, resource, namespace, version):
        c = self.server
        with c.lock:
            close = c.close
            if version < c.oldest:
                gone = {'kind': 'Status', 'code': 410, 'reason': 'Expired', 'message': 'too old'}
            else:
                gone = None
        self.send_response(200)
        self.send_header('Transfer-Encoding', 'chunked')
        self.end_headers()
        if gone:
            self.send_event(json.dumps({'type': 'ERROR', 'object': gone}).encode() + b'\n')
            return self.wfile.write(b'0\r\n\r\n')
        while True:
            with c.lock:
                c.lock.wait_for(lambda: c.close != close or any(e[0] > version for e in c.events), 60)
                new = [e for e in c.events if e[0] > version]
                ending, raw = c.close != close, c.raw
            if ending:
                for line in raw:
                    self.send_event(line)
                return self.wfile.write(b'0\r\n\r\n')
            for at, r, kind, item in new:
                version = max(version, at)
                if kind != 'BOOKMARK' and (r != resource or namespace not in (None, item['metadata']['namespace'])):
                    continue
                text = json.dumps({'type': kind, 'object': item}).encode() + b'\n'
                if c.cut:
                    c.cut -= 1
                    self.send_event(text[:len(text) // 2])
                    self.close_connection = True
                    return self.connection.close()
                # In two pieces: an event is a line, not a packet.
                self.send_event(text[:10])
                self.send_event(text[10:])


def pod(port, annotations=None, address='127.0.0.1', **labels):
    return {'metadata': {'labels': labels, 'annotations': {'scrape': 'true', **(annotations or {})},
                         'managedFields': [{'fieldsV1': {'f:x': {}}}] * 50},
            'spec': {'nodeName': 'node-1', 'containers': [
                {'name': 'app', 'image': 'car:1', 'ports': [
                    {'name': 'http', 'containerPort': 1, 'protocol': 'TCP'},
                    {'name': 'pprof', 'containerPort': port, 'protocol': 'TCP'}]}]},
            'status': {'phase': 'Running', 'podIP': address, 'conditions': [{'type': 'Ready', 'status': 'True'}]}}


class Watched:
    """A server and what it finds."""

    def __init__(self, kiln, folder, config):
        self.s = Server(kiln, folder, config=config)

    def targets(self, job, token='reader-of-shop'):
        answer = self.s.ask('GET', '/api/v1/targets', headers={'Authorization': 'Bearer ' + token})
        return [t for t in json.loads(answer.plain)['data']['activeTargets'] if t['scrapePool'] == job]

    def pods(self, job='pods'):
        return sorted(t['labels'].get('pod', '') for t in self.targets(job))

    def metric(self, name):
        text = self.s.ask('GET', '/metrics', headers={'Authorization': 'Bearer reader-of-shop'}).plain.decode()
        found = [line.split()[1] for line in text.splitlines() if line.startswith(name + ' ')]
        return int(found[0]) if found else None

    def finds(self, what, want, job='pods'):
        until(lambda: self.pods(job) == want, 60)
        same(what, self.pods(job), want)


def follow(c, w, port):
    """Churn, without lists."""
    w.finds('the pages of a list', ['a', 'b', 'c'])
    check('a list has several pages', any('continue' in p for _, p in c.asked))
    first = next(p for path, p in c.asked if path == '/api/v1/namespaces/shop/pods')
    same('selectors are sent', (first.get('labelSelector'), first.get('fieldSelector')),
         ('app=car,tier in (a,b)', 'spec.nodeName=node-1'))
    until(lambda: c.count(True))
    lists = c.count(False)
    c.put('pods', 'd', pod(port, color='red'))
    c.put('pods', 'a')
    c.put('pods', 'b', pod(port, {'scrape': 'false'}))
    c.put('pods', 'e', pod(port), namespace='elsewhere')
    w.finds('added, deleted and changed pods', ['c', 'd'])
    target = next(t for t in w.targets('pods') if t['labels']['pod'] == 'd')
    same('labels of a pod', target['labels'].get('color'), 'red')
    check('the port that relabeling keeps', f'127.0.0.1:{port}/' in target['scrapeUrl'], target)
    check('a target is scraped', until(lambda: any(t['health'] == 'up' for t in w.targets('pods')), 60))
    same('another tenant sees nothing', w.targets('pods', 'reader-of-other'), [])
    same('no list was needed', c.count(False), lists)
    check('events are counted', w.metric('kiln_kubernetes_events_total') >= 3)
    same('objects', w.metric('kiln_kubernetes_objects'), 3)


def resume(c, w, port):
    lists, watches = c.count(False), c.count(True)
    version = c.bookmark()
    until(lambda: w.metric('kiln_kubernetes_events_total') >= 4)
    c.end_watches()
    until(lambda: c.count(True) > watches, 60)
    last = [p for path, p in c.asked if 'watch' in p][-1]
    same('a watch resumes from the bookmark', last['resourceVersion'], str(version))
    c.put('pods', 'f', pod(port))
    w.finds('events of the new watch', ['c', 'd', 'f'])
    # Half of an event: the rest of it is asked for again.
    c.cut = 1
    c.put('pods', 'g', pod(port))
    w.finds('a connection that ends within an event', ['c', 'd', 'f', 'g'])
    same('it did', c.cut, 0)
    same('nothing of this needs a list', c.count(False), lists)


def relist(c, w, port):
    lists = c.count(False)
    c.compact()
    c.end_watches()
    c.put('pods', 'f')
    c.compact()
    w.finds('410 Gone: a list, without pods that were deleted meanwhile', ['c', 'd', 'g'])
    check('it was listed again', c.count(False) > lists)
    lists = c.count(False)
    until(lambda: c.asked[-1][1].get('watch'))
    c.end_watches(raw=[b'{"type": "ADDED", "object": {"metadata"\n', b'not JSON\n'])
    c.put('pods', 'h', pod(port))
    w.finds('an invalid event', ['c', 'd', 'g', 'h'])
    check('is followed by a list', until(lambda: c.count(False) > lists, 60))


def survive(c, w, folder, port):
    failures = w.metric('kiln_kubernetes_failures_total')
    huge = pod(port)
    huge['metadata']['managedFields'] = ['x' * (17 << 20)]
    c.put('pods', 'huge', huge)
    check('a huge event is a failure', until(lambda: w.metric('kiln_kubernetes_failures_total') > failures, 60))
    same('and the targets stay', w.pods(), ['c', 'd', 'g', 'h'])
    c.put('pods', 'huge')
    c.put('pods', 'i', pod(port))
    w.finds('without it, all is well', ['c', 'd', 'g', 'h', 'i'])
    # The token changes: the file first has the old one.
    c.token = 'second'
    c.end_watches()
    check('the old token is refused', until(lambda: 'answers 401' in w.s.log_text(), 60))
    same('and the targets stay', w.pods(), ['c', 'd', 'g', 'h', 'i'])
    with open(folder + '/token', 'w') as file:
        file.write('second\n')
    c.put('pods', 'i')
    w.finds('a new token is read', ['c', 'd', 'g', 'h'])


def other_roles(c, w, port):
    c.put('services', 'car', {'metadata': {'labels': {'team': 'cars'}}})
    c.put('endpointslices', 'car-1', {
        'metadata': {'labels': {'kubernetes.io/service-name': 'car'}}, 'addressType': 'IPv4',
        'endpoints': [{'addresses': ['127.0.0.1'], 'conditions': {'ready': True},
                       'targetRef': {'kind': 'Pod', 'namespace': 'shop', 'name': 'c'}}],
        'ports': [{'name': 'pprof', 'port': port, 'protocol': 'TCP'},
                  {'name': 'http', 'port': 1, 'protocol': 'TCP'}]})
    w.finds('an endpoint and its pod', ['c'], 'slices')
    same('labels of its service', [t['labels'].get('team') for t in w.targets('slices')], ['cars'])
    c.put('pods', 'wish', pod(port, {'scrape': 'false', 'profiles.grafana.com/cpu.scrape': 'true',
                                     'profiles.grafana.com/cpu.port': str(port),
                                     'profiles.grafana.com/memory.scrape': 'true',
                                     'profiles.grafana.com/memory.port_name': 'pprof',
                                     'profiles.grafana.com/memory.path': '/heap',
                                     'pyroscope.io/service_name': 'wishes'}))
    until(lambda: len(w.targets('annotated')) == 2, 60)
    same('profiles that annotations ask for', sorted(
        (t['profile'], urllib.parse.urlsplit(t['scrapeUrl']).path, t['labels']['service_name'],
         t['labels']['namespace']) for t in w.targets('annotated')),
        [('memory', '/heap', 'wishes', 'shop'), ('process_cpu', '/debug/pprof/profile', 'wishes', 'shop')])


def certificate(folder, name):
    made = subprocess.run(
        ['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
         '-subj', '/CN=' + name, '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', f'{folder}/{name}.key',
         '-out', f'{folder}/{name}.pem'], capture_output=True)
    return made.returncode == 0 and (f'{folder}/{name}.pem', f'{folder}/{name}.key')


def certificates(kiln, folder, port):
    """Inside of a cluster: address, token and authority are found; another authority's certificate is refused."""
    try:
        pair = certificate(folder, 'api') and certificate(folder, 'other') and certificate(folder, 'api')
    except OSError:
        pair = None
    if not pair:
        return skip('no openssl to make certificates with')
    c = Cluster(tls=pair)
    c.put('pods', 'a', pod(port))
    host, number = c.server_address
    job = JOB.split('api_server: {api}\n')
    inside = AUTH + 'scrape_configs:' + ('tls_config: {{ca_file: {ca}}}\n'.join(job))
    os.environ.update(KUBERNETES_SERVICE_HOST=host, KUBERNETES_SERVICE_PORT=str(number))
    os.mkdir(folder + '/tls')
    w = Watched(kiln, folder + '/tls', inside.format(folder=folder, ca=folder + '/other.pem'))
    check('a wrong certificate is refused', until(lambda: 'ertificate' in w.s.log_text(), 60), w.s.log_text())
    same('nothing was sent', c.asked, [])
    w.s.write(inside.format(folder=folder, ca=folder + '/api.pem'))
    w.s.stop()
    w.s.start()
    w.finds('the address is in the environment', ['a'])
    w.s.stop()
    for name in 'KUBERNETES_SERVICE_HOST', 'KUBERNETES_SERVICE_PORT':
        del os.environ[name]


def run(kiln):
    web = Web()
    port = web.server_address[1]
    c = Cluster()
    for name in 'abc':
        c.put('pods', name, pod(port))
    with temporary() as folder:
        with open(folder + '/token', 'w') as file:
            file.write('first\n')
        config = AUTH + 'scrape_configs:' + JOB
        w = Watched(kiln, folder, config.format(api=c.url, folder=folder))
        follow(c, w, port)
        resume(c, w, port)
        relist(c, w, port)
        survive(c, w, folder, port)
        w.s.write((config + OTHERS).format(api=c.url, folder=folder))
        w.s.process.send_signal(signal.SIGHUP)
        other_roles(c, w, port)
        c.shutdown()
        c.end_watches()
        c.server_close()
        time.sleep(1)
        same('the API server is away: the targets stay', w.pods(), ['c', 'd', 'g', 'h'])
        same('the server stops', w.s.stop(), 0)
    with temporary() as folder:
        with open(folder + '/token', 'w') as file:
            file.write('first')
        certificates(kiln, folder, port)
    web.shutdown()
