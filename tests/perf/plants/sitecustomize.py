"""Plants causes in the services that tests/real/openstack.sh starts with REAL_PYTHONPATH=tests/perf/plants.

Python imports a module of this name when it starts. It does nothing unless BENCH_PLANT_FILE names a file, in which
tests/perf/openstack_causes.py writes what to plant: {"cause", "seconds", "every"}, and what the cause needs. The file is
read when a planted function is called, so that causes come and go while the services run. One in `every` traces is hit,
by its id, so that all services agree which.
"""

import functools
import importlib.util
import json
import os
import signal
import sys
import threading
import time
import uuid

FILE = os.environ.get("BENCH_PLANT_FILE")
# What was read, and of which modification.
known = (None, {})
# Traces that were hit where once is enough.
hit = set()


def plant(cause):
    """What is planted, if it is this cause and hits the trace of the current request."""
    global known
    try:
        changed = os.stat(FILE).st_mtime_ns
        if changed != known[0]:
            with open(FILE, encoding="utf-8") as file:
                known = (changed, json.load(file))
    except (OSError, ValueError):
        return None
    planted = known[1]
    if planted.get("cause") != cause:
        return None
    profiler = sys.modules.get("osprofiler.profiler")
    current = profiler.get() if profiler else None
    if current is None or uuid.UUID(current.get_base_id()).int % planted["every"]:
        return None
    return planted


def once(cause):
    """The same, but only the first time in a trace."""
    planted = plant(cause)
    if planted is None:
        return None
    trace = sys.modules["osprofiler.profiler"].get().get_base_id()
    if trace in hit:
        return None
    hit.add(trace)
    return planted


def before(owner, name, do):
    """Calls `do` with the arguments before a method."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*arguments, **named):
        do(*arguments)
        return original(*arguments, **named)

    setattr(owner, name, wrapped)


def wait(cause, find=plant):
    """Something that waits where a cause is planted."""

    def do(*_):
        planted = find(cause)
        if planted:
            time.sleep(planted["seconds"])

    return do


def behind(do):
    """Runs something beside the request; it must not keep the service from ending."""
    threading.Thread(target=do, daemon=True).start()
    # It should have begun before the request goes on.
    time.sleep(0.05)


def lock_or_stop(*_):
    """As a boot arrives: a table is locked, or the broker stops, for a while."""
    planted = once("lock")
    if planted:
        behind(functools.partial(lock, planted))
    planted = once("broker")
    if planted:
        behind(functools.partial(stop, planted))


def lock(planted):
    import pymysql

    connection = pymysql.connect(**planted["database"])
    with connection, connection.cursor() as cursor:
        cursor.execute("LOCK TABLES %s READ" % planted["table"])
        time.sleep(planted["seconds"])


def stop(planted):
    os.killpg(planted["group"], signal.SIGSTOP)
    try:
        time.sleep(planted["seconds"])
    finally:
        os.killpg(planted["group"], signal.SIGCONT)


def placement(module):
    from sqlalchemy import Engine, event

    def slow(connection, cursor, statement, *_):
        if "FROM resource_providers" in statement:
            planted = once("placement")
            if planted:
                cursor.execute("SELECT SLEEP(%f)" % planted["seconds"])
                cursor.fetchall()

    event.listen(Engine, "before_cursor_execute", slow)


def compute(module):
    def spawn(*_):
        planted = plant("compute")
        if planted and module.CONF.host == planted["host"]:
            time.sleep(planted["seconds"])

    before(module.FakeDriver, "spawn", spawn)


def cache(module):
    original = module.TokenCache.get

    @functools.wraps(original)
    def get(self, token):
        return None if plant("token") else original(self, token)

    module.TokenCache.get = get


def callers(module):
    """Traces those who call the conductor. Nova's API and computes import that class before they read their configuration, so
    it stays untraced there, and what its messages wait for counts as time of the caller."""
    original = module.trace_cls

    def trace_cls(name, **named):
        def decorator(traced):
            if traced.__module__ != "nova.conductor.rpcapi":
                return original(name, **named)(traced)
            from osprofiler import profiler

            return profiler.trace_cls(name, named)(traced)

        return decorator

    module.trace_cls = trace_cls


PLANTS = {
    "nova.profiler": callers,
    "placement.objects.allocation_candidate": placement,
    "nova.compute.api": lambda module: before(module.API, "create", lock_or_stop),
    "nova.scheduler.filters.compute_filter":
        lambda module: before(module.ComputeFilter, "host_passes", wait("filter", once)),
    "nova.virt.fake": compute,
    "glance_store._drivers.filesystem": lambda module: before(module.Store, "add", wait("glance")),
    "neutron.plugins.ml2.managers": lambda module: before(module.MechanismManager, "bind_port", wait("port")),
    "keystonemiddleware.auth_token._cache": cache,
}


class Finder:
    """Changes modules once they are imported."""

    def find_spec(self, name, path=None, target=None):
        if name not in PLANTS:
            return None
        change = PLANTS.pop(name)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            change(module)

        spec.loader.exec_module = exec_module
        return spec


if FILE:
    sys.meta_path.insert(0, Finder())
