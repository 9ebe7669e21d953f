#!/usr/bin/env python3
"""What `bench` makes of files that others wrote: curl commands, OpenAPI documents, and task files of Rally.

    nice unshare -n sh -c 'ip link set lo up; exec python3 imports.py BENCH --curl DIR --openapi DIR... --rally DIR'

Each series prints a table of counts, then every entry that needs an eye, those that are WRONG first.

curl     Each command of the documents runs in the installed curl and, imported, in `bench run --once`. Both talk to a
         server here that records requests, which are compared: method, target, host, headers, body. Secrets, which
         bench reads from the environment, may have any value; parts of forms are compared one by one.
openapi  Each document is imported with --unsafe and validated; its operations are looked for among the actions.
rally    Each task file is validated. What bench refuses must be named with its line, and a file that bench cannot
         read as a template or as YAML must be one that Jinja2 and PyYAML cannot read either. Then every YAML and JSON
         file of the repository is rendered and read by both: the values must be equal.

The standard library, PyYAML and, for rally, Jinja2; curl and openssl for the first series. `unshare` keeps what the
commands name out of reach: without it, a command that escapes the redirection would reach the network.
"""

import argparse
import base64
import collections
import datetime
import email.parser
import email.policy
import json
import os
import pathlib
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.parse

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
TIME_LIMIT = 20
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


# ---------------------------------------------------------------- what all series share

class Outcomes:
    """Entries by class. Classes in `quiet` are only counted."""

    def __init__(self, series, quiet):
        self.series, self.quiet, self.entries = series, quiet, collections.defaultdict(list)

    def add(self, kind, name, *details):
        self.entries[kind].append((name, [str(detail) for detail in details if detail]))

    def report(self):
        total = sum(map(len, self.entries.values()))
        print(f"\n=== {self.series}: {total}")
        order = sorted(self.entries, key=lambda kind: (not kind.startswith("WRONG"), -len(self.entries[kind])))
        for kind in order:
            print(f"{len(self.entries[kind]):6}  {kind}")
        for kind in order:
            if kind not in self.quiet:
                self.print_entries(kind)

    def print_entries(self, kind):
        print(f"\n--- {self.series}: {kind}")
        for name, details in self.entries[kind]:
            print(f"* {name}")
            for line in "\n".join(details).splitlines():
                print(f"    {line}")


class Answer:
    """What a program answered: `code` is None if it took too long."""

    def __init__(self, command, directory=".", variables=None, limit=TIME_LIMIT, stdin=b""):
        self.command = command
        try:
            done = subprocess.run(command, cwd=directory, env=environment(directory, variables), input=stdin,
                                  capture_output=True, timeout=limit)
            self.code, self.out, self.err = done.returncode, text(done.stdout), text(done.stderr)
        except subprocess.TimeoutExpired as error:
            self.code, self.out, self.err = None, text(error.stdout), text(error.stderr)

    def broken(self):
        """Why this answer is a fault whatever was asked, or None."""
        if self.code is None:
            return f"longer than {TIME_LIMIT} s"
        if self.code < 0 or self.code == 101 or "panicked at" in self.err:
            return f"crash ({self.code})"
        said = self.out + self.err
        return "it says itself that this is a bug" if "bug of bench" in said or "bug in bench" in said else None


def text(output):
    return (output or b"").decode("utf-8", "replace")


def environment(home, variables=None):
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**kept, "HOME": str(home), "USER": "me", "NO_COLOR": "1", **(variables or {})}


def notes(answer):
    """The notes of an import, without those that only say which environment variables to set."""
    return [line[4:].strip() for line in answer.out.splitlines() if line.startswith("note")]


def wanted_variables(answer):
    found = re.findall(r"^\s+export (.*)$", answer.out, re.M)
    return re.findall(r"(\w+)=", " ".join(found))


def load(path):
    """A YAML or JSON file; None if it is neither."""
    try:
        return yaml.load(path.read_text("utf-8-sig"), LOADER)
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError):
        return None


def actions(steps):
    """All actions of a scenario, also those in groups, loops and so on."""
    if isinstance(steps, dict):
        if "action" in steps:
            yield steps
        for key, value in steps.items():
            if key not in ("json", "form", "query", "headers", "multipart"):
                yield from actions(value)
    elif isinstance(steps, list):
        for value in steps:
            yield from actions(value)


# ---------------------------------------------------------------- curl: a server that records

