"""What tests in a real browser need: Node.js, Chromium, packages of npm."""
import os
import shutil
import subprocess


def packages(where, wanted):
    """Lets npm fetch what is not there."""
    if all(os.path.isdir(os.path.join(where, 'node_modules', name)) for name in wanted):
        return True
    lock = os.path.exists(os.path.join(where, 'package-lock.json'))
    command = ['npm', 'ci', '--ignore-scripts'] if lock else ['npm', 'install', '--no-package-lock']
    try:
        return subprocess.run([*command, '--no-audit', '--no-fund'], cwd=where, timeout=180,
                              capture_output=True).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def missing():
    """Why no browser can be driven; None if it can."""
    if not shutil.which('node') or not shutil.which('npm'):
        return 'no Node.js or no npm'
    os.environ.setdefault('CHROMIUM', shutil.which('chromium') or '')
    if not os.environ['CHROMIUM']:
        return 'no Chromium'
    where = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'browser')
    return None if packages(where, ['playwright-core']) else 'playwright-core could not be fetched'
