"""A real clickhouse-server on free ports of this machine, with a folder of its own."""
import atexit
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

PASSWORD = "p'w&ss \"\\1"  # every character that could break out of something


def find():
    return shutil.which('clickhouse-server', path=os.environ.get('PATH', '') + ':/usr/sbin:/usr/bin')


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(('127.0.0.1', 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def xml(text):
    return text.replace('&', '&amp;').replace('<', '&lt;').replace('>', '&gt;')


class ClickHouse:
    """extra: further XML of its configuration."""

    def __init__(self, folder, extra='', ports=None, wait=True):
        self.folder = folder
        self.http, self.tcp, self.inter = ports or free_ports(3)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, 'config.xml'), 'w') as file:
            file.write(f'''<yandex>
<logger><level>information</level><log>{folder}/server.log</log><errorlog>{folder}/error.log</errorlog>
<size>100M</size><count>1</count></logger>
<http_port>{self.http}</http_port><tcp_port>{self.tcp}</tcp_port>
<interserver_http_port>{self.inter}</interserver_http_port><interserver_http_host>127.0.0.1</interserver_http_host>
<listen_host>127.0.0.1</listen_host><max_concurrent_queries>200</max_concurrent_queries>
<path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path><users_config>{folder}/users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>67108864</mark_cache_size><timezone>UTC</timezone>
<dictionaries_config>none*.xml</dictionaries_config>{extra}
</yandex>''')
        with open(os.path.join(folder, 'users.xml'), 'w') as file:
            users = ''.join(f'''<{name}><password>{xml(password)}</password><networks><ip>::/0</ip></networks>
<profile>default</profile><quota>default</quota></{name}>''' for name, password in (('default', ''), ('kiln', PASSWORD)))
            file.write(f'''<yandex><profiles><default><max_threads>2</max_threads></default></profiles>
<users>{users}</users><quotas><default/></quotas></yandex>''')
        self.process = None
        self.start(wait)

    def start(self, wait=True):
        self.process = subprocess.Popen(
            [find(), f'--config-file={self.folder}/config.xml'], stdout=subprocess.DEVNULL,
            stderr=open(os.path.join(self.folder, 'stderr'), 'ab'), cwd=self.folder)
        atexit.register(self.process.kill)
        if wait:
            self.ready()

    def ready(self):
        end = time.time() + 60
        while time.time() < end:
            try:
                if self.ask('SELECT 1') == '1':
                    return
            except (OSError, RuntimeError):
                pass
            time.sleep(0.05)
        with open(os.path.join(self.folder, 'stderr')) as file:
            raise RuntimeError('clickhouse-server does not start: ' + file.read()[-2000:])

    def errors(self):
        with open(os.path.join(self.folder, 'error.log')) as file:
            return file.read()[-1500:]

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait(60)

    def ask(self, sql):
        try:
            with urllib.request.urlopen(f'http://127.0.0.1:{self.http}/', sql.encode(), timeout=60) as r:
                return r.read().decode(errors='replace').rstrip('\n')
        except urllib.error.HTTPError as e:
            raise RuntimeError(f'{sql[:300]}: {e.read().decode(errors="replace")[:600]}') from None

    def url(self, database='kiln', more=''):
        return f'clickhouse://kiln@127.0.0.1:{self.http}/{database}{more}'