class Recorder:
    """Answers every HTTP request with 200 and keeps it. Speaks TLS when the client does; accepts tunnels."""

    def __init__(self, directory):
        self.requests, self.lock = [], threading.Lock()
        self.pem = directory / "server.pem"
        make_certificate(self.pem)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(self.pem)
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = listener.getsockname()[1]
        self.listen(listener)

    def listen(self, listener):
        threading.Thread(target=self.accept, args=(listener,), daemon=True).start()

    def listen_unix(self, address):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(address)
        listener.listen()
        self.listen(listener)
        return listener

    def accept(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            connection.settimeout(10)
            self.serve_requests(self.secured(connection), None)
        except (OSError, ValueError):
            pass
        finally:
            connection.close()

    def secured(self, connection):
        first = connection.recv(6, socket.MSG_PEEK)
        if first == b"PROXY ":
            while connection.recv(1) != b"\n":
                pass
            first = connection.recv(1, socket.MSG_PEEK)
        return self.tls.wrap_socket(connection, server_side=True) if first[:1] == b"\x16" else connection

    def serve_requests(self, connection, tunnel):
        """A tunnel is not a request of its own: those in it say that they came through it."""
        stream = connection.makefile("rb")
        while request := read_request(connection, stream):
            if request["method"] == "CONNECT":
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                return self.serve_requests(self.secured(connection), request)
            with self.lock:
                self.requests.append({**request, "tunnel": tunnel_of(tunnel)})
            body = b"" if request["method"] == "HEAD" else b"ok\n"
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\n" + body)
        return None

    def take(self):
        with self.lock:
            taken, self.requests = self.requests, []
        return taken


def make_certificate(path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=recorder",
                    "-keyout", f"{path}.key", "-out", f"{path}.crt"], check=True, capture_output=True)
    path.write_text(pathlib.Path(f"{path}.key").read_text() + pathlib.Path(f"{path}.crt").read_text())


def read_request(connection, stream):
    line = stream.readline().decode("latin-1").split()
    if len(line) < 2:
        return None
    headers = []
    while (header := stream.readline().decode("latin-1").rstrip("\r\n")):
        name, _, value = header.partition(":")
        headers.append((name.lower(), value.strip()))
    known = dict(headers)
    if "expect" in known:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = read_chunks(stream) if "transfer-encoding" in known else stream.read(int(known.get("content-length", 0)))
    return {"method": line[0], "target": line[1], "headers": headers, "body": body}


def tunnel_of(request):
    """Whether there is one, and who asked for it."""
    headers = comparable(request, "") if request else {}
    return f"tunnel {headers.get('proxy-authorization', '')}" if request else "direct"


def read_chunks(stream):
    body = b""
    while size := int(stream.readline().split(b";")[0] or b"0", 16):
        body += stream.read(size)
        stream.readline()
    stream.readline()
    return body


# ---------------------------------------------------------------- curl: the commands of the documents

def curl_commands(root):
    """(place, command) for each example in a block or in the header of an option's document."""
    for path in sorted(root.glob("docs/**/*.md")):
        lines = path.read_text().splitlines()
        place = path.relative_to(root)
        if path.parent.name == "cmdline-opts":
            yield from header_examples(place, lines)
        yield from block_examples(place, lines)


def header_examples(place, lines):
    """The list under `Example:` holds arguments without the word curl; `$URL` is a placeholder."""
    inside = False
    for number, line in enumerate(lines[1:], 2):
        if line == "---":
            return
        inside = line == "Example:" or (inside and line.startswith("  - "))
        if inside and line.startswith("  - "):
            yield f"{place}:{number}", "curl " + line[4:].replace("$URL", "https://example.com").removesuffix(" ...")


def block_examples(place, lines):
    fenced, number = False, 0
    while number < len(lines):
        line = lines[number]
        fenced ^= line.lstrip().startswith("```")
        starts = re.match(r"( *)(?:[$%>#] )?curl +\S" if fenced else r"(    +)(?:[$%>#] )?curl +\S", line)
        if starts and not re.match(r" *curl +[=(]", line):
            command, length = whole_command(lines[number:], len(starts.group(1)))
            yield f"{place}:{number + 1}", command
            number += length
        else:
            number += 1


def whole_command(lines, indent):
    """The command at the first line: it goes on after a backslash, in quotes, and in deeper lines."""
    taken = [re.sub(r"^ *[$%>#] ", "", lines[0]).strip()]
    for line in lines[1:]:
        glued = taken[-1].endswith("\\")
        deeper = line.strip() and len(line) - len(line.lstrip()) > indent
        if not (glued or open_quote("\n".join(taken)) or deeper):
            break
        if not glued and not open_quote("\n".join(taken)):
            taken[-1] += " \\"
        taken.append(line.strip() if not glued or deeper else line)
    command = re.sub(r" \.\.\.$", "", "\n".join(taken))
    for placeholder in ("[URL]", "<URL>", "$URL"):
        command = command.replace(placeholder, "https://example.com")
    return command, len(taken)


