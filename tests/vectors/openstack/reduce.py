#!/usr/bin/env python3
"""Reduces a trace of a real cloud, as `bench run` stores it in traces/ID.json, to what the tests look at.

    reduce.py RUN_DIR/traces/ID.json [SECONDS] > NAME.json

Ids of points become numbers, and other ids are made up anew. Arguments of functions, parameters and columns of statements,
and all that is not known to be harmless goes. Names, nesting and times stay. With SECONDS, points that end later, and those of
databases, go: a trace to which threads report for a minute has too many.
"""

import datetime
import json
import re
import sys

UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")
# No FROM of its own within: the innermost first.
COLUMNS = re.compile(r"SELECT (?:(?!SELECT|FROM).)+? FROM", re.S)
STATEMENT_MAX = 90

points, ids = {}, {}


def point(one):
    """1 for the first point of a trace, and so on."""
    return str(points.setdefault(one, len(points)))


def made_up(text):
    """The same text with other ids in the same form."""
    def other(found):
        number = "%032x" % ids.setdefault(found[0].replace("-", ""), len(ids) + 1)
        if "-" not in found[0]:
            return number
        return "-".join((number[:8], number[8:12], number[12:16], number[16:20], number[20:]))
    return UUID.sub(other, text)


def statement(text):
    text = COLUMNS.sub("SELECT a FROM", " ".join(text.split()))
    return made_up(text)[:STATEMENT_MAX]


def info(given, project):
    if project == "bench":
        return {key: made_up(value) if isinstance(value, str) else value for key, value in given.items()}
    kept = {"host": given["host"]} if "host" in given else {}
    if "db" in given:
        kept["db"] = {"statement": statement(given["db"]["statement"])}
    if "function" in given:
        kept["function"] = {"name": given["function"]["name"]}
    if "request" in given:
        request = given["request"]
        kept["request"] = {"method": request["method"], "path": made_up(request["path"]), "query": ""}
    if "etype" in given:
        kept.update(etype=given["etype"], message="")
    return kept


def shortened(records, seconds):
    """The points that end within so long of the first one, without those of databases."""
    def time(record):
        return datetime.datetime.fromisoformat(record["timestamp"])

    end = min(map(time, records)) + datetime.timedelta(seconds=seconds)
    in_time = [record for record in records if time(record) <= end and not re.search(r"(^|\.)db-(start|stop)$", record["name"])]
    ended = {record["trace_id"] for record in in_time if record["name"].endswith("-stop")}
    return [record for record in in_time if record["trace_id"] in ended]


def main():
    trace = json.load(open(sys.argv[1], encoding="utf-8"))
    if len(sys.argv) > 2:
        trace["records"] = shortened(trace["records"], float(sys.argv[2]))
    point(trace["trace_id"])
    records = []
    for record in trace["records"]:
        kept = {"name": record["name"], "base_id": "0", "trace_id": point(record["trace_id"])}
        kept.update(parent_id=point(record["parent_id"]), timestamp=record["timestamp"])
        kept.update(project=record["project"], service=record["service"])
        kept["info"] = info(record["info"], record["project"])
        if record["name"].endswith("-stop"):
            kept["info"].pop("host", None)  # its start has it
        records.append(json.dumps(kept, separators=(",", ":")))
    print('{"trace_id":"00000000-0000-4000-8000-000000000000","state":"%s","records":[' % trace["state"])
    print(",\n".join(records))
    print("]}")


main()
