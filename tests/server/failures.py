"""A service within a day is the unit of failure: days of other formats, lower limits, services that are too large."""
import json
import os
import sqlite3
import threading
import time

from harness import Server, check, cpu_profile, field, message, packed, same, temporary, until

DAY = 86400
NOW = int(time.time())
RANGE = ((NOW - 5 * DAY) * 1000, (NOW + 3600) * 1000)
STACKS = {('main', 'a'): 3, ('main', 'b'): 7}
CPU = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds'


def labels(service):
    return {'__name__': 'process_cpu', 'service_name': service}


def push(s, service, when=NOW):
    return s.push([(labels(service), cpu_profile(STACKS, when))])


def total(s, service):
    got = s.flame('{service_name="%s"}' % service, *RANGE)
    return got[('main',)][0] // 10**8 if got else 0


def fat(number, n):
    """A profile with n functions that no other number has."""
    out = [field(1, message((1, 1), (2, 2))), field(11, message((1, 3), (2, 4))), field(12, 1)]
    strings = [b'', b'cpu', b'nanoseconds', b'cpu', b'nanoseconds', b'a.c']
    strings += [b'generated.Lambda$%d$%d.apply(Ljava/lang/Object;)V' % (number, k) for k in range(n)]
    for k in range(n):
        out.append(field(5, message((1, k + 1), (2, 6 + k), (3, 6 + k), (4, 5))))
        out.append(field(4, message((1, k + 1)) + field(4, message((1, k + 1), (2, 1)))))
        if k % 50 == 49:
            out.append(field(2, packed(1, range(k - 48, k + 2)) + packed(2, [1])))
    return b''.join(out + [field(6, x) for x in strings] + [message((9, NOW * 10**9), (10, 10**9))])


def days_of(folder):
    tenant = os.path.join(folder, 'data', 'tenants', 'anonymous')
    return tenant, sorted(f for f in os.listdir(tenant) if f.endswith('.db') and f[0] == '2')


def formats(kiln, version):
    with temporary() as folder:
        s = Server(kiln, folder)
        same('push', [push(s, 'old', NOW - d * DAY).status for d in (2, 1, 0)], [200] * 3)
        s.stop()
        tenant, days = days_of(folder)
        db = sqlite3.connect(os.path.join(tenant, days[0]))
        db.execute('PRAGMA user_version=%d' % version)
        db.commit()
        db.close()
        s.start()
        what = {'profileTypeID': CPU, 'labelSelector': '{}', 'start': RANGE[0], 'end': RANGE[1]}
        for method, more in ('LabelValues', {'name': 'service_name'}), ('LabelNames', {}), ('ProfileTypes', {}), \
                ('Series', {}), ('SelectMergeStacktraces', what), ('SelectSeries', {**what, 'step': 15}):
            answer = s.json(method, {'start': RANGE[0], 'end': RANGE[1], **more})
            warnings = answer.get('warnings', [])
            check(f'format {version}: {method} names the day', len(warnings) == 1 and days[0][:10] in warnings[0], answer)
        flame = s.ask('POST', '/api/v1/flame', json.dumps({'profile': what}).encode(), {'Content-Type': 'application/json'})
        check(f'format {version}: flame graphs say so', days[0][:10] in str(json.loads(flame.plain).get('warnings')), flame.data[:200])
        same(f'format {version}: header', flame.getheader('Kiln-Damaged-Days'), '1')
        same(f'format {version}: the other days are there', total(s, 'old'), 2)
        good = s.json('LabelNames', {'start': (NOW - 600) * 1000, 'end': RANGE[1]})
        same(f'format {version}: no warning without that day', 'warnings' in good, False)
        # No agent sends it again: only an operator can change the outcome.
        refused = push(s, 'old', NOW - 2 * DAY)
        same(f'format {version}: a push into that day is refused', (refused.status, json.loads(refused.data)['code']), (400, 'failed_precondition'))
        check(f'format {version}: and told why', f'format {version}' in json.loads(refused.data)['message'] and days[0] in refused.data.decode(), refused.data)
        same(f'format {version}: others do not', push(s, 'old', NOW).status, 200)
        same(f'format {version}: the file stays', days_of(folder)[1], days)
        s.stop()


def lower(kiln):
    config = 'limits: {memory: %s}\n'
    with temporary() as folder:
        s = Server(kiln, folder, config=config % '32MiB')
        same('push', push(s, 'quiet').status, 200)
        same('much', [s.push([(labels('fat'), fat(i, 5000))]).status for i in range(6)], [200] * 6)
        tenant, before = days_of(folder)
        for memory in '16MiB', '4MiB', '32MiB':
            s.stop()
            s.write(config % memory)
            s.start()
            known = s.push([(labels('fat'), fat(0, 100))])
            check(f'{memory}: known functions', known.status == 200 or
                  (known.status == 429 and b'limits.memory' in known.data and b'fat' in known.data), known.data)
            same(f'{memory}: another service', (push(s, 'quiet').status, total(s, 'quiet') > 0), (200, True))
            same(f'{memory}: nothing is moved aside', sorted(f for f in os.listdir(tenant) if 'damaged' in f), [])
        got = s.flame('{service_name="fat"}', *RANGE)
        check('all is there', len(got) >= 6 * 5000 - 100, len(got))
        s.stop()


def oversized(kiln):
    """One service that is too large, again and again, beside others of its tenant."""
    with temporary() as folder:
        s = Server(kiln, folder, config='limits: {memory: 16MiB}\n')
        i, n = 0, 5000
        while i < 100 and n > 500:  # up to the brim
            n //= 1 if s.push([(labels('fat'), fat(i, n))]).status == 200 else 2
            i += 1
        check('it is refused at some time', 4 < i < 100, i)
        r = s.push([(labels('fat'), fat(1000, 5000))])
        check('and told why', r.status == 429 and b'fat' in r.data and b'limits.memory' in r.data, r.data)
        bodies = [fat(2000 + k, 1000) for k in range(10)]
        stop, refused, stored = threading.Event(), [], []

        def again():
            while not stop.is_set():
                refused.append(s.push([(labels('fat'), bodies[len(refused) % 10])]).status)

        threads = [threading.Thread(target=again) for _ in range(4)]
        for t in threads:
            t.start()
        for k in range(30):
            stored.append(push(s, 'quiet').status)
        stop.set()
        for t in threads:
            t.join()
        same('others of the tenant are stored', set(stored), {200})
        same('it is not', set(refused), {429})
        same('all of them', total(s, 'quiet'), 30)
        same('what is known is taken', s.push([(labels('fat'), fat(0, 5000))]).status, 200)
        s.stop()


def main(kiln):
    formats(kiln, 1)
    formats(kiln, 99)
    lower(kiln)
    oversized(kiln)