def open_quote(command):
    try:
        shlex.split(command)
    except ValueError as error:
        return "quotation" in str(error)
    return False


def words_of(command):
    """The words of the curl command itself, without what a shell would do with its output."""
    lexer = shlex.shlex(command.replace("\\\n", ""), posix=True, punctuation_chars="|<>;&")
    lexer.whitespace_split, lexer.commenters = True, ""
    words = []
    for word in lexer:
        if re.fullmatch(r"[|<>;&]+|#", word):
            break
        words.append(word)
    return [expanded(word, command) for word in words[1:]]


def expanded(word, command):
    """A variable that nobody has set is empty for a shell, except in single quotes."""
    single = f"'{word}'" in command
    return word if single else re.sub(r"\$(\w+|\{\w+\})", lambda name: {"$USER": "me"}.get(name[0], ""), word)


class Options:
    """curl's options by their names, from its own documents: long name, whether it takes a value, what kind."""

    def __init__(self, root):
        self.long, self.short = {}, {}
        for path in root.glob("docs/cmdline-opts/*.md"):
            head = path.read_text().split("\n---", 1)[0]
            fields = dict(re.findall(r"^(Long|Short|Arg): (.*)$", head, re.M))
            if "Long" in fields:
                self.long[fields["Long"]] = fields.get("Arg")
                self.short[fields.get("Short", "").strip("'\"")] = fields["Long"]

    def parse(self, words):
        """[(option or None, value, the words themselves)]"""
        words, parsed = list(words), []
        while words:
            word = words.pop(0)
            if word == "--next" or not word.startswith("-") or word == "-":
                parsed.append((None if word != "--next" else "next", word, [word]))
            elif word.startswith("--"):
                name = word[2:].removeprefix("no-")
                name = name.removeprefix("expand-") if name not in self.long else name
                value = [words.pop(0)] if self.long.get(name) and words else []
                parsed.append((name, value[0] if value else "", [word, *value]))
            else:
                self.parse_short(word, words, parsed)
        return parsed

    def parse_short(self, word, words, parsed):
        for at, letter in enumerate(word[1:], 1):
            name = self.short.get(letter, letter)
            if name == "next":
                parsed.append(("next", "", ["--next"]))
            elif self.long.get(name):
                rest = [word[at + 1:]] if word[at + 1:] else [words.pop(0)] if words else []
                parsed.append((name, rest[0] if rest else "", [f"-{letter}", *rest]))
                return
            else:
                parsed.append((name, "", [f"-{letter}"]))


OTHER_SCHEMES = ("ftp ftps sftp scp dict gopher gophers imap imaps ldap ldaps mqtt mqtts pop3 pop3s rtmp rtsp smb "
                 "smbs smtp smtps telnet tftp file ws wss ipfs ipns").split()


def is_other_protocol(url, has_default):
    """As curl guesses: by the scheme, or else, without a default, by how the host begins."""
    scheme = re.match(r"([a-z0-9]+):/", url, re.I)
    if scheme:
        return scheme[1].lower() in OTHER_SCHEMES
    return not has_default and re.match(r"(ftp|dict|ldap|imap|smtp|pop3)\.", url, re.I) is not None


def urls_of(parsed):
    return [value for name, value, _ in parsed if name in (None, "url")]


# ---------------------------------------------------------------- curl: files that the commands name

def files_of(parsed):
    """{path: kind} of the files that a command reads."""
    files = {}
    for name, value, _ in parsed:
        for path, kind in option_files(name, value):
            if path and path != "-" and not path.startswith("/"):
                files[path.removeprefix("~/")] = kind
    return files


