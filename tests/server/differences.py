"""Differences of what is stored: weights are kept, windows and pods tell what varies by itself."""
import json
import math
import os
import random
import subprocess
import time

from harness import CPU, Profile, Server, check, same, temporary

FUNCTIONS = 40


def weighed(r, time_s, factors, weight=4, known=True):
    """A minute of a service whose recorded stacks stand for several ticks each."""
    p = Profile([('samples', 'count'), ('cpu', 'nanoseconds')], ('cpu', 'nanoseconds', 10**6), time=int(time_s * 10**9), duration=60 * 10**9)
    main = p.location([(p.function('main'), 1, 0)])
    for i, factor in enumerate(factors):
        mean = (20 + 3 * i) * factor
        n = max(0, round(r.gauss(mean, math.sqrt(mean)))) if mean else 0
        if n:
            p.sample([p.location([(p.function(f'function_{i}'), 1, 0)]), main], [n * weight, n * weight * 10**6],
                     squares=n * weight * weight if known else 0)
    return p.bytes()


def fill(s, r, service, start, pods, factor=lambda pod, minute, i: 1, **how):
    for pod in pods:
        labels = {'__name__': 'process_cpu', 'service_name': service, 'pod': pod}
        profiles = [weighed(r, start + 60 * minute, [factor(pod, minute, i) for i in range(FUNCTIONS)], **how) for minute in range(60)]
        same('push', s.push([(labels, profile) for profile in profiles]).status, 200)


def draw(s, selectors, ranges, **more):
    sides = [{'profileTypeID': CPU, 'labelSelector': sel, 'start': a * 1000, 'end': b * 1000 - 1} for sel, (a, b) in zip(selectors, ranges)]
    r = s.ask('POST', '/api/v1/flame', json.dumps({'base': sides[0], 'profile': sides[1], **more}).encode(), {'Content-Type': 'application/json'})
    same('a diff', r.status, 200)
    return r.plain


def marked(answer):
    flame = json.loads(answer)['flame']
    bit = lambda digits, i: int(digits[i >> 2], 16) >> (i & 3) & 1
    return sorted(n for i, n in enumerate(flame['names']) if i > 1 and (bit(flame['marks'][1], i) or bit(flame['marks'][2], i)))


def query(kiln, s, *arguments):
    done = subprocess.run([kiln, 'query', *arguments], capture_output=True, text=True, env={**os.environ, 'KILN_SERVER': f'http://127.0.0.1:{s.port}'})
    same('kiln query', done.returncode, 0)
    return done.stdout


def main(kiln):
    with temporary() as folder:
        s = Server(kiln, folder)
        compare(s, kiln)
        s.stop()


def compare(s, kiln):
    r = random.Random(3)
    first = int(time.time()) // 86400 * 86400 - 86400 + 7200
    hours = [(first, first + 3600), (first + 3600, first + 7200)]

    # Load that goes up and down, and one function that goes with its square.
    load = lambda pod, minute, i: (1 + 0.6 * math.sin(minute / 7)) ** (2 if i == 5 else 1)
    for start, _ in hours:
        fill(s, r, 'equal', start, 'ab', load)
    whole = '{service_name="equal"}'
    same('varying load marks nothing', marked(draw(s, [whole, whole], hours)), [])
    # An hour against a part of it where the load was high.
    high = [(first + 300, first + 900), hours[1]]
    same('nor does a part of an hour', [n for n in marked(draw(s, [whole, whole], high)) if n != 'function_5'], [])

    fill(s, r, 'changed', hours[0][0], 'ab', load)
    fill(s, r, 'changed', hours[1][0], 'ab', lambda pod, minute, i: load(pod, minute, i) * (1.6 if i == 20 else 1))
    answer = draw(s, ['{service_name="changed"}'] * 2, hours)
    same('what changed is marked', [n for n in marked(answer) if n != 'main'], ['function_20'])
    same('weights are known', json.loads(answer)['notes'], [])
    html = draw(s, ['{service_name="changed"}'] * 2, hours, format='html').decode()
    check('and in a file', '"marks":["' in html and json.loads(answer)['flame']['marks'][0] in html, html[:200])

    # Pods that differ all the time: of others nothing can be said.
    slow = lambda pod, minute, i: 1.5 if i == 20 and pod in 'bd' else 1
    fill(s, r, 'pods', first, 'abcd', slow)
    same('pods that differ', marked(draw(s, ['{service_name="pods", pod=~"a|b"}', '{service_name="pods", pod=~"c|d"}'], [hours[0]] * 2)), [])

    # Four ticks are one event. Profiles that do not say so count as they did.
    answer = draw(s, ['{service_name="changed"}'] * 2, hours, format='pprof')
    for start, _ in hours:
        fill(s, r, 'counts', start, 'a', known=False)
    notes = json.loads(draw(s, ['{service_name="counts"}'] * 2, hours))['notes']
    check('counts are said to be counts', len(notes) == 1 and 'have no sample weights' in notes[0], notes)

    # The same on the command line, and an export knows the weights.
    times = ['--from', str(hours[1][0]), '--until', str(hours[1][1] - 1), '--base-from', str(hours[0][0]), '--base-until', str(hours[0][1] - 1)]
    table = json.loads(query(kiln, s, 'diff', '{service_name="changed"}', *times, '--format=json'))
    same('kiln query diff', [row['name'] for row in table['rows'] if row['flat']['significant']], ['function_20'])
    check('by windows', min(table['model']['profiles']) >= 4 and table['model']['weights_known'], table['model'])
    total = s.flame('{service_name="changed"}', hours[1][0] * 1000, hours[1][1] * 1000 - 1)[('main',)][0]
    check('its values are sums', abs(table['total']['after'] - total) <= 1e-6 * total, (table['total'], total))
    text = query(kiln, s, 'diff', '{service_name="counts"}', *times)
    check('and it says where it counts', 'have no sample weights' in text and 'parts by time' in text, text[:400])
    with temporary() as folder:
        paths = [os.path.join(folder, name) for name in ('a.pb.gz', 'b.pb.gz')]
        for path, (start, end) in zip(paths, hours):
            query(kiln, s, 'pprof', path, '{service_name="changed"}', '--from', str(start), '--until', str(end - 1))
        table = json.loads(subprocess.run([kiln, 'diff', '--format=json', *paths], capture_output=True, text=True, check=True).stdout)
        check('an export has weights', table['model']['weights_known'], table['model'])
        row = next(row for row in table['rows'] if row['name'] == 'function_3')
        # Events of weight 4 ms, not 1 ms: twice the deviation.
        deviation = (row['flat']['interval'][1] - row['flat']['change']) / 1.96
        expected = math.sqrt((row['flat']['before'] + row['flat']['after']) * 4 * 10**6)
        check('and a noise that follows from them', 0.9 * expected < deviation < 2 * expected, (deviation, expected))

    # Nobody sees what they are made of.
    types = s.json('ProfileTypes', {'start': first * 1000, 'end': (first + 7200) * 1000})
    check('no other types', all('squared' not in json.dumps(t) for t in types.get('profileTypes', [])), types)
    merged = s.ask('POST', '/querier.v1.QuerierService/SelectMergeProfile', json.dumps({
        'profileTypeID': CPU, 'labelSelector': whole, 'start': first * 1000, 'end': (first + 3600) * 1000}).encode(), {'Content-Type': 'application/json'})
    same('one type in a merged profile', len(json.loads(merged.plain)['sampleType']), 1)
