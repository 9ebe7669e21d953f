"""A WSGI service that samples the functions of each traced request into DIRECTORY/ID.collapsed.

    profiled_wsgi.py threads|eventlet PORT HMAC_KEY CONNECTION_STRING DIRECTORY
    bench trace show ID --profiles DIRECTORY
"""
import collections
import signal
import sys
import time
MODE, PORT, KEY, CONNECTION, DIRECTORY = sys.argv[1:6]
if MODE == "eventlet":
    import eventlet
    from eventlet import wsgi
    eventlet.monkey_patch()
import threading  # noqa: E402
from socketserver import ThreadingMixIn  # noqa: E402
from wsgiref import simple_server  # noqa: E402
from osprofiler import notifier, profiler, web  # noqa: E402
STACKS = collections.defaultdict(collections.Counter)  # by trace, then by stack
RUNNING = {}  # the trace of each thread
def sample(base_id, frame):
    names = []
    while frame:
        names.append(f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}")
        frame = frame.f_back
    STACKS[base_id][";".join(["wsgi (100 samples a second)", *reversed(names)])] += 1
def on_signal(_, frame):  # in the greenlet that is at work, whose profiler is the current one
    if current := profiler.get():
        sample(current.get_base_id(), frame)
def watch_threads(used={}):  # those that were at work since the last look
    while not time.sleep(0.01):
        for ident, base_id in list(RUNNING.items()):
            now = time.clock_gettime(time.pthread_getcpuclockid(ident))
            if now > used.get(ident, now) + 0.002 and (frame := sys._current_frames().get(ident)):
                sample(base_id, frame)
            used[ident] = now
def application(environ, start_response):
    base_id = profiler.get().get_base_id() if profiler.get() else None
    RUNNING.update({threading.get_ident(): base_id} if base_id else {})
    {"/busy": busy, "/idle": idle}[environ["PATH_INFO"]]()
    RUNNING.pop(threading.get_ident(), None)
    with open(f"{DIRECTORY}/{base_id}.collapsed", "a") as file:
        file.writelines(f"{stack} {count}\n" for stack, count in STACKS.pop(base_id, {}).items())
    start_response("200 OK", [])
    return [b"done"]
def busy():
    for _ in range(300):
        sum(number * number for number in range(20_000))
        time.sleep(0)  # others take turns
def idle():
    time.sleep(0.5)
notifier.set(notifier.create(CONNECTION, project="example", service="wsgi", host="vm", conf={}))
traced = web.WsgiMiddleware(application, hmac_keys=KEY, enabled=True)
if MODE == "eventlet":
    signal.signal(signal.SIGPROF, on_signal)
    signal.setitimer(signal.ITIMER_PROF, 0.01, 0.01)
    wsgi.server(eventlet.listen(("127.0.0.1", int(PORT))), traced, log_output=False)
threading.Thread(target=watch_threads, daemon=True).start()
server = type("Server", (ThreadingMixIn, simple_server.WSGIServer), {"daemon_threads": True})
simple_server.make_server("127.0.0.1", int(PORT), traced, server).serve_forever()