def option_files(name, value):
    if name in ("cert", "key", "cacert", "proxy-cert", "proxy-key", "proxy-cacert", "pubkey"):
        return [(value.split(":")[0], "pem")]
    if name == "netrc-file":
        return [(value, "netrc")]
    if name == "cookie":
        return [] if "=" in value else [(value, "cookies")]
    if name == "config":
        return [(value, "empty")]
    if name == "output-dir":
        return [(value + "/.keep", "empty")]
    if name in ("etag-compare", "time-cond"):
        return [(value, "etag")] if re.search(r"\.\w+$", value) else []
    if name in ("url", None) and value.startswith("@"):
        return [(value[1:], "url")]
    if name == "upload-file":
        names = re.match(r"\{(.*)\}$", value)
        return [(path, "text") for path in (names[1].split(",") if names else [value])]
    if name in ("data", "data-ascii", "data-binary", "json", "header", "proxy-header", "url"):
        return [(value[1:], "header" if "header" in name else "text")] if value.startswith("@") else []
    if name in ("data-urlencode", "variable", "url-query"):
        return [(value.partition("@")[2], "text")] if re.match(r"[\w;%]*@", value) else []
    return form_files(value) if name == "form" else []


def form_files(value):
    """`name=@one;type=text/html,two` and `name=<three`; `headers=@four` in one of them."""
    found = re.findall(r"headers=[@<]([^;,]+)", value)
    content = re.match(r"[^=]*=[@<](.*)", value)
    if content:
        found += [quoted or plain for quoted, plain in re.findall(r'(?:^|,)(?:"([^"]+)"|([^;,"]+))', content[1])]
    return [(path, "header" if f"headers=@{path}" in value else "text") for path in found]


def make_files(directory, files, pem):
    contents = {"pem": pem.read_text(), "empty": "", "header": "X-From-File: yes\n",
                "url": "https://example.com/from-file\n", "etag": '"an-etag"',
                "netrc": "machine example.com login joe password netrc-secret\n",
                "cookies": ".example.com\tTRUE\t/\tFALSE\t0\tfromfile\tyes\n"}
    for path, kind in files.items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.is_dir():
            file.write_text(contents.get(kind, f"content of {path}"))


# ---------------------------------------------------------------- curl: both sides of a command

def run_curl(parsed, directory, recorder):
    """What curl sends, its last answer, and the options it had to be run without, since it is too old for them."""
    left_out = set()
    while True:
        answer = Answer(["curl", "-q", *redirected(parsed, left_out, recorder.port)], directory, limit=15,
                        stdin=b"standard input")
        sent = recorder.take()
        unknown = re.search(r"option (-\S+): (is unknown|the installed libcurl)", answer.err)
        if answer.code != 2 or not unknown or unknown[1] in left_out:
            return sent, answer, left_out
        left_out.add(unknown[1])


def redirected(parsed, left_out, port):
    fixed = ["-m", "3", "-s", "-S", "-k"]
    names = {name for name, _, _ in parsed}
    if "proxy" not in names or "noproxy" in names:
        fixed += ["--connect-to", f"::127.0.0.1:{port}"]
    words = list(fixed)
    for name, _, own in parsed:
        if own[0] in left_out or f"--{name}" in left_out or name == "remote-name":
            continue
        words += [own[0], f"http://127.0.0.1:{port}"] if name == "proxy" else own
        words += fixed if name == "next" else []
    return words


class Imported:
    """What bench makes of a command, and what it then sends."""

    def __init__(self, bench, command, directory, recorder):
        (directory / "command.txt").write_text(command + "\n")
        self.answer = Answer([bench, "import", "curl", "--force", "command.txt", "-o", "s.yaml"], directory)
        self.sent, self.run, self.secrets = [], None, {}
        if self.answer.code == 0:
            self.secrets = {name: f"zqsecret{at}qz" for at, name in enumerate(wanted_variables(self.answer))}
            redirect_deployment(directory / "s-deployment.yaml", recorder.port)
            self.run = Answer([bench, "run", "--once", "--no-probe", "s.yaml"], directory, self.secrets)
            self.sent = recorder.take()


ADDRESS = "address.example"     # stands for an address, which cannot be redirected as a name can


def redirected_proxy(proxy, port):
    """A proxy with a password is a reference to the environment."""
    user = "zqsecret98qz:zqsecret99qz@" if isinstance(proxy, dict) else ""
    return f"http://{user}127.0.0.1:{port}"


def redirect_deployment(path, port):
    """Lets all targets keep their names and lead to the recorder, without a check of certificates."""
    deployment = yaml.safe_load(path.read_text())
    hosts = {}
    proxy = deployment.get("proxy")
    if isinstance(proxy, dict) and "env" not in proxy:
        deployment["proxy"] = {key: value if key == "except" else redirected_proxy(value, port)
                               for key, value in proxy.items()}
    elif proxy:
        deployment["proxy"] = redirected_proxy(proxy, port)
    for name, url in deployment["targets"].items():
        parts = urllib.parse.urlsplit(url) if isinstance(url, str) else None
        if parts and parts.scheme in ("http", "https"):
            host = parts.hostname if re.search(r"[a-z]", parts.hostname) and ":" not in parts.hostname else ADDRESS
            hosts[host] = "127.0.0.1"
            deployment["targets"][name] = parts._replace(netloc=f"{host}:{port}").geturl()
    deployment["tls"] = {**deployment.get("tls", {}), "verify": False}
    deployment["tls"].pop("ca", None)
    deployment["dns"] = {"hosts": hosts}
    path.write_text(yaml.safe_dump(deployment))


