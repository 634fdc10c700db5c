"""bench/server --scale and --targets: many services, a long time, many targets. kiln alone."""
import asyncio
import itertools
import os
import statistics
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.append('tests/server')
from harness import profile  # noqa: E402
from server_daemons import TYPE, Kiln, free_port, tenth  # noqa: E402
from server_load import PODS, VARIANTS, Record, body, push, record  # noqa: E402

missed, wrong = [], []  # missed: goals; wrong: failures that do not depend on the machine's speed


def fail(text):
    wrong.append(text)
    print(text, flush=True)


def row(what, value, unit, goal=None):
    over = goal is not None and value > goal
    print(f'{what:52}{value:>12.4g} {unit:4}' + (f' goal <= {goal}{" MISSED" if over else ""}' if goal else ''),
          flush=True)
    if over:
        missed.append(what)


def flat(rss):
    """MiB, when caches are full: the highest of the third quarter of the time, and of the last."""
    at = len(rss) // 4
    return max(rss[2 * at:3 * at + 1]), max(rss[3 * at:])


def soak(kiln, folder, made, services, interval, seconds):
    """Each service pushes once an interval, and is asked about in turn, once a second."""
    server = Kiln(kiln, folder)
    began, failed = time.perf_counter(), []

    def jobs(service):
        for k in range(int(seconds / interval)):
            drawn = made[(service + k) % VARIANTS]
            yield (began + interval * (k + service / services),
                   lambda drawn=drawn: body((f'service-{service}', 'pod-0', drawn.at(time.time_ns()))))

    def ask():
        for i in range(int(seconds)):
            time.sleep(max(0, began + i + 1 - time.perf_counter()))
            now = time.time_ns() // 10**6
            try:
                server.ask('SelectMergeStacktraces', {
                    'profileTypeID': TYPE, 'labelSelector': '{service_name="service-%d"}' % (i % services),
                    'start': now - 3600 * 1000, 'end': now})
            except (OSError, RuntimeError) as e:
                failed.append(e)
    asker = threading.Thread(target=ask, daemon=True)
    asker.start()
    before = server.cpu()
    refused = []
    took = push(server.port, [jobs(i) for i in range(services)], refused=refused)
    lasted = time.perf_counter() - began
    asker.join()
    spent = server.cpu() - before
    third, last = flat(server.rss)
    print(f'\n{services} services that push every {interval} s, for {lasted:.0f} s; '
          f'load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores')
    row('profiles, each with its answer 200', len(took), '')
    row('told to come again a second later (429)', len(refused), '')
    row('server CPU for 1,000 profiles, queries included', spent * 1000 / len(took), 's')
    row('cores used', spent / lasted, '')
    row('push latency, p50', statistics.median(took) * 1000, 'ms', 100)
    row('push latency, p99', sorted(took)[int(len(took) * .99)] * 1000, 'ms')
    row('RSS, the highest of the third quarter', third, 'MiB')
    row('RSS, the highest of the last quarter', last, 'MiB', 256)
    row('disk a profile at once', server.disk() / len(took), 'B')
    if failed:
        fail(f'{len(failed)} queries failed: {failed[0]}')
    # A leak of requests would exceed this many times over.
    if last > third * 1.25 + 16:
        fail(f'memory grows: {third:.0f} to {last:.0f} MiB')
    server.stop()


def fill(server, made, hours, pods, every):
    """Back-dated profiles up to the last whole hour: (start, end, how many, nanoseconds of their samples)."""
    end = time.time_ns() // 3600 // 10**9 * 3600 * 10**9
    start = end - hours * 3600 * 10**9
    times = range(start, end, every * 10**9)

    def jobs(connection):
        for k, (i, p) in enumerate(itertools.product(range(len(times)), range(0, pods, PODS))):
            if k % 4 == connection:
                yield None, lambda i=i, p=p: body(*(('shop', f'pod-{pod}', made[(i + pod) % VARIANTS].at(times[i]))
                                                    for pod in range(p, p + PODS)))
    push(server.port, [jobs(c) for c in range(4)])
    total = sum(made[(i + pod) % VARIANTS].total for i in range(len(times)) for pod in range(pods))
    return start, end, len(times) * pods, total


