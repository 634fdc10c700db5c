"""SIGTERM under load."""
import json
import os
import signal
import subprocess
import sys
import time

from attack_http import reset
from crowd import GOOD, PUSH, QUERIER, Crowd, bearer, head
from scenario import scenario

LOAD = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'load.py')
CONNECTIONS = 32
PATIENCE = 8  # seconds; the goal is 5, and the machine may be busy


def hold_things(server):
    """Connections in every state that a stop may meet."""
    query = b'{"start": 0, "end": 99999999999999, "name": "service_name"}'
    whole = head('POST', QUERIER + 'LabelValues', GOOD, len(query), 'Content-Type: application/json') + query
    sockets = [server.socket() for _ in range(12)]
    for i, s in enumerate(sockets):
        s.sendall([b'', whole[:20], whole[:-5], whole, whole * 200, head('POST', PUSH, GOOD, 100 << 20) + bytes(100000)][i % 6])
    return sockets


@scenario(1, measures=False)
def sigterm(ctx):
    """Busy keep-alive connections: every stop is clean, and what was acknowledged is stored once."""
    sent, acknowledged = [0] * CONNECTIONS, [0] * CONNECTIONS
    with Crowd(ctx, clients=False) as c:
        endings = []
        for i in range(ctx.tries):
            load = subprocess.Popen([sys.executable, LOAD, str(c.server.port), str(CONNECTIONS), '60', GOOD], stdout=subprocess.PIPE, text=True)
            load.stdout.readline()
            time.sleep(0.01 * i)
            held = hold_things(c.server) if i % 4 == 3 else []
            status, seconds = c.server.end([signal.SIGTERM, signal.SIGINT][i % 10 == 9], PATIENCE)
            endings.append((status, round(seconds, 1)))
            for s in held:
                reset(s)
            try:
                counts = json.loads(load.communicate(timeout=40)[0].splitlines()[-1])
            except subprocess.TimeoutExpired:
                load.kill()
                counts = {'sent': [1 << 30] * CONNECTIONS, 'acknowledged': [0] * CONNECTIONS}
            sent = [a + b for a, b in zip(sent, counts['sent'])]
            acknowledged = [a + b for a, b in zip(acknowledged, counts['acknowledged'])]
            c.server.start()
        bad = [e for e in endings if e[0] != 0]
        ctx.check(f'{ctx.tries} clean exits', not bad, f'{len(bad)} of {len(endings)}: {bad[:10]}')
        ctx.check('within seconds', all(e[1] < PATIENCE for e in endings), endings)
        now = int(time.time() * 1000)
        graph = c.server.flame('{service_name="load"}', now - 3600000, now + 60000, headers=bearer(GOOD), maxNodes=1 << 16)
        stored = [graph.get(('main', f'c{i}'), (0, 0))[0] // 10**7 for i in range(CONNECTIONS)]
        lost = [(i, a, s) for i, (a, s) in enumerate(zip(acknowledged, stored)) if s < a]
        extra = [(i, s, k) for i, (k, s) in enumerate(zip(sent, stored)) if s > k]
        ctx.check('nothing acknowledged is lost', not lost and sum(acknowledged) > 20 * ctx.tries, f'{sum(acknowledged)} acknowledged; {lost[:5]}')
        ctx.check('nothing is doubled', not extra, extra[:5])
