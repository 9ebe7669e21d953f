"""Makes limits.json: which criteria Rally 5.1.1 accepts, just inside and just outside of its limits.

    python3 -m venv /some/where && /some/where/bin/pip install rally==5.1.1
    /some/where/bin/python tests/vectors/gate/limits.py
"""
import importlib
import json
import pathlib

import jsonschema

CLASSES = {
    "failure_rate": ("failure_rate", "FailureRate"),
    "max_seconds_per_iteration": ("iteration_time", "IterationTime"),
    "max_avg_duration": ("max_average_duration", "MaxAverageDuration"),
    "max_avg_duration_per_atomic": ("max_average_duration_per_atomic", "MaxAverageDurationPerAtomic"),
    "outliers": ("outliers", "Outliers"),
    "performance_degradation": ("performance_degradation", "PerformanceDegradation"),
}
TINY = 1e-9
CASES = {
    "failure_rate": [
        {}, {"min": 0}, {"min": -TINY}, {"min": 100}, {"min": 100.000001}, {"max": 0}, {"max": -TINY},
        {"max": 100}, {"max": 100.000001}, {"min": 1, "max": 2}, {"most": 1}, {"max": "1"}, 5,
    ],
    "max_seconds_per_iteration": [TINY, 0, -TINY, 4, 1e300, "4", {}],
    "max_avg_duration": [TINY, 0, -TINY, 4, "4", {}],
    "max_avg_duration_per_atomic": [{}, {"a": TINY}, {"a": 0}, {"a": 1, "b": 2}, {"a": "1"}, 4],
    "outliers": [
        {}, {"max": 0}, {"max": -1}, {"max": 1.5}, {"min_iterations": 3}, {"min_iterations": 2},
        {"min_iterations": 3.5}, {"sigmas": TINY}, {"sigmas": 0}, {"sigmas": -TINY}, {"sigmas": 0.5},
        {"sigmas": "3"}, {"max": 1, "min_iterations": 10, "sigmas": 3.0}, {"most": 1}, 5,
    ],
    "performance_degradation": [{}, {"max_degradation": 0}, {"max_degradation": -TINY}, {"max_degradation": 1e300}, {"most": 1}],
}


def accepted(name, value):
    module, cls = CLASSES[name]
    schema = getattr(importlib.import_module(f"rally.plugins.task.sla.{module}"), cls).CONFIG_SCHEMA
    try:
        jsonschema.validate(value, schema)
    except jsonschema.ValidationError:
        return False
    return True


rows = [
    {"criteria": {name: value}, "accepted": accepted(name, value)} for name, values in CASES.items() for value in values
]
text = ",\n".join(json.dumps(row) for row in rows)
pathlib.Path(__file__).with_name("limits.json").write_text(f"[\n{text}\n]\n")
print(len(rows), sum(row["accepted"] for row in rows))
