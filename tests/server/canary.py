"""What `profilecli canary-exporter --query-probe-set=all` sends and expects, its 16 probes."""
import json
import time

from harness import check, field, message, packed, profile, same, tree

SERVICE = 'pyroscope-canary-exporter'
TYPE = 'deadmans_switch:made_up:profilos:made_up:profilos'
OTLP_TYPE = 'otlp_test:otlp_test:count:otlp_test:samples'
SPAN = '00000bac2a5ab0c7'
SELECTOR = '{service_name="%s", job="canary-exporter", instance="h1"}' % SERVICE


def otlp_json(now, method):
    text = lambda key, value: {'key': key, 'value': {'stringValue': value}}
    return json.dumps({
        'resourceProfiles': [{
            'resource': {'attributes': [text('service.name', SERVICE), text('job', 'canary-exporter'),
                                        text('instance', 'h1'), text('ingestion_method', method)]},
            'scopeProfiles': [{'scope': {'name': SERVICE}, 'profiles': [{
                'sampleType': {'typeStrindex': 1, 'unitStrindex': 3},
                'samples': [{'stackIndex': 1, 'values': ['10']}, {'stackIndex': 2, 'values': ['20']}],
                'timeUnixNano': str(now), 'periodType': {'typeStrindex': 1, 'unitStrindex': 2}, 'period': '1'}]}]}],
        'dictionary': {
            'mappingTable': [{}], 'stringTable': ['', 'otlp_test', 'samples', 'count', 'func1', 'func2'],
            'locationTable': [{'lines': [{'functionIndex': 1}]}, {'lines': [{'functionIndex': 2}]}],
            'functionTable': [{}, {'nameStrindex': 4}, {'nameStrindex': 5}],
            'stackTable': [{}, {'locationIndices': [1, 0]}, {'locationIndices': [0]}]}}).encode()


def otlp_proto(now, method):
    text = lambda key, value: message((1, key.encode()), (2, message((1, value.encode()))))
    kind = lambda t, u: message((1, t), (2, u))
    time_field = bytes([3 << 3 | 1]) + now.to_bytes(8, 'little')
    one = (field(1, kind(1, 3)) + b''.join(field(2, message((1, i)) + packed(4, [v]))
                                           for i, v in ((1, 10), (2, 20)))
           + time_field + field(5, kind(1, 2)) + field(6, 1))
    resource = b''.join(field(1, text(k, v)) for k, v in [
        ('service.name', SERVICE), ('job', 'canary-exporter'), ('instance', 'h1'), ('ingestion_method', method)])
    scope = field(1, message((1, SERVICE.encode()))) + field(2, one)
    dictionary = (field(1, b'') + b''.join(field(2, field(3, message((1, i)))) for i in (1, 2))
                  + field(3, b'') + field(3, message((1, 4))) + field(3, message((1, 5)))
                  + b''.join(field(5, s) for s in (b'', b'otlp_test', b'samples', b'count', b'func1', b'func2'))
                  + field(7, b'') + field(7, packed(1, [1, 0])) + field(7, packed(1, [0])))
    return field(1, field(1, resource) + field(2, scope)) + field(2, dictionary)