# ---------------------------------------------------------------- curl: comparing requests

OWN = ("host", "user-agent", "accept", "accept-encoding", "content-length", "connection", "expect", "proxy-connection")
TRACE = re.compile(r"traceparent|tracestate|x-trace-.*")


def differences(curl, bench, parsed):
    if len(curl) != len(bench):
        return [f"curl sends {len(curl)} requests, bench {len(bench)}:",
                *(f"  curl:  {one['method']} {one['target']}" for one in curl),
                *(f"  bench: {one['method']} {one['target']}" for one in bench)]
    asked = " ".join(value.lower() if name == "header" else str(name) for name, value, _ in parsed)
    return [line for ours, theirs in zip(curl, bench) for line in request_differences(ours, theirs, asked)]


def request_differences(curl, bench, asked):
    lines = [f"{part}: curl {curl[part]}  bench {bench[part]}" for part in ("method", "target", "tunnel")
             if not alike(curl[part], bench[part])]
    mine, its = comparable(curl, asked), comparable(bench, asked)
    for name in sorted(set(mine) | set(its)):
        one, other = mine.get(name, []), its.get(name, [])
        if len(one) != len(other) or not all(map(alike, one, other)):
            lines.append(f"header {name}: curl {one}  bench {other}")
    return lines + body_differences(curl, bench)


def comparable(request, asked):
    """{name: values} of headers that a command can decide."""
    found = collections.defaultdict(list)
    for name, value in request["headers"]:
        chosen = name not in OWN or (name in asked.split(" ") or f"{name}:" in asked) and name != "accept-encoding"
        if name == "host":
            host = re.sub(r":\d+$", "", value)
            found[name].append(ADDRESS if re.fullmatch(r"\[.*\]|[\d.]+", host) else host)
        elif name == "content-type" and value.startswith("multipart/"):
            found[name].append(re.sub(r"boundary=\S+", "boundary", value))
        elif name in ("authorization", "proxy-authorization") and value.lower().startswith("basic "):
            found[name].append("Basic " + base64.b64decode(value[6:]).decode("utf-8", "replace"))
        elif chosen and not TRACE.fullmatch(name):
            found[name].append(value)
    return found


def alike(curl, bench):
    """The same, where a secret of bench's may be anything."""
    pattern = ".+".join(map(re.escape, re.split(r"zqsecret\d+qz", bench)))
    return re.fullmatch(pattern, curl, re.S) is not None


def body_differences(curl, bench):
    mine, its = parts_of(curl), parts_of(bench)
    if len(mine) == len(its) and all(map(alike, mine, its)):
        return []
    return ["body: curl ", *map(repr, mine), "body: bench", *map(repr, its)]


def parts_of(request):
    kind = dict(request["headers"]).get("content-type", "")
    if not kind.startswith("multipart/"):
        return [request["body"].decode("latin-1")]
    whole = f"Content-Type: {kind}\n\n".encode("latin-1") + request["body"]
    message = email.parser.BytesParser(policy=email.policy.compat32).parsebytes(whole)
    return [part_text(part) for part in message.walk() if not part.is_multipart()]


def part_text(part):
    headers = sorted((name.lower(), value) for name, value in part.items())
    return f"{headers} {part.get_payload(decode=True).decode('latin-1')}"


# ---------------------------------------------------------------- curl: the series

def curl_series(bench, root):
    outcomes = Outcomes("curl", quiet={"same", "not http, refused"})
    options = Options(root)
    with tempfile.TemporaryDirectory(prefix="curl-") as temporary:
        recorder = Recorder(pathlib.Path(temporary))
        for place, command in curl_commands(root):
            directory = pathlib.Path(temporary) / "work"
            directory.mkdir()
            try:
                judge_command(outcomes, bench, options, place, command, directory, recorder)
            finally:
                shutil.rmtree(directory)
    outcomes.report()


