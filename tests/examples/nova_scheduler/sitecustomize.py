"""Samples the functions of a real nova-scheduler into $BENCH_PROFILES/ID.collapsed, by OSProfiler's current id.

Python imports a module of this name when it starts. Nova's greenlets take turns in one thread; a sample belongs to the
trace whose profiler is current in the greenlet that is at work. As tests/examples/profiled_wsgi.py, for a service that is
not ours, with one of its filters slow in one of four traces:

    export BENCH_PROFILES=$(mktemp -d) REAL_SERVICES=nova REAL_PYTHONPATH=tests/examples/nova_scheduler
    eval "$(tests/real/openstack.sh)"
    cargo run --release -- run tests/perf/plants/boot.yaml -d deployments/openstack.yaml --profiles "$BENCH_PROFILES"
"""
import collections
import functools
import importlib.util
import os
import signal
import sys
import time
import uuid

DIRECTORY = os.environ.get("BENCH_PROFILES")
STACKS = collections.defaultdict(collections.Counter)  # by trace, then by stack
SAMPLED = set()  # processes


def current():
    profiler = sys.modules.get("osprofiler.profiler")
    found = profiler.get() if profiler else None
    return found.get_base_id() if found else None


def on_signal(_, frame):
    base_id, names = current(), []
    while base_id and frame:
        names.append(f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}")
        frame = frame.f_back
    if names:
        STACKS[base_id][";".join(["scheduler (100 samples a second)", *reversed(names)])] += 1


def sampled(module):
    original = module.SchedulerManager.select_destinations

    @functools.wraps(original)
    def select_destinations(self, *arguments, **named):
        if os.getpid() not in SAMPLED:  # a worker is a fork, which has no timer
            SAMPLED.add(os.getpid())
            signal.signal(signal.SIGPROF, on_signal)
            signal.setitimer(signal.ITIMER_PROF, 0.01, 0.01)
        try:
            return original(self, *arguments, **named)
        finally:
            if base_id := current():
                with open(f"{DIRECTORY}/{base_id}.collapsed", "a", encoding="utf-8") as file:
                    file.writelines(f"{stack} {count}\n" for stack, count in STACKS.pop(base_id, {}).items())

    module.SchedulerManager.select_destinations = select_destinations


def slow_check():
    """Work of 0.4 s, in which other greenlets wait."""
    until = time.process_time() + 0.4
    while time.process_time() < until:
        sum(number * number for number in range(1000))


def slowed(module):
    original = module.ComputeFilter.host_passes

    def host_passes(self, *arguments):
        base_id = current()
        if base_id and uuid.UUID(base_id).int % 4 == 0:
            slow_check()
        return original(self, *arguments)

    module.ComputeFilter.host_passes = host_passes


CHANGES = {"nova.scheduler.manager": sampled, "nova.scheduler.filters.compute_filter": slowed}


class Finder:
    """Changes modules once they are imported."""

    def find_spec(self, name, path=None, target=None):
        change = CHANGES.pop(name, None)
        if change is None:
            return None
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            change(module)

        spec.loader.exec_module = exec_module
        return spec


if DIRECTORY and any("nova-scheduler" in word for word in sys.orig_argv):
    sys.meta_path.insert(0, Finder())
