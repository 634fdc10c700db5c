"""Checks, a service to ask, and a client that says exactly what it is told to."""
import http.client
import os
import re
import socket
import subprocess
import sys
import time
import urllib.parse

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
passed = failed = 0


def check(good, what):
    global passed, failed
    if good:
        passed += 1
    else:
        failed += 1
        print('FAIL', what, flush=True)


def run(*command, **options):
    try:
        return subprocess.run(command, capture_output=True, timeout=120, **options)
    except subprocess.CalledProcessError as e:
        sys.exit(f'{command[0]} failed: {e.stderr.decode()}')


class Service:
    """tests/endpoints/service.c, running."""

    def __init__(self, program, **environment):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=dict(os.environ, **environment))

    def ask(self, line):
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def serve(self, address='127.0.0.1:0', token=''):
        return self.ask(f'serve {address} {token}')

    def end(self):
        """The exit status; 0 is a clean end."""
        self.process.stdin.close()
        return self.process.wait(60)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body
        self.text = body.decode(errors='replace')


def connect(url, timeout=60):
    if url.startswith('unix:'):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(timeout)
        s.connect(url[5:])
        return s
    where = urllib.parse.urlsplit(url)
    return socket.create_connection((where.hostname, where.port), timeout)


def get(url, path, method='GET', body=None, **headers):
    where = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=90)
    connection.request(method, path, body, {k.replace('_', '-'): v for k, v in headers.items()})
    answer = connection.getresponse()
    result = Answer(answer.status, answer.headers, answer.read())
    connection.close()
    return result


def say(url, data, timeout=30):
    """Everything that comes back until the other side closes or nothing more comes."""
    with connect(url, timeout) as s:
        s.sendall(data)
        got = b''
        try:
            while part := s.recv(65536):
                got += part
        except (ConnectionResetError, TimeoutError):
            pass
        return got


def metrics(url, **headers):
    """name{labels} -> value; fails on what Prometheus would not take."""
    text = get(url, '/metrics', **headers).text
    found, described = {}, set()
    for line in text.splitlines():
        if m := re.fullmatch(r'# (HELP|TYPE) (kiln_[a-z_]+) (.+)', line):
            described.add((m[1], m[2]))
            if m[1] == 'TYPE':
                assert m[3] in ('counter', 'gauge'), line
                assert (m[3] == 'counter') == m[2].endswith('_total'), line
            continue
        m = re.fullmatch(r'(kiln_[a-z_]+)(\{[a-z]+="[^"\\]*"\})? ([0-9]+)', line)
        assert m and {('HELP', m[1]), ('TYPE', m[1])} <= described, line
        assert m[1] + (m[2] or '') not in found, line
        found[m[1] + (m[2] or '')] = int(m[3])
    return found


def until(condition, seconds=10):
    end = time.time() + seconds
    while not condition() and time.time() < end:
        time.sleep(0.05)
    return condition()


def settled(read):
    """A value that stays the same for half a second: a joined thread is listed in /proc for a moment longer."""
    value, since = read(), time.time()
    while time.time() - since < 0.5:
        time.sleep(0.05)
        if (now := read()) != value:
            value, since = now, time.time()
    return value


def finish():
    print(f'{passed} passed, {failed} failed')
    sys.exit(failed > 0)