def judge_command(outcomes, bench, options, place, command, directory, recorder):
    name = f"{place}: {command}"
    try:
        parsed = options.parse(words_of(command))
    except ValueError as error:
        return outcomes.add("not a command", name, error)
    make_files(directory, files_of(parsed), recorder.pem)
    listeners = unix_listeners(parsed, directory, recorder)
    urls = urls_of(parsed)
    foreign = [url for url in urls if is_other_protocol(url, any(name == "proto-default" for name, _, _ in parsed))]
    sent, curl, left_out = ([], None, set()) if foreign else run_curl(parsed, directory, recorder)
    make_files(directory, files_of(parsed), recorder.pem)
    imported = Imported(bench, command, directory, recorder)
    for listener in listeners:
        listener.close()
    said = [f"note: {note}" for note in notes(imported.answer)]
    said += [f"curl was run without {' '.join(sorted(left_out))}"] if left_out else []
    return outcomes.add(*verdict(name, imported, sent, curl, parsed, foreign, said))


def unix_listeners(parsed, directory, recorder):
    paths = [value for name, value, _ in parsed if name == "unix-socket" and not value.startswith("/")]
    names = [value for name, value, _ in parsed if name == "abstract-unix-socket"]
    return [recorder.listen_unix(str(directory / path)) for path in paths] + \
           [recorder.listen_unix("\0" + name) for name in names]


def verdict(name, imported, sent, curl, parsed, foreign, said):
    answer = imported.answer
    broken = answer.broken() or (imported.run and imported.run.broken())
    if broken:
        return "WRONG: " + broken, name, answer.err, imported.run and imported.run.err
    if answer.code != 0:
        return refusal(name, answer, sent, curl, parsed, foreign)
    if foreign:
        return "WRONG: not http, imported as http", name, *said
    if not sent and not imported.sent:
        return "neither sends", name, curl.err, *said, imported.run.out[-300:], imported.run.err
    if any(request["method"] == "PRI" for request in sent):
        return "not compared: HTTP/2", name, *said
    lines = differences(sent, imported.sent, parsed)
    if not lines and imported.run.code != 0:
        return "WRONG: the same requests, but the run fails", name, *said, imported.run.out, imported.run.err
    if not lines:
        return "same" + (", with notes" if said else ""), name, *said
    details = [*said, *lines, curl.err] + ([imported.run.err] if imported.run.code else [])
    if not sent and notes(answer):
        return "curl fails here before it sends; imported with notes", name, *details
    return ("differs, with notes" if notes(answer) else "WRONG: differs in silence"), name, *details


RIGHT_REASONS = re.compile("reads its standard input|encodes the file|must be absolute|has a blank")


def refusal(name, answer, sent, curl, parsed, foreign):
    if not answer.err.startswith("error: "):
        return "WRONG: refused without a reason", name, answer.err
    if foreign:
        return "not http, refused", name
    if "has no URL" in answer.err and urls_of(parsed):
        return "WRONG: refused for no URL, but it has one", name, answer.err
    if not sent:
        return "refused: curl sends nothing either", name, answer.err, curl.err
    right = RIGHT_REASONS.search(answer.err)
    return "refused with a reason" if right else "WRONG: refused, but curl sends", name, answer.err, curl.err


# ---------------------------------------------------------------- openapi

METHODS = "get put post delete options head patch trace query".split()


def openapi_series(bench, roots):
    outcomes = Outcomes("openapi", quiet={"complete"})
    with tempfile.TemporaryDirectory(prefix="openapi-") as temporary:
        for root in roots:
            for path in sorted(root.rglob("*")):
                document = described(path)
                if document is not None:
                    directory = pathlib.Path(temporary) / "work"
                    directory.mkdir()
                    judge_document(outcomes, bench, path, document, directory)
                    shutil.rmtree(directory)
    outcomes.report()


def described(path):
    """The document, if this is one of OpenAPI or Swagger; {} if it seems to be one and is not YAML."""
    if path.suffix not in (".json", ".yaml", ".yml") or not path.is_file():
        return None
    content = path.read_text("utf-8", "replace")
    if not re.search(r"""^\s*\{?\s*["']?(openapi|swagger)["']?\s*:""", content, re.M):
        return None
    document = load(path)
    if isinstance(document, dict):
        return document if {"openapi", "swagger"} & set(map(str, document)) else None
    return {} if re.match(r"\s*\{?\s*[\"']?(openapi|swagger)[\"']?\s*:", content) else None


