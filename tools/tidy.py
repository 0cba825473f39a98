#!/usr/bin/env python3
"""The mechanical part of the style: prints one line a fault and exits with 1 if there is any.

Checks: include direction between the folders of src/ (design.md section 11); size of files and functions; line length;
format (clang-format, when installed); banned calls; a .c file without an opening comment; a format header without size
checks; headers that do not compile alone are left to the build; sources in no build file; dead links in documents;
a parser without a fuzz target; failpoint names used twice; leftover work notes.
"""
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# What a folder may include besides base and os.
MAY = {
    "base": set(), "os": set(),
    "kv": set(), "log": set(), "volume": set(), "cluster": set(), "net": set(),
    "peer": {"net"},
    "raft": {"log", "peer"},
    "data": {"volume", "kv", "cluster", "peer"},
    "meta": {"log", "raft", "kv", "cluster", "volume"},   # volume: body ids only
    "object": {"meta", "data", "kv", "volume", "log"},
    "http": {"net"},
    "s3": {"http", "object", "meta", "net"},
    "fs": {"object", "meta"},
    "fuse": {"fs", "peer"},
    "admin": {"http", "object", "fs", "cluster", "meta", "data", "net", "kv", "log", "volume"},
}
FILE_LINES_MAX = 1500
FILE_LINES_GOOD = 800
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 100
BANNED = re.compile(r"\b(strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atol|rand|srand|alloca)\s*\(")
PARSERS = {  # source -> fuzz target
    "src/http/parse.c": "http_head", "src/http/chunked.c": "http_chunked", "src/s3/xml.c": "s3_xml",
    "src/s3/uri.c": "s3_uri", "src/s3/payload.c": "s3_payload", "src/admin/toml.c": "toml",
}

faults = []


def fault(path, line, text):
    faults.append(f"{os.path.relpath(path, ROOT)}:{line}: {text}")


def files(top, *endings):
    for folder, folders, names in os.walk(os.path.join(ROOT, top)):
        folders[:] = sorted(f for f in folders if f not in ("golden", "corpus", "__pycache__"))
        for name in sorted(names):
            if name.endswith(endings):
                yield os.path.join(folder, name)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def check_includes(path, lines):
    folder = os.path.relpath(path, os.path.join(ROOT, "src")).split(os.sep)[0]
    if folder == "cmd":
        return
    for number, line in enumerate(lines, 1):
        m = re.match(r'\s*#\s*include "([a-z0-9_]+)/', line)
        if not m:
            continue
        target = m.group(1)
        if target == folder or target in ("base", "os"):
            if folder == "base" and target != "base":
                fault(path, number, f"base includes {target}")
            continue
        if target not in MAY.get(folder, set()):
            fault(path, number, f"{folder} may not include {target} (design.md section 11)")


def is_closed_switch(body):
    """One switch over a closed set may be longer than the limit."""
    cases = sum(1 for line in body if re.match(r"\s*(case\b|default:)", line))
    return cases * 3 >= len(body) - 10


def check_functions(path, lines):
    start = None
    for number, line in enumerate(lines, 1):
        if start is None:
            if line.rstrip().endswith("{") and line[:1] not in (" ", "\t", "#", "}", "/", "*", ""):
                head = line + " ".join(lines[max(0, number - 4):number - 1])
                if "(" in head and not re.match(r"(struct|enum|union|typedef|static const|const)\b[^(]*\{", line):
                    start = number
                else:
                    start = -1
        elif line.startswith("}"):
            if start > 0 and number - start + 1 > FUNCTION_LINES_MAX and not is_closed_switch(lines[start:number]):
                fault(path, start, f"function of {number - start + 1} lines (at most {FUNCTION_LINES_MAX})")
            start = None


def check_source(path):
    text = read(path)
    lines = text.split("\n")
    in_src = path.startswith(os.path.join(ROOT, "src"))
    if len(lines) > FILE_LINES_MAX or (in_src and path.endswith(".c") and len(lines) > FILE_LINES_GOOD):
        fault(path, 1, f"file of {len(lines)} lines")
    if path.endswith((".c", ".h", ".def")) and not text.lstrip().startswith("/*"):
        fault(path, 1, "no opening comment")
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS_MAX and not path.endswith(".def"):
            fault(path, number, f"{len(line)} columns")
        if BANNED.search(line):
            fault(path, number, "banned call: " + BANNED.search(line).group(1))
        if re.search(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))", line):
            fault(path, number, "leftover note without an issue number")
    if path.endswith(".c"):
        check_functions(path, lines)
    if in_src:
        check_includes(path, lines)
        if path.endswith("_format.h") and "_Static_assert" not in text and "struct " in text:
            if not re.search(r"0x|varint|blob|[0-9] bytes|:8|:16", text):
                fault(path, 1, "a format without a drawing or size check")


def check_built():
    for path in list(files("src", ".c")) + list(files("test/unit", ".c")):
        name = os.path.basename(path)
        build = os.path.join(os.path.dirname(path), "meson.build")
        stem = name[:-2]
        text = read(build) if os.path.exists(build) else ""
        if f"'{name}'" not in text and f"'{stem}'" not in text and name != "harness.c":
            fault(path, 1, "in no build file")


def check_links():
    for path in list(files("docs", ".md")) + [os.path.join(ROOT, n) for n in os.listdir(ROOT) if n.endswith(".md")]:
        for number, line in enumerate(read(path).split("\n"), 1):
            for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", line):
                if re.match(r"[a-z]+:", target):
                    continue
                if not os.path.exists(os.path.join(os.path.dirname(path), target)):
                    fault(path, number, f"dead link: {target}")


def check_fuzz():
    for source, target in PARSERS.items():
        if os.path.exists(os.path.join(ROOT, source)) and \
                not os.path.exists(os.path.join(ROOT, "test/fuzz", target + ".c")):
            fault(os.path.join(ROOT, source), 1, f"parser without fuzz target test/fuzz/{target}.c")


def check_failpoints():
    seen = {}
    for path in files("src", ".c"):
        for number, line in enumerate(read(path).split("\n"), 1):
            for name in re.findall(r'FAILPOINT(?:_ERROR)?\("([^"]+)"\)', line):
                if name in seen:
                    fault(path, number, f"failpoint {name} is also at {seen[name]}")
                seen[name] = f"{os.path.relpath(path, ROOT)}:{number}"


def check_format(paths):
    tool = shutil.which("clang-format") or shutil.which("clang-format-14")
    if tool is None:
        return
    for i in range(0, len(paths), 50):
        out = subprocess.run([tool, "--dry-run", "-Werror", *paths[i:i + 50]], capture_output=True, text=True, cwd=ROOT)
        wrong = sorted({m for m in re.findall(r"^([^\s:]+):\d+:\d+: error: code should be", out.stderr, re.M)})
        for path in wrong:
            fault(path if os.path.isabs(path) else os.path.join(ROOT, path), 1, "not formatted: clang-format -i")


def main():
    paths = list(files("src", ".c", ".h", ".def")) + list(files("test", ".c", ".h"))
    for path in paths:
        check_source(path)
    check_built()
    check_links()
    check_fuzz()
    check_failpoints()
    check_format([p for p in paths if not p.endswith(".def")])
    for line in faults:
        print(line)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