def wait_closed(server, hours):
    """The server looks for hours to close every 30 s; some it closed twice."""
    closed = quiet = 0
    for _ in range(1800):
        time.sleep(1)
        seen = metric(server, 'kiln_store_hours_closed_total')
        quiet = quiet + 1 if seen == closed else 0
        closed = seen
        if closed >= hours and quiet >= 70:
            return
    fail(f'{closed:.0f} hours were closed in half an hour')


def week(kiln, folder, made, pods, every):
    """7 d of so many pods, back-dated, and a function over all of it once its hours are closed."""
    server = Kiln(kiln, folder)
    start, end, n, _ = fill(server, made, 7 * 24, pods, every)
    print(f'\n7 d of {pods} pods, a profile every {every} s, back-dated; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores')
    row('profiles', n, '')
    wait_closed(server, 7 * 24)
    row('disk a profile, hours closed', server.disk() / n, 'B', 450)
    ask = {'profileTypeID': TYPE, 'labelSelector': '{service_name="shop"}', 'start': start // 10**6, 'end': end // 10**6 - 1, 'maxNodes': 1 << 20}
    function, expected = tenth(server.ask('SelectMergeStacktraces', ask)[0]['flamegraph'])
    for what, step, by, goal in ('a function, steps of 1 h', 3600, '', 150), ('a function by pod, steps of 1 h', 3600, 'pod', 150), \
            ('a function, steps of 30 min', 1800, '', None):
        took, before = [], server.cpu()
        for _ in range(6):
            answer, seconds = server.function(function, '{service_name="shop"}', start, end - 1, step, by)
            took.append(seconds * 1000)
        row(what + ', the first time', took[0], 'ms')
        row(what, statistics.median(took[1:]), 'ms', goal)
        row('    server CPU for one', (server.cpu() - before) * 1000 / len(took), 'ms')
        if sum(v for line in answer['series'] for v in line['total']) != expected:
            fail(f'{what}: {function} does not add up to what is merged')
    row('RSS, the highest, queries included', max(server.rss), 'MiB', 256)
    server.stop()


def day(kiln, folder, made, pods, every):
    """24 h of so many pods, back-dated, and queries over it once its hours are closed."""
    server = Kiln(kiln, folder)
    before = server.cpu()
    start, end, n, sent = fill(server, made, 24, pods, every)
    print(f'\n24 h of {pods} pods, a profile every {every} s, back-dated')
    row('profiles', n, '')
    row('server CPU for 1,000 profiles', (server.cpu() - before) * 1000 / n, 's')
    row('RSS, the highest', max(server.rss), 'MiB', 256)
    row('disk a profile at once', server.disk() / n, 'B')
    ask = {'profileTypeID': TYPE, 'labelSelector': '{service_name="shop"}', 'start': start // 10**6,
           'end': end // 10**6 - 1, 'maxNodes': 8192}
    middle = (start + end) // 2 // 10**6
    halves = {'left': {**ask, 'end': middle - 1}, 'right': {**ask, 'start': middle}}

    def measure(what, method, request, goal=None, repeats=5):
        before = server.cpu()
        row(what, statistics.median(server.ask(method, request)[1] for _ in range(repeats)) * 1000, 'ms', goal)
        row('    server CPU for one', (server.cpu() - before) * 1000 / repeats, 'ms')
    measure('merge of 24 h, hours not all closed', 'SelectMergeStacktraces', ask, repeats=2)
    wait_closed(server, 24)
    row('disk a profile, hours closed', server.disk() / n, 'B', 450)
    measure('merge of 24 h from roll-ups', 'SelectMergeStacktraces', ask, 50)
    measure('series by pod, 240 points', 'SelectSeries', {**ask, 'step': 360, 'groupBy': ['pod']})
    measure('diff of two halves', 'Diff', halves)
    total = int(server.ask('SelectMergeStacktraces', ask)[0]['flamegraph']['total'])
    if total != sent:
        fail('the merge of 24 h is not what was sent')
    row('RSS, the highest, queries included', max(server.rss), 'MiB', 256)
    server.stop()


def metric(server, name):
    with urllib.request.urlopen(f'http://127.0.0.1:{server.port}/metrics') as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(name + ' '))


# --- targets ---

def heap(times):
    """A heap profile of counters that have grown so many times."""
    types = [('alloc_objects', 'count'), ('alloc_space', 'bytes'), ('inuse_objects', 'count'), ('inuse_space', 'bytes')]
    stacks = {('main', *(f'frame_{i % (d * 7 + 2)}_{d}' for d in range(12)), f'leaf_{i}'):
              [times * (i + 1), times * (i + 1) * 64, i + 1, (i + 1) * 64] for i in range(400)}
    return profile(types, ('space', 'bytes', 524288), stacks, time.time())


async def serve(port, made):
    """All targets are addresses of this machine: each says which one it was asked as."""
    asked, heaps = {}, {}

    async def answer(reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b'\r\n\r\n')).decode()
                path = head.split()[1]
                if 'heap' in path:
                    host = writer.get_extra_info('sockname')[0]
                    asked[host] = times = asked.get(host, 0) + 1
                    heaps[times] = data = heaps.get(times) or heap(times)
                else:
                    await asyncio.sleep(float(path.partition('seconds=')[2].partition('&')[0] or 1))
                    data = made[hash(writer) % VARIANTS].at(time.time_ns())
                writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n' % len(data) + data)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
    await (await asyncio.start_server(answer, '0.0.0.0', port, backlog=1024)).serve_forever()