def judge_document(outcomes, bench, path, document, directory):
    answer = Answer([bench, "import", "openapi", "--unsafe", "--force", str(path), "-o", "s.yaml"], directory)
    said = [f"note: {note}" for note in notes(answer)]
    if answer.broken():
        return outcomes.add("WRONG: " + answer.broken(), path, answer.err)
    if answer.code != 0:
        return outcomes.add(document_refusal(answer, document, path), path, answer.err)
    variables = {name: "aVeryLongValue1" for name in wanted_variables(answer)}
    checked = Answer([bench, "validate", "s.yaml"], directory, variables)
    if checked.broken() or checked.code != 0:
        return outcomes.add("WRONG: " + (checked.broken() or "invalid scenario"), path, *said, checked.out, checked.err)
    missing, further = compare_operations(document, path, directory / "s.yaml")
    if missing or further:
        details = [*said, *(f"missing: {one}" for one in missing), *(f"further: {one}" for one in further)]
        kind = "operations differ, with notes" if said else "WRONG: operations differ in silence"
        return outcomes.add(kind, path, *details)
    return outcomes.add("complete", path)


def document_refusal(answer, document, path):
    if not answer.err.startswith("error: "):
        return "WRONG: refused without a reason"
    if "there is no request to import" in answer.err:
        return "WRONG: refused, but it has operations" if list(operations(document, path)) else "refused: no operations"
    return "refused: other reasons"


def compare_operations(document, path, scenario):
    """Operations of the document without an action, and actions without an operation."""
    made = [action_request(action) for action in actions(yaml.load(scenario.read_text(), LOADER).get("iteration"))]
    missing = []
    for method, template in operations(document, path):
        pattern = re.compile(".*" + path_pattern(template) + r"/?(\?.*)?$", re.S)
        found = next((one for one in made if one[0] == method.upper() and pattern.match(one[1])), None)
        if found:
            made.remove(found)
        else:
            missing.append(f"{method.upper()} {template}")
    return missing, [" ".join(one) for one in made]


def path_pattern(template):
    fixed = re.split(r"\{[^}]*\}", template.rstrip("/"))
    return ".*".join(re.escape(urllib.parse.unquote(part)) for part in fixed)


def action_request(action):
    for method in METHODS:
        if method in action:
            return method.upper(), urllib.parse.unquote(str(action[method]))
    method, _, target = str(action.get("request", "? ?")).partition(" ")
    return method, urllib.parse.unquote(target)


def operations(document, path):
    paths = document.get("paths")
    for template, item in (paths.items() if isinstance(paths, dict) else ()):
        if not str(template).startswith("x-"):
            for method in item_methods(resolved(item, document, path)):
                yield method, str(template)


def item_methods(item):
    if not isinstance(item, dict):
        return
    yield from (method for method in METHODS if isinstance(item.get(method), dict))
    yield from item.get("additionalOperations") or ()


def resolved(item, document, path, depth=0):
    """A path item, or what its $ref leads to, in this file or in another."""
    reference = item.get("$ref") if isinstance(item, dict) else None
    if not isinstance(reference, str) or depth > 20:
        return item
    file, _, pointer = reference.partition("#")
    if re.match(r"https?:", file):
        return item
    other = path.parent / urllib.parse.unquote(file) if file else path
    value = document if not file else load(other) if other.is_file() else None
    for part in pointer.strip("/").split("/") if pointer.strip("/") else ():
        key = urllib.parse.unquote(part).replace("~1", "/").replace("~0", "~")
        value = value.get(key) if isinstance(value, dict) else None
    found = resolved(value, document if not file else load(other), other, depth + 1) if value is not None else {}
    return {**(found if isinstance(found, dict) else {}), **{key: own for key, own in item.items() if key != "$ref"}}


# ---------------------------------------------------------------- rally

PLACE = re.compile(r"^ *--> .*:\d+:\d+", re.M)


def rally_series(bench, root):
    outcomes = Outcomes("rally", quiet={"valid"})
    with tempfile.TemporaryDirectory(prefix="rally-") as home:
        shutil.copytree(root / "rally-jobs/extra", pathlib.Path(home) / ".rally/extra")
        judge_tasks(outcomes, bench, root, home)
    outcomes.report()
    values_series(root)


def values_series(root):
    """Each YAML and JSON file, as the real Jinja2 and PyYAML read it and as bench does: equal values."""
    outcomes = Outcomes("values of task files", quiet={"equal values"})
    files = [path for path in sorted(root.glob("**/*")) if path.suffix in (".json", ".yaml", ".yml") and path.is_file()]
    asked = [{"path": str(path), "arguments": arguments_of(path)} for path in files]
    command = ["cargo", "run", "-q", "--locked", "--example", "rally-values"]
    lines = "\n".join(map(json.dumps, asked))
    ended = subprocess.run(command, cwd=REPOSITORY, input=lines, capture_output=True, text=True, check=True)
    for one, path, line in zip(asked, files, ended.stdout.splitlines(), strict=True):
        judge_value(outcomes, path, one["arguments"], json.loads(line))
    outcomes.report()


