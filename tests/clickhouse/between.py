"""A proxy between kiln and ClickHouse: every statement passes, unless a rule does something else with it."""
import http.client
import http.server
import threading
import urllib.parse


class Between:
    """rule(sql, forward) returns the (status, answer) that kiln gets, or None: the connection ends without
    an answer. forward() asks ClickHouse."""

    def __init__(self, db):
        self.db, self.rule = db, lambda sql, forward: forward()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'
            wbufsize = -1

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
                insert = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query).get('query')
                answer = outer.rule(insert[0] if insert else body.decode(errors='replace'), lambda: self.forward(body))
                if answer is None:
                    self.close_connection = True
                    return
                self.send_response(answer[0])
                self.send_header('Content-Length', str(len(answer[1])))
                self.end_headers()
                self.wfile.write(answer[1])
                self.wfile.flush()

            def forward(self, body):
                connection = http.client.HTTPConnection('127.0.0.1', outer.db.http, timeout=60)
                headers = {k: v for k, v in self.headers.items() if k.lower() in ('authorization', 'content-type')}
                connection.request('POST', self.path, body, headers)
                answer = connection.getresponse()
                result = answer.status, answer.read()
                connection.close()
                return result

            def log_message(self, *_):
                pass

            def handle(self):
                try:
                    super().handle()
                except OSError:  # kiln has left
                    pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, database):
        return f'clickhouse://kiln@127.0.0.1:{self.server.server_address[1]}/{database}'

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
