#!/usr/bin/env python3
"""Busy keep-alive connections: each sends requests one after the other and counts the answers.

usage: load.py PORT CONNECTIONS SECONDS TOKEN                    pushes; each connection has its own function
       load.py PORT CONNECTIONS SECONDS TOKEN PATH TYPE FILE     the body that the file has

Prints a line when every connection has had an answer, and at the end JSON: answers by status, and of pushes how many each connection sent and how many were acknowledged.
Ends early when nobody listens any more.
"""
import http.client
import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from clients import PUSH, push_body
from harness import cpu_profile

SERVICE = 'load'
port, connections, seconds, token = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
path, kind, name = sys.argv[5:8] if len(sys.argv) > 5 else (PUSH, 'application/proto', None)
end = time.monotonic() + seconds
sent, acknowledged, answers = [0] * connections, [0] * connections, {}
waiting, busy = set(range(connections)), threading.Event()


def one(number):
    if name:
        with open(name, 'rb') as file:
            body = file.read()
    else:
        body = push_body({'__name__': 'process_cpu', 'service_name': SERVICE}, cpu_profile({('main', f'c{number}'): 1}, time.time()))
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=30)
    while time.monotonic() < end:
        sent[number] += 1
        try:
            connection.request('POST', path, body, {'Content-Type': kind, 'Authorization': 'Bearer ' + token})
            answer = connection.getresponse()
            answer.read()
            status = answer.status
        except ConnectionRefusedError:
            sent[number] -= 1
            return
        except (OSError, http.client.HTTPException) as error:
            status = type(error).__name__
            connection.close()
        acknowledged[number] += status == 200
        waiting.discard(number)
        if not waiting and not busy.is_set():
            busy.set()
            print('busy', flush=True)
        answers[status] = answers.get(status, 0) + 1


threads = [threading.Thread(target=one, args=(i,), daemon=True) for i in range(connections)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps({'answers': answers, 'sent': sent, 'acknowledged': acknowledged}))
