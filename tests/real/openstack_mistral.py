"""Starts Mistral's servers with their points in the collector, besides the log of Mistral's guide to profiling.

    openstack_mistral.py CONNECTION_STRING whole|shipped --config-file FILE --server api,engine,executor

Mistral itself sends its points to that log only, and those of its API nowhere. Here they go to both, so that figures from
the log and from the collector can be compared. `shipped` leaves everything else as it is: what Mistral does after a
transaction and from its scheduler belongs to traces of its own, and a thread keeps the first trace that it ever saw.
`whole` mends both: all that an execution does is in the trace of its request.

Each server writes its process id to NAME.pid in the current directory.
"""
import os
import sys
import threading
import types

from mistral.cmd import launch  # before anything else: it chooses how threads work
from mistral import context
from mistral.engine import post_tx_queue
from mistral.utils import profiler as mistral_profiler
from osprofiler import notifier, profiler, web

collector, traces = sys.argv[1:3]
del sys.argv[1:3]


def report_to_both(service, host):
    config = launch.cfg.CONF
    if not config.profiler.enabled:
        return
    notifier.clear_notifier_cache()  # it has the name of the service that asked first
    to_collector = notifier.create(
        collector, context={}, project="mistral", service=service, host=host, conf=config)

    def notify(point, context=None):
        mistral_profiler.log_to_file(dict(point))
        to_collector(point)

    notifier.set(notify)
    web.enable(config.profiler.hmac_keys)


mistral_profiler.setup = report_to_both


def named(name, launch_server):
    """The same, with the name for what it launches."""
    def launch_named():
        launched[:] = [name]
        if name == "api":
            report_to_both("mistral-api", "bench-host")  # the others do so in their processes
        launch_server()
    return launch_named


def launch_process(server, workers=1, really=launch.launch_process):
    name, start = launched[0], server.start

    def start_with_pid(*arguments, **keywords):
        with open(name + ".pid", "w", encoding="ascii") as file:
            file.write("%d\n" % os.getpid())
        return start(*arguments, **keywords)

    server.start = start_with_pid
    really(server, workers)


launched = []
launch.launch_process = launch_process
for name, launch_server in list(launch.LAUNCH_OPTIONS.items()):
    launch.LAUNCH_OPTIONS[name] = named(name, launch_server)


class Continuing(threading.Thread):
    """A thread in the trace of the one that makes it, or in none."""

    def __init__(self, target):
        super().__init__(target=target)
        self.maker = profiler.get()

    def run(self):
        if self.maker:
            profiler.init(self.maker.hmac_key, self.maker.get_base_id(), self.maker.get_id())
        super().run()


if traces == "whole":
    of_request = context.RpcContextSerializer.deserialize_context

    def only_of_request(self, received):
        profiler.clean()
        return of_request(self, received)

    context.RpcContextSerializer.deserialize_context = only_of_request
    post_tx_queue.threading = types.SimpleNamespace(Thread=Continuing)
    post_tx_queue.profiler = types.SimpleNamespace(init=lambda *keys: None)

sys.exit(launch.main())
