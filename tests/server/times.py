"""Times of profiles: which are accepted, backfilling, and requests of many days."""
import os
import resource
import subprocess
import threading
import time

from harness import Server, check, cpu_profile, same, temporary

NOW = int(time.time())
DAY = 86400
STACKS = {('main', 'a'): 3, ('main', 'b'): 7}


def labels(service):
    return {'__name__': 'process_cpu', 'service_name': service}


def push(s, service, *times, headers=None, query=''):
    series = [(labels(service), cpu_profile(STACKS, when)) for when in times]
    if not query:
        r = s.push(series, headers=headers)
    else:  # the same request with a parameter
        ask, s.ask = s.ask, lambda method, path, *rest: ask(method, path + query, *rest)
        try:
            r = s.push(series, headers=headers)
        finally:
            del s.ask
    return r.status, r.data.decode(errors='replace')


def total(s, service, start=1, end=NOW + DAY, headers=None):
    """How many pushes of a service are there."""
    got = s.flame('{service_name="%s"}' % service, start * 1000, end * 1000, headers=headers)
    return got[('main',)][0] // 10**8 if got else 0


def window(kiln, folder):
    s = Server(kiln, folder)
    for what, when, status in [('now', 0, 200), ('30 days ago', -30 * DAY, 200), ('half an hour ahead', 1800, 200),
                               ('32 days ago', -32 * DAY, 400), ('two hours ahead', 7200, 400), ('a year ago', -365 * DAY, 400),
                               ('1971', 370 * DAY - NOW, 400), ('11 months ahead', 330 * DAY, 400)]:
        got, text = push(s, 'window', NOW + when)
        same(f'default limits, {what}', got, status)
        if status == 400:
            check(f'{what}: the answer says which', 'is outside of ingestion window (profile timestamp: ' in text and
                  'the ingestion window ' + ('starts' if when < 0 else 'ends') in text and r'service_name=\"window\"' in text, text)
    same('nothing of a refused request is stored', push(s, 'mixed', NOW, NOW - 40 * DAY)[0], 400)
    same('what is there', (total(s, 'window'), total(s, 'mixed')), (3, 0))
    ingest = lambda when: s.ask('POST', '/ingest', b'main;a 5\n', query={'name': 'legacy.cpu', 'from': when, 'until': when + 10}).status
    same('/ingest', (ingest(NOW - DAY), ingest(NOW - 40 * DAY), ingest(NOW + 7200)), (200, 400, 400))
    for what, when in ('now', NOW), ('no time', 0), ('1970', 5):
        service = 'again ' + what
        got = [s.push([(labels(service), cpu_profile(STACKS, when), 'the same id')]).status for _ in range(3)]
        same(f'a profile of {what} that is sent again', (got, total(s, service)), ([200] * 3, 1))
    same('backfill', push(s, 'old', NOW - 400 * DAY, query='?backfill=1')[0], 200)
    same('backfill: it is there', total(s, 'old'), 1)
    same('backfill is not for the future', push(s, 'old', NOW + 7200, query='?backfill=1')[0], 400)
    path = os.path.join(folder, 'old.pb')
    with open(path, 'wb') as file:
        file.write(cpu_profile(STACKS, NOW - 300 * DAY))
    words = [kiln, 'push', '--server', f'http://127.0.0.1:{s.port}', '--label', 'service_name=file', path]
    r = subprocess.run(words, capture_output=True, text=True)
    check('kiln push of an old file', r.returncode == 2 and '--backfill' in r.stderr, r)
    r = subprocess.run([*words, '--backfill'], capture_output=True, text=True)
    same('kiln push --backfill', (r.returncode, r.stderr, total(s, 'file')), (0, '', 1))
    s.stop()


def configured(kiln, folder):
    s = Server(kiln, folder, config='''
limits: {past: 0, future: 3h}
auth:
  - {token: push-token-1, scopes: [push, read]}
  - {token: admin-token, scopes: [push, admin, read]}
''')
    who = [{'Authorization': 'Bearer ' + token} for token in ('push-token-1', 'admin-token')]
    same('past: 0', push(s, 'any', 10**9, headers=who[0])[0], 200)
    same('future: 3h', [push(s, 'any', NOW + h * 3600, headers=who[0])[0] for h in (2, 4)], [200, 400])
    s.stop()
    s.write(open(s.config).read().replace('past: 0, future: 3h', 'past: 2h, future: 0'))
    s.start()
    same('past: 2h', [push(s, 'any', NOW - h * 3600, headers=who[0])[0] for h in (1, 3)], [200, 400])
    same('future: 0', push(s, 'any', NOW + 100 * DAY, headers=who[0])[0], 200)
    same('who may backfill', [push(s, 'any', NOW - 10 * DAY, headers=h, query='?backfill=1')[0] for h in who], [403, 200])
    s.stop()


def many_days(kiln, folder):
    """However many days there are, few files are open."""
    s = Server(kiln, folder, config='limits: {past: 0}\n')
    pid = s.process.pid
    limit = 320
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limit))
    status, text = push(s, 'days', *(NOW - d * DAY for d in range(41)))
    check('41 days in one request', status == 400 and '40 days' in text, (status, text))
    answers, lock, most = [], threading.Lock(), [0]

    def send(first):
        got = push(s, 'days', *(NOW - d * DAY for d in range(first, first + 40)))[0]
        with lock:
            answers.append(got)
    threads = [threading.Thread(target=send, args=(40 * i,)) for i in range(5)]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        most[0] = max(most[0], len(os.listdir(f'/proc/{pid}/fd')))
        time.sleep(0.005)
    same('200 days in 5 requests', answers, [200] * 5)
    check('open files', most[0] < limit, most)
    same('a query over all of them', total(s, 'days'), 200)
    check('open files afterwards', len(os.listdir(f'/proc/{pid}/fd')) < 200, os.listdir(f'/proc/{pid}/fd'))
    same('and now', push(s, 'other', NOW)[0], 200)
    s.stop()


CLOCK = '''
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *t)
{
    int result = (int)syscall(SYS_clock_gettime, clock, t);
    if (clock == CLOCK_REALTIME)
        t->tv_sec += 60 * 86400;
    return result;
}
'''


def clock_ahead(kiln, folder):
    """A server that starts with a clock 60 days ahead takes profiles of the right time. (What retention does:
    tests/unit/test_store.c.)"""
    if 'build-asan' in kiln:
        return  # which wants to be the first library
    library = os.path.join(folder, 'clock.so')
    made = subprocess.run(['cc', '-x', 'c', '-shared', '-fPIC', '-o', library, '-'], input=CLOCK, text=True)
    same('cc', made.returncode, 0)
    s = Server(kiln, folder, config='retention: {age: 30d}\n')
    same('before', push(s, 'x', NOW, NOW - 10 * DAY)[0], 200)
    s.stop()
    s.environment = {'LD_PRELOAD': library}
    s.start()
    s.environment = None
    same('with a clock ahead', [push(s, 'x', when)[0] for when in (NOW, NOW - 10 * DAY, NOW - 40 * DAY)], [200, 200, 400])
    s.stop()
    s.start()
    same('everything is there', total(s, 'x'), 4)
    s.stop()


def main(kiln):
    for part in window, configured, many_days, clock_ahead:
        with temporary() as folder:
            part(kiln, folder)
