"""The OSProfiler library itself, for tests to be compared with.

Run by the Python that tests/real/up.sh names in BENCH_TEST_PYTHON. Each line of standard input
is a JSON object; each is answered by one line, until the end of the input:

    {"op": "sign", "hmac_key": K, "base_id": B, "parent_id": P}       ids optional
        {"X-Trace-Info": ..., "X-Trace-HMAC": ...}
    {"op": "verify", "hmac_keys": "K1,K2", "headers": {...}}
        {"accepted": true, "base_id": B, "parent_id": P} as a service behind the middleware sees
        them; else {"accepted": false}, with "error" if the middleware raised
    {"op": "report", "connection_string": C, "base_id": B}      optional: options
        what `osprofiler trace show --json` prints
    {"op": "list", "connection_string": C}                      optional: options
        {"traces": [...]}
    {"op": "write", "connection_string": C, "hmac_key": K, "points": [POINT...]}
        {"base_id": B}; optional: base_id, parent_id, project, service, host, options (of the
        driver); with "echo": true also "records", what the driver was given
        POINT: {"name": N}; optional: info, stop_info (objects), sleep_ms (spent inside, before
        the children), children (list of POINT), open (true: its stop is not recorded)
    {"op": "call", "connection_string": C, "hmac_key": K, "url": U}
        {"base_id": B, "status": S, "body": T}: requests.get(U) with the library's integration of
        requests, below a point "client"; optional: project, service, host

A request that fails is answered by {"error": ...}; the next one is read all the same.
"""

import contextlib
import copy
import json
import sys
import time

sys.dont_write_bytecode = True  # the caller's directories stay as they are

from oslo_config import cfg  # noqa: E402
from osprofiler import drivers  # noqa: E402,F401  registers the drivers
from osprofiler import notifier, opts, profiler, web  # noqa: E402
from osprofiler.drivers import base  # noqa: E402
import webob  # noqa: E402


@contextlib.contextmanager
def notifying(receiver):
    before = notifier.get()
    notifier.set(receiver)
    try:
        yield
    finally:
        notifier.set(before)


@contextlib.contextmanager
def fresh_profiler():
    """The library keeps one profiler per thread: none may outlive a request."""
    try:
        yield
    finally:
        profiler.clean()


def sign(request):
    profiler.init(request["hmac_key"], request.get("base_id"), request.get("parent_id"))
    return web.get_trace_id_headers()


def verify(request):
    seen = {"accepted": False}

    def service(environ, start_response):
        current = profiler.get()
        if current:
            seen.update(
                accepted=True,
                base_id=current.get_base_id(),
                parent_id=current.get_parent_id(),  # get_id() is the middleware's own point
            )
        return webob.Response()(environ, start_response)

    http = webob.Request.blank("/")
    for name, value in request["headers"].items():
        http.headers[name] = value.encode().decode("latin-1")  # as WSGI hands over the bytes
    middleware = web.WsgiMiddleware(service, hmac_keys=request["hmac_keys"], enabled=True)
    try:
        http.get_response(middleware)
    except Exception as error:
        seen["error"] = repr(error)
    return seen


def driver_of(request, **origin):
    return base.get_driver(request["connection_string"], **origin, **request.get("options", {}))


def report(request):
    return driver_of(request).get_report(request["base_id"])


def list_traces(request):
    return {"traces": driver_of(request).list_traces()}


def write(request):
    origin = {key: request[key] for key in ("project", "service", "host") if key in request}
    driver = driver_of(request, **origin)
    records = []

    def notify(record):
        records.append(copy.deepcopy(record))
        driver.notify(record)

    profiler.init(request["hmac_key"], request.get("base_id"), request.get("parent_id"))
    with notifying(notify if request.get("echo") else driver.notify):
        write_points(request["points"])
    answer = {"base_id": profiler.get().get_base_id()}
    return {**answer, "records": records} if request.get("echo") else answer


def write_points(points):
    for point in points:
        profiler.start(point["name"], info=point.get("info"))
        time.sleep(point.get("sleep_ms", 0) / 1000)
        write_points(point.get("children", []))
        unheard = notifying(lambda record: None) if point.get("open") else contextlib.nullcontext()
        with unheard:
            profiler.stop(info=point.get("stop_info"))


@contextlib.contextmanager
def traced_requests():
    from osprofiler import requests as profiled_requests
    import requests

    send = requests.adapters.HTTPAdapter.send
    profiled_requests.enable()
    try:
        yield
    finally:
        requests.adapters.HTTPAdapter.send = send


def call(request):
    import requests  # not every environment has it

    origin = {key: request[key] for key in ("project", "service", "host") if key in request}
    driver = driver_of(request, **origin)
    profiler.init(request["hmac_key"])
    with notifying(driver.notify), traced_requests():
        with profiler.Trace("client", info={"url": request["url"]}):
            response = requests.get(request["url"], timeout=10)
    return {
        "base_id": profiler.get().get_base_id(),
        "status": response.status_code,
        "body": response.text,
    }


OPERATIONS = {
    "call": call,
    "list": list_traces,
    "report": report,
    "sign": sign,
    "verify": verify,
    "write": write,
}


def main():
    answers, sys.stdout = sys.stdout, sys.stderr  # nothing else may get between the answers
    sys.stdin.reconfigure(encoding="utf-8")
    opts.set_defaults(cfg.CONF)  # the drivers look their options up in it
    for line in sys.stdin:
        try:
            request = json.loads(line)
            with fresh_profiler():
                answer = OPERATIONS[request["op"]](request)
        except Exception as error:
            answer = {"error": repr(error)}
        print(json.dumps(answer, default=str), file=answers, flush=True)


if __name__ == "__main__":
    main()
