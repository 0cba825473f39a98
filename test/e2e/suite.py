"""What the cases of test/e2e share: the list of cases, running programs, real data, comparing trees."""
import filecmp
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(ROOT, "build-test", "e2e")
sys.path.insert(0, os.path.dirname(HERE))
import s3lib  # noqa: E402
import venv_packages  # noqa: E402

CASES = []  # (function, https too, group, only with --long)
BUILDING = threading.Lock()  # fetching and building packages: several cases share them


class Skip(Exception):
    """The case cannot run here; its text says why."""


def case(https=False, group="clients", long_only=False):
    """Registers a case. In the group "clients" it gets an Env; in the others it makes the stores that it needs."""
    def add(function):
        CASES.append((function, https, group, long_only))
        return function
    return add


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def run(command, env=None, cwd=None, timeout=300, code=0, data=None):
    """Runs a program; returns what it printed. code: the exit code that is expected, None for any."""
    done = subprocess.run(command, env=env, cwd=cwd, timeout=timeout, input=data, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL if data is None else None)
    text = done.stdout.decode(errors="replace")
    if code is not None and done.returncode != code:
        raise AssertionError(f"{' '.join(command)[:200]} ended with {done.returncode}: {text.strip()[-1500:]}")
    return text


def debian_install(*packages):
    """Installs packages where that is possible; whether it was."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    with BUILDING:
        done = subprocess.run(["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=False,
                              env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    return done.returncode == 0


def program(name, package=None, env=None):
    """Where a program is; without it the case is skipped. env: whose switch --long installs the package."""
    path = shutil.which(name)
    if path is None and env is not None and env.long and package is not None and debian_install(*package.split()):
        path = shutil.which(name)
    if path is None:
        raise Skip(f"there is no {name} on this machine" + (f" (package {package})" if package else ""))
    return path


def python_packages(*names):
    """Pinned Python packages of test/venv_packages.py; the case is skipped when they cannot be had."""
    with BUILDING:
        why = venv_packages.ensure(*names)
    if why:
        raise Skip(why)


def random_file(path, size, seed=0):
    """A file of bytes that do not compress and differ everywhere."""
    with open(path, "wb") as f:
        block = hashlib.shake_256(f"{seed}".encode()).digest(1 << 20)
        for i in range(0, size, 1 << 20):
            piece = i.to_bytes(8, "little") + block[8:]
            f.write(piece[:size - i])
    return path


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while piece := f.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def copy_tree(target, files, sources=("/usr/include/linux", "/usr/include/asm-generic", "/usr/share/doc")):
    """Real files of this machine below target: headers, and documents and pictures in between. Links are left out, since
    most clients follow them. Names with spaces, plus signs and other letters are added, as people have them."""
    count = 0
    for source in sources:
        wanted = count + files // len(sources)
        for folder, folders, names in os.walk(source):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(folder, name)
                if count >= wanted or os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) == 0:
                    continue
                to = os.path.join(target, os.path.relpath(path, os.path.dirname(source)))
                os.makedirs(os.path.dirname(to), exist_ok=True)
                shutil.copyfile(path, to)
                count += 1
            if count >= wanted:
                break
    check(count > files // 3, f"only {count} real files found below {', '.join(sources)}")
    os.makedirs(f"{target}/Photos 2026", exist_ok=True)
    for name in ("Grüße aus Köln.jpg", "a+b & c.pdf", "100% 'real'.png", "empty"):
        random_file(f"{target}/Photos 2026/{name}", 0 if name == "empty" else 40_000 + len(name), name)
    return target


def same_tree(a, b, path=""):
    """Raises when two trees differ in names or bytes."""
    found = filecmp.dircmp(f"{a}/{path}", f"{b}/{path}", ignore=[])
    check(not found.left_only and not found.right_only,
          f"in {path or '.'} only {found.left_only[:3]} there, only {found.right_only[:3]} here")
    _, wrong, errors = filecmp.cmpfiles(f"{a}/{path}", f"{b}/{path}", found.common_files, shallow=False)
    check(not wrong and not errors, f"in {path or '.'} other bytes: {(wrong + errors)[:3]}")
    for folder in found.common_dirs:
        same_tree(a, b, os.path.join(path, folder))


class Env:
    """What a case of the group "clients" gets: a bucket of its own on a store that others use too, and a folder."""

    def __init__(self, store, name, work, long):
        self.store, self.long = store, long
        self.bucket = ("e2e-" + name.replace("_", "-"))[:60].rstrip("-")
        self.dir = os.path.join(work, self.bucket + ("-tls" if store.tls else ""))
        os.makedirs(self.dir)
        client = s3lib.Client(store)
        answer = client.request("PUT", self.bucket)
        check(answer.status == 200, f"CreateBucket answered {answer.status}: {answer.body[:300]!r}")
        client.close()

    @property
    def url(self):
        return self.store.url

    @property
    def ca(self):
        return f"{self.store.dir}/tls.crt"

    def environ(self, **more):
        """An environment with the store's keys and nothing of the user's own."""
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "RCLONE_", "RESTIC_", "S3"))}
        keep.update(HOME=self.dir, AWS_ACCESS_KEY_ID=s3lib.KEY, AWS_SECRET_ACCESS_KEY=s3lib.SECRET,
                    AWS_DEFAULT_REGION=s3lib.REGION, AWS_REGION=s3lib.REGION, AWS_EC2_METADATA_DISABLED="true",
                    AWS_CONFIG_FILE=f"{self.dir}/.aws-config", AWS_SHARED_CREDENTIALS_FILE="/dev/null")
        if self.store.tls:
            keep.update(AWS_CA_BUNDLE=self.ca, SSL_CERT_FILE=self.ca, NODE_EXTRA_CA_CERTS=self.ca)
        return {**keep, **{k: str(v) for k, v in more.items()}}


class Report:
    """Prints a line a case, whatever the thread."""

    def __init__(self):
        self.lock, self.failed = threading.Lock(), 0

    def line(self, text):
        with self.lock:
            print(text, flush=True)

    def one(self, name, function, *args):
        begin = time.monotonic()
        try:
            more = function(*args)
        except Skip as why:
            self.line(f"skip {name}: {why}")
        except subprocess.TimeoutExpired as why:
            self.failed += 1
            self.line(f"not ok {name}: no end after {why.timeout:.0f} s: {' '.join(map(str, why.cmd))[:200]}")
        except Exception as why:  # whatever a case raises is its failure
            self.failed += 1
            self.line(f"not ok {name}: {type(why).__name__}: {' | '.join(str(why).split(chr(10)))[-1500:]}")
        else:
            self.line(f"ok {name}: {time.monotonic() - begin:.1f} s{f'; {more}' if isinstance(more, str) else ''}")
