#!/usr/bin/env python3
"""A current ClickHouse behind the HTTP interface that kiln uses: statements run in this process
through chdb (Python package chdb-core). Debian's server is of 2018; what kiln sends must be valid
on both.

usage: front.py PORT FOLDER        prints `ready VERSION`; statements go to FOLDER/statements
"""
import http.server
import os
import re
import sys
import threading
import urllib.parse

from chdb import session

port, folder = int(sys.argv[1]), sys.argv[2]
db = session.Session(os.path.join(folder, 'data'))
lock = threading.Lock()
log = open(os.path.join(folder, 'statements'), 'a')
SETTINGS = ('wait_end_of_query', 'query_id', 'query', 'database')


def run(sql):
    return db.query(sql, 'RowBinary').bytes()


def insert(table, body):
    """INSERT INTO table FORMAT RowBinary, with rows from a file: chdb takes none from memory."""
    path = os.path.join(folder, 'rows.bin')
    with open(path, 'wb') as file:
        file.write(body)
    columns = db.query(f"SELECT name, type FROM system.columns WHERE database || '.' || table = '{table}' ORDER BY position",
                       'TabSeparatedRaw').bytes().decode()
    structure = ', '.join(line.replace('\t', ' ') for line in columns.splitlines())
    return run(f"INSERT INTO {table} SELECT * FROM file('{path}', 'RowBinary', '{structure}')")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    wbufsize = -1  # an answer in one piece: in two, each would wait 40 ms for the client's acknowledgement

    def do_POST(self):
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
        settings = {k: v for k, v in query.items() if k not in SETTINGS}
        status = 200
        try:
            with lock:
                # A setting that this version does not know is an error there, too.
                for name, value in settings.items():
                    run(f'SET {name} = {int(value)}')
                match = re.fullmatch(r'INSERT INTO (\S+) FORMAT RowBinary', query.get('query', ''))
                text = query['query'] if match else body.decode()
                log.write(re.sub(r'\d{6,}', 'N', text)[:500] + '\n')
                log.flush()
                answer = insert(match[1], body) if match else run(text)
        except Exception as e:  # what the engine says
            status, answer = 500, str(e).encode()
            log.write('ERROR ' + str(e)[:500] + '\n')
            log.flush()
        self.send_response(status)
        self.send_header('Content-Length', str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
        self.wfile.flush()

    def log_message(self, *words):
        pass


server = http.server.ThreadingHTTPServer(('127.0.0.1', port), Handler)
print('ready', db.query('SELECT version()', 'TabSeparated').bytes().decode().strip(), flush=True)
server.serve_forever()
