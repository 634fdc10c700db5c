#!/usr/bin/env python3
"""Well-behaved clients of a server, in a process of their own: an attack that keeps the test's own
interpreter busy does not slow them down.

usage: clients.py PORT ECHO_PORT TOKEN [tls]    prints `KIND START LATENCY STATUS`, a line per answer
       clients.py --echo                        a plain HTTP server; prints its port

START is CLOCK_MONOTONIC. The clients end when standard input does.
"""
import http.client
import http.server
import json
import os
import ssl
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import CPU, cpu_profile, field, message

PUSH = '/push.v1.PusherService/Push'
MERGE = '/querier.v1.QuerierService/SelectMergeStacktraces'
SERVICE = 'well-behaved'
TIMEOUT = 30
# Seconds between two requests of a kind. A fresh client opens a connection for each request, as
# the health checks of orchestrators do.
EVERY = {'push': 0.2, 'query': 0.2, 'ready': 0.05, 'healthz': 0.05, 'metrics': 0.1, 'fresh': 0.2, 'echo': 0.05}


def push_body(labels, profile, identifier=None):
    pairs = b''.join(field(1, message((1, k.encode()), (2, v.encode()))) for k, v in labels.items())
    sample = field(1, profile) + (field(2, identifier.encode()) if identifier else b'')
    return field(1, pairs + field(2, sample))


def request_of(kind, token, number):
    """method, path, body and headers"""
    headers = {'Authorization': 'Bearer ' + token} if token else {}
    if kind == 'push':
        profile = cpu_profile({('main', f'f{number % 10}'): 1}, time.time())
        body = push_body({'__name__': 'process_cpu', 'service_name': SERVICE}, profile, f'{os.getpid()}-{number}')
        return 'POST', PUSH, body, {**headers, 'Content-Type': 'application/proto'}
    if kind == 'query':
        now = int(time.time() * 1000)
        body = json.dumps({'profileTypeID': CPU, 'labelSelector': '{service_name="%s"}' % SERVICE,
                           'start': now - 3600000, 'end': now + 60000}).encode()
        return 'POST', MERGE, body, {**headers, 'Content-Type': 'application/json'}
    if kind == 'metrics':
        return 'GET', '/metrics', None, headers
    return 'GET', '/healthz' if kind == 'healthz' else '/ready', None, {}


def connect(kind, port, echo_port, tls):
    if kind == 'echo':
        return http.client.HTTPConnection('127.0.0.1', echo_port, timeout=TIMEOUT)
    if tls:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return http.client.HTTPSConnection('127.0.0.1', port, timeout=TIMEOUT, context=context)
    return http.client.HTTPConnection('127.0.0.1', port, timeout=TIMEOUT)


def client(kind, port, echo_port, token, tls, stopping):
    connection = connect(kind, port, echo_port, tls)
    due = time.monotonic()
    for number in range(1 << 40):
        request = request_of(kind, token, number)
        start = time.monotonic()
        try:
            connection.request(*request)
            answer = connection.getresponse()
            answer.read()
            status = answer.status
        except (OSError, http.client.HTTPException) as error:
            status = type(error).__name__
            connection.close()
        end = time.monotonic()
        if kind == 'fresh':
            connection.close()
        os.write(1, f'{kind} {start:.6f} {end - start:.6f} {status}\n'.encode())
        due = max(due + EVERY[kind], end)
        if stopping.wait(max(0, due - end)):
            return


class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', '6')
        self.end_headers()
        self.wfile.write(b'ready\n')

    def log_message(self, *_):
        pass


def main():
    if sys.argv[1] == '--echo':
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Echo)
        print(server.server_address[1], flush=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdin.read()
        os._exit(0)
    port, echo_port, token, tls = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], 'tls' in sys.argv[4:]
    stopping = threading.Event()
    threads = [threading.Thread(target=client, args=(kind, port, echo_port, token, tls, stopping)) for kind in EVERY]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stopping.set()
    for thread in threads:
        thread.join()


if __name__ == '__main__':
    main()