def arguments_of(path):
    """A value for each variable of a template."""
    import jinja2.meta
    try:
        names = jinja2.meta.find_undeclared_variables(jinja2.Environment().parse(path.read_text()))
    except jinja2.TemplateError:
        return {}
    return {name: 7 for name in sorted(names - RALLY_GLOBALS.keys())}


def judge_value(outcomes, path, arguments, answer):
    expected = rendered_task(path, arguments)
    if isinstance(expected, str):
        return outcomes.add("neither reads it" if "error" in answer else "bench alone reads it", path, expected)
    if "error" in answer:
        return outcomes.add("bench alone refuses it", path, answer["error"])
    is_same = as_json(expected) == answer["value"]
    return outcomes.add("equal values" if is_same else "WRONG: other values", path)


def as_json(value):
    """As JSON has it: keys are texts, and so are dates."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else json.dumps(key, default=str): as_json(one) for key, one in value.items()}
    if isinstance(value, list):
        return [as_json(one) for one in value]
    return str(value) if isinstance(value, (datetime.date, datetime.datetime)) else value


def judge_tasks(outcomes, bench, root, home):
    deployment = root / "samples/deployments/existing.json"
    for path in sorted([*root.glob("samples/**/*"), *root.glob("rally-jobs/**/*")]):
        if path.suffix in (".json", ".yaml", ".yml") and "deployments" not in path.parts:
            validate = [bench, "validate", "-d", str(deployment), str(path)]
            judge_task(outcomes, path, lambda: Answer(validate, root, {"HOME": home}))


def judge_task(outcomes, path, ask):
    task = rendered_task(path)
    if not is_task(task):
        return outcomes.add("not a task", path, task if isinstance(task, str) else "")
    answer = ask()
    if answer.broken():
        return outcomes.add("WRONG: " + answer.broken(), path, answer.err)
    if answer.code == 0:
        return outcomes.add("valid", path)
    faults = [block for block in re.split(r"\n(?=error: )", answer.err) if block.startswith("error: ")]
    nameless = [fault for fault in faults if not PLACE.search(fault)]
    if not faults or nameless:
        return outcomes.add("WRONG: neither line nor cause", path, answer.err)
    heads = sorted({fault.splitlines()[0] for fault in faults})
    others = [head for head in heads if "scenario `" not in head]
    kind = "refused: other reasons" if others else "refused: unsupported scenarios"
    return outcomes.add(kind, path, *(others or heads))


RALLY_GLOBALS = {"min": min, "max": max, "round": round, "len": len, "range": range, "zip": zip}


def rendered_task(path, arguments=None):
    """What Rally reads: the template rendered with these arguments, as YAML; or why it cannot."""
    import jinja2
    loader = jinja2.FileSystemLoader(str(path.parent))
    surroundings = jinja2.Environment(loader=loader, undefined=jinja2.ChainableUndefined)
    surroundings.globals.update(RALLY_GLOBALS)
    try:
        return yaml.load(surroundings.from_string(path.read_text()).render(arguments or {}), LOADER)
    except (jinja2.TemplateError, yaml.YAMLError, TypeError) as error:
        return f"Jinja2 or PyYAML: {error}"


def is_task(task):
    if not isinstance(task, dict):
        return False
    return "subtasks" in task or any(isinstance(value, list) and "." in str(key) for key, value in task.items())


# ---------------------------------------------------------------- the command line

def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("bench", help="the program")
    arguments.add_argument("--curl", type=pathlib.Path, metavar="DIR", help="curl's repository")
    arguments.add_argument("--openapi", type=pathlib.Path, metavar="DIR", nargs="+", help="repositories with documents")
    arguments.add_argument("--rally", type=pathlib.Path, metavar="DIR", help="the repository of rally-openstack")
    given = arguments.parse_args()
    bench = str(pathlib.Path(given.bench).resolve())
    if given.curl:
        curl_series(bench, given.curl.resolve())
    if given.openapi:
        openapi_series(bench, [root.resolve() for root in given.openapi])
    if given.rally:
        rally_series(bench, given.rally.resolve())


if __name__ == "__main__":
    sys.exit(main())