def canary(s):
    now = time.time_ns()
    start, end = now // 10**6, now // 10**6 + 5000
    window = {'start': start, 'end': end}
    asked = {'profileTypeID': TYPE, 'labelSelector': SELECTOR, **window}
    body = profile([('made_up', 'profilos')], ('made_up', 'profilos', 1),
                   {('func2', 'func1'): [10], ('func1',): [20]}, now / 10**9,
                   {('func1',): [('profile_id', SPAN)]})
    labels = {'__name__': 'deadmans_switch', 'service_name': SERVICE, 'job': 'canary-exporter', 'instance': 'h1'}
    # The profile's own time is rounded to what a float holds: the range begins before it.
    asked['start'] = window['start'] = start - 1
    r = s.push([(labels, body, 'f81d4fae-7dec-11d0-a765-00a0c91e6bf6')])
    same('canary: ingest', r.status, 200)
    for kind, sent in ('json', otlp_json(now, 'otlp_http_json')), ('x-protobuf', otlp_proto(now, 'otlp_http_protobuf')):
        r = s.ask('POST', '/v1development/profiles', sent, {'Content-Type': 'application/' + kind})
        same(f'canary: OTLP, {kind}', (r.status, r.data[:200] if r.status != 200 else b''), (200, b''))
    whole = {('func2',): (10, 0), ('func2', 'func1'): (10, 10), ('func1',): (20, 20)}
    same('canary: SelectMergeStacktraces', tree(s.json('SelectMergeStacktraces', asked)['flamegraph']), whole)
    got = s.json('SelectMergeStacktraces', {**asked, 'profileTypeID': OTLP_TYPE})
    same('canary: OTLP profiles', tree(got['flamegraph']),
         {('func1',): (60, 40), ('func1', 'func2'): (20, 20)})
    got = s.json('SelectMergeProfile', asked)
    same('canary: SelectMergeProfile', sorted(int(x['value'][0]) for x in got['sample']), [10, 20])
    got = s.json('SelectMergeSpanProfile', {**asked, 'spanSelector': [SPAN]})
    same('canary: SelectMergeSpanProfile', tree(got['flamegraph']), {('func1',): (20, 20)})
    types = [t['ID'] for t in s.json('ProfileTypes', window)['profileTypes']]
    check('canary: ProfileTypes', TYPE in types, types)
    got = s.json('Series', {**window, 'labelNames': ['service_name', '__profile_type__']})['labelsSet']
    check('canary: Series', {'labels': [{'name': '__profile_type__', 'value': TYPE}, {'name': 'service_name', 'value': SERVICE}]} in got, got)
    matchers = {**window, 'matchers': ['{service_name="%s"}' % SERVICE]}
    got = set(s.json('LabelNames', matchers)['names'])
    check('canary: LabelNames', {'__name__', '__period_type__', '__period_unit__', '__profile_type__', '__service_name__',
                                 '__type__', '__unit__', 'service_name'} <= got, got)
    same('canary: LabelValues', s.json('LabelValues', {**matchers, 'name': 'service_name'})['names'], [SERVICE])
    # A step of 1,000 s, longer than the range: one point.
    for step, when in (1000, start - 1), (5, start + 4999):
        got = s.json('SelectSeries', {**asked, 'end': start + 4999, 'step': step, 'groupBy': ['service_name']})['series']
        same(f'canary: SelectSeries, step {step}', [(x['labels'], [(p['value'], p['timestamp']) for p in x['points']]) for x in got],
             [([{'name': 'service_name', 'value': SERVICE}], [(30, str(when))])])
    # Exemplars: the largest profile of a point, and it alone by its id.
    other = profile([('made_up', 'profilos')], ('made_up', 'profilos', 1), {('func3',): [7]}, now / 10**9)
    s.push([({**labels, 'pod': 'b'}, other)])
    got = s.json('SelectSeries', {**asked, 'end': asked['start'] + 5000, 'step': 5, 'exemplarType': 'EXEMPLAR_TYPE_INDIVIDUAL'})['series']
    same('canary: a point of both', [[p['value'] for p in x['points']] for x in got], [[37]])
    exemplar = got[0]['points'][0].get('exemplars', [{}])[0]
    same('canary: exemplar', (exemplar.get('value'), sorted(x['name'] for x in exemplar.get('labels', []))),
         ('30', ['instance', 'job', 'service_name']))
    got = s.json('SelectMergeStacktraces', {**asked, 'profileIdSelector': [exemplar.get('profileId', '')]})
    same('canary: its stacks', tree(got['flamegraph']), whole)
    got = s.json('SelectSeries', {**asked, 'end': asked['start'] + 5000, 'step': 5})['series']
    check('canary: no exemplars unless asked', 'exemplars' not in got[0]['points'][0], got)
    query = TYPE + SELECTOR
    r = s.ask('GET', '/pyroscope/render', query={'query': query, 'from': start - 1, 'until': end})
    same('canary: render', (r.status, json.loads(r.data)['flamebearer']['numTicks']), (200, 37))
    r = s.ask('GET', '/pyroscope/render-diff', query={f'{side}{k}': v for side in ('left', 'right') for k, v in
                                                      (('Query', query), ('From', start - 1), ('Until', end))})
    got = json.loads(r.data)
    same('canary: render-diff', (r.status, got.get('leftTicks'), got.get('rightTicks')), (200, 37, 37))
    check('canary: GetProfileStats', s.json('GetProfileStats', {}).get('dataIngested'), 'no data')