def targets(kiln, folder, made, n, seconds):
    os.makedirs(folder)
    port = free_port()
    threading.Thread(target=lambda: asyncio.run(serve(port, made)), daemon=True).start()
    time.sleep(0.5)
    results = []
    for count in (1, n):
        listed = ', '.join(f'"127.1.{i // 200}.{i % 200 + 1}:{port}"' for i in range(count))
        with open(f'{folder}/{count}.yaml', 'w') as f:
            f.write('scrape_configs:\n  - {job_name: fleet, scrape_interval: 10s, static_configs: '
                    f'[{{targets: [{listed}]}}]}}\n')
        server = Kiln(kiln, f'{folder}/{count}', '--config', f'{folder}/{count}.yaml')
        before = server.cpu()
        time.sleep(seconds)
        spent = server.cpu() - before
        results.append((max(server.rss), server.rss[-1], spent, metric(server, 'kiln_profiles_received_total')))
        server.stop()
    (one, _, _, _), (most, last, spent, stored) = results
    print(f'\n{n} targets, CPU and heap profiles every 10 s, for {seconds} s; '
          f'load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores')
    row('RSS with one target', one, 'MiB')
    row(f'RSS with {n} targets, the highest', most, 'MiB')
    row(f'RSS with {n} targets, at the end', last, 'MiB')
    row('a target', (most - one) / (n - 1), 'MiB')
    row('profiles stored', stored, '')
    row('cores used', spent / seconds, '')


def main(option):
    kiln = os.path.abspath(option('--kiln', 'build/kiln'))
    with tempfile.TemporaryDirectory(prefix='kiln-bench-') as folder:
        taken = Record(option('--record', '') or record(kiln, folder, 20))
        made = [taken.draw(i) for i in range(VARIANTS)]
        if '--targets' in sys.argv:
            targets(kiln, f'{folder}/targets', made, option('--targets', 300), option('--seconds', 60))
        else:
            if option('--seconds', 600):
                soak(kiln, f'{folder}/soak', made, option('--services', 1000), 10, option('--seconds', 600))
            if option('--week', 60):
                week(kiln, f'{folder}/week', made, 100, option('--week', 60))
            if option('--pods', 100):
                day(kiln, f'{folder}/day', made, option('--pods', 100), option('--every', 15))
    return 1 if missed or wrong else 0
