"""Pinned Python packages for tests, in a virtual environment of their own under build-test/venv, fetched by the test itself.
use("boto3") makes the package importable in this process or ends it with a line that the test runner counts as skipped.
"""
import glob
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, "build-test", "venv")
PINNED = {
    "boto3": ["boto3==1.43.11", "botocore==1.43.11"],
    "awscli": ["awscli==1.45.11"],
    "s3-tests": ["pytest==8.4.2", "pytest-timeout==2.4.0", "pytest-xdist==3.8.0", "munch==4.0.0", "pytz==2025.2",
                 "isodate==0.7.2", "requests==2.32.5", "httplib2==0.31.0", "lxml==6.0.2", "gevent==25.9.1",
                 "PyYAML==6.0.3"],
}


def ensure(*names):
    """Installs the packages into the environment; returns None, or why it could not."""
    marker = os.path.join(VENV, ".installed")
    have = set()
    if os.path.exists(marker):
        with open(marker, encoding="ascii") as f:
            have = set(f.read().split())
    missing = [n for n in names if n not in have]
    if not missing:
        return None
    if not os.path.exists(os.path.join(VENV, "bin", "pip")):
        made = subprocess.run([sys.executable, "-m", "venv", VENV], capture_output=True, text=True)
        if made.returncode:
            return f"no virtual environment: {made.stderr.strip()[-200:]}"
    wanted = [p for n in missing for p in PINNED[n]]
    got = subprocess.run([os.path.join(VENV, "bin", "pip"), "install", "-q", "--disable-pip-version-check", *wanted],
                         capture_output=True, text=True)
    if got.returncode:
        return f"pip could not install {' '.join(wanted)}: {got.stderr.strip()[-200:]}"
    with open(marker, "a", encoding="ascii") as f:
        f.write("".join(f"{n}\n" for n in missing))
    return None


def site():
    return glob.glob(os.path.join(VENV, "lib", "python3*", "site-packages"))[0]


def program(name):
    return os.path.join(VENV, "bin", name)


def use(*names):
    why = ensure(*names)
    if why is not None:
        print(f"skip {'+'.join(names)}: {why}")
        sys.exit(0)
    sys.path.insert(0, site())
