#!/usr/bin/env python3
"""A hostile tenant: does something bad, at random, again and again, until standard input ends.

usage: vandal.py PORT TOKEN SEED
"""
import contextlib
import gzip
import http.client
import json
import os
import random
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from clients import PUSH, push_body
from harness import CPU, cpu_profile, field

QUERIER = '/querier.v1.QuerierService/'
port, token, seed = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
choose = random.Random(seed)
held = []


def post(path, body, kind='application/proto', method='POST', **headers):
    c = http.client.HTTPConnection('127.0.0.1', port, timeout=3)
    try:
        c.request(method, path, body, {'Content-Type': kind, 'Authorization': 'Bearer ' + token, **headers})
        c.getresponse().read()
    finally:
        c.close()


def labels():
    return {'__name__': 'process_cpu', 'service_name': f'vandal{choose.randrange(5)}'}


def span():
    now = int(time.time() * 1000)
    return {'start': now - choose.choice([10**6, 10**9, 10**12]), 'end': now + 10**6}


def garbage():
    post(choose.choice([PUSH, '/ingest?name=a.cpu&format=pprof', '/v1development/profiles', QUERIER + 'Series', '/api/v1/flame', '/api/v1/debuginfo/upload']),
         choose.randbytes(choose.randrange(1 << choose.randrange(4, 18))), choose.choice(['application/proto', 'application/json', 'application/octet-stream']))


def mutated_push():
    body = bytearray(push_body(labels(), cpu_profile({('main', f'f{i}'): i + 1 for i in range(30)}, time.time())))
    for _ in range(choose.randrange(1, 20)):
        body[choose.randrange(len(body))] = choose.randrange(256)
    post(PUSH, bytes(body))


def bomb():
    post(choose.choice([PUSH, '/ingest?name=a.cpu&format=pprof', '/v1development/profiles']), gzip.compress(bytes(choose.randrange(1 << 27)), 1),
         **{'Content-Encoding': 'gzip'})


def json_bomb():
    unit = choose.choice([b'{},', b'[],', b'1,', b'"a",', b'{"a":[0]},'])
    post(choose.choice([QUERIER + 'LabelNames', PUSH, '/ingest?name=a.cpu&format=speedscope', '/api/v1/flame']),
         gzip.compress(b'[' + unit * choose.randrange(1 << 23) + b'0]', 1), 'application/json', **{'Content-Encoding': 'gzip'})


def deep():
    post(QUERIER + 'LabelNames', b'[' * choose.randrange(1 << 20), 'application/json')


def far_times():
    base = cpu_profile({('a',): 1}, 0)
    post(PUSH, b''.join(push_body(labels(), base + field(9, choose.randrange(1 << 62))) for _ in range(50)))


def many_symbols():
    i = choose.randrange(1 << 30)
    post(PUSH, push_body(labels(), cpu_profile({('main', f'generated{i}_{k}'): 1 for k in range(3000)}, time.time())))


def many_series():
    post(PUSH, b''.join(push_body({**labels(), 'pod': f'p{choose.randrange(1 << 20)}'}, cpu_profile({('a',): 1}, time.time())) for _ in range(100)))


def regex():
    post(QUERIER + 'SelectMergeStacktraces', json.dumps({**span(), 'profileTypeID': CPU, 'labelSelector': '{pod=~"(p|pp)+(a?){20}a{20}$"}'}).encode(), 'application/json')


def flood():
    body = push_body(labels(), cpu_profile({('main', f'f{i}'): 1 for i in range(100)}, time.time()))
    c = http.client.HTTPConnection('127.0.0.1', port, timeout=3)
    for _ in range(100):
        c.request('POST', PUSH, body, {'Content-Type': 'application/proto', 'Authorization': 'Bearer ' + token})
        c.getresponse().read()
    c.close()


def other_tenant():
    with_name = {'X-Scope-OrgID': f't{choose.randrange(20)}'}
    post(PUSH, push_body({'__name__': 'process_cpu', 'service_name': 'app'}, cpu_profile({('leaked',): 1}, time.time())), **with_name)
    post('/api/v1/services/delete?service_name=app', b'{}', 'application/json', **with_name)


def delete_own():
    post(f'/api/v1/services/delete?service_name=vandal{choose.randrange(5)}', b'{}', 'application/json')


def hold():
    s = socket.create_connection(('127.0.0.1', port), timeout=3)
    s.sendall(choose.choice([b'', b'GET /rea', b'POST ' + PUSH.encode() + b' HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ' + token.encode()
                             + b'\r\nContent-Length: 200000000\r\n\r\n' + bytes(100000)]))
    held.append(s)
    if len(held) > 60:
        s = held.pop(choose.randrange(len(held)))
        if choose.random() < 0.5:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        s.close()


def debug_parts():
    post(f'/api/v1/debuginfo/upload?build_id={choose.randrange(1 << 60):040x}&offset=0&size={choose.choice([8, 1 << 20, 1 << 40])}', b'\x7fELF' + bytes(1000),
         'application/octet-stream')


ACTIONS = (garbage, mutated_push, bomb, json_bomb, deep, far_times, many_symbols, many_series, regex, flood, other_tenant, delete_own, hold, hold, hold, debug_parts)


def main():
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    while not ended.wait(choose.random() * 0.1):
        with contextlib.suppress(OSError, http.client.HTTPException):
            choose.choice(ACTIONS)()


main()
