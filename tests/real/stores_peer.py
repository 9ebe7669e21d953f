"""The OSProfiler library with all of its stores, for tests to be compared with.

Run by the Python that tests/real/stores.sh names in BENCH_TEST_STORES_PYTHON. It answers what
osprofiler_peer.py, beside it, answers, with two additions:

    connection strings whose driver the library has, but does not find by their scheme: rediss://,
    sqlite:// (as SQLAlchemy reads it)
    {"op": "list", "connection_string": C, "errors": false}
        what `osprofiler trace list` asks the driver for, or with --error-traces
    {"op": "write", ..., "filter_error_trace": true}
"""

import sys

sys.dont_write_bytecode = True

import osprofiler_peer as peer  # noqa: E402
from osprofiler.drivers import base, redis_driver, sqlalchemy_driver  # noqa: E402

DRIVERS = {
    "rediss": redis_driver.Redis,
    "sqlite": sqlalchemy_driver.SQLAlchemyDriver,
}

filter_error_trace = False
found_by_scheme = base.get_driver


def get_driver(connection_string, **origin):
    driver = DRIVERS.get(connection_string.split("://")[0], found_by_scheme)
    driver = driver(connection_string, **origin)
    driver.filter_error_trace = filter_error_trace
    return driver


def traces(request):
    driver = get_driver(request["connection_string"])
    return driver.list_error_traces() if request.get("errors") else driver.list_traces()


def write(request):
    global filter_error_trace
    filter_error_trace = request.get("filter_error_trace", False)
    return peer.write(request)


base.get_driver = get_driver
peer.OPERATIONS.update(list=lambda request: {"traces": traces(request)}, write=write)

if __name__ == "__main__":
    peer.main()
