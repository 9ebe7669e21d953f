"""Makes scipy.json and rally.json: what SciPy and Rally themselves answer. Needs scipy and rally from PyPI.

    python3 -m venv /some/where && /some/where/bin/pip install scipy==1.17.1 rally==5.1.1
    /some/where/bin/python tests/vectors/gate/make.py
"""
import json
import pathlib
import random

from scipy.stats import beta, t

HERE = pathlib.Path(__file__).parent
RANDOM = random.Random(7)


def binomial():
    """k, n, one-sided Clopper-Pearson bounds at alpha: SciPy's beta quantiles."""
    cases = [(k, n) for n in (1, 2, 3, 5, 8, 13) for k in range(n + 1)]
    for _ in range(1800):
        n = int(10 ** RANDOM.uniform(0, 7))
        share = RANDOM.choice([RANDOM.random(), 10 ** RANDOM.uniform(-6, 0), 1 - 10 ** RANDOM.uniform(-6, 0)])
        cases.append((min(n, round(n * share)), n))
    for _ in range(400):
        n = 10 ** RANDOM.uniform(0, 5)
        cases.append((RANDOM.random() * n, n))
    rows = []
    for k, n in cases:
        alpha = RANDOM.choice([0.05, 0.05, 0.005, 0.3])
        low = beta.ppf(alpha, k, n - k + 1) if k > 0 else 0.0
        high = beta.ppf(1 - alpha, k + 1, n - k) if k < n else 1.0
        rows.append([k, n, alpha, float(low), float(high)])
    return rows


def student():
    rows = []
    for freedom in list(range(1, 40)) + [60, 100, 1000, 100000]:
        for alpha in (0.25, 0.1, 0.05, 0.01, 0.005, 0.0001):
            rows.append([freedom, alpha, float(t.ppf(1 - alpha, freedom))])
    return rows


def rally():
    """Rally's own classes on made-up iterations: outcome of each criterion."""
    import importlib
    names = {
        "failure_rate": ("failure_rate", "FailureRate"),
        "max_seconds_per_iteration": ("iteration_time", "IterationTime"),
        "max_avg_duration": ("max_average_duration", "MaxAverageDuration"),
        "max_avg_duration_per_atomic": ("max_average_duration_per_atomic", "MaxAverageDurationPerAtomic"),
        "performance_degradation": ("performance_degradation", "PerformanceDegradation"),
    }
    rows = []
    for _ in range(60):
        count = RANDOM.choice([1, 2, 5, 30])
        iterations = []
        for _ in range(count):
            first, second = RANDOM.randint(1, 900), RANDOM.randint(1, 900)
            iterations.append([first, second, RANDOM.random() < RANDOM.choice([0.0, 0.3])])
        if all(failed for _, _, failed in iterations):
            continue
        criteria = {
            "failure_rate": {"min": 0, "max": RANDOM.choice([0, 10, 50])},
            "max_seconds_per_iteration": RANDOM.choice([0.5, 1.0, 1.7]),
            "max_avg_duration": RANDOM.choice([0.5, 0.9, 1.2]),
            "max_avg_duration_per_atomic": {"first": RANDOM.choice([0.3, 0.5]), "second": 0.6},
            "performance_degradation": {"max_degradation": RANDOM.choice([50, 300, 2000])},
        }
        passed = {}
        for name, config in criteria.items():
            module, cls = names[name]
            sla = getattr(importlib.import_module(f"rally.plugins.task.sla.{module}"), cls)(config)
            for first, second, failed in iterations:
                sla.add_iteration({
                    "error": ["e"] if failed else [], "duration": (first + second) / 1000,
                    "atomic_actions": [
                        {"name": "first", "started_at": 0.0, "finished_at": first / 1000},
                        {"name": "second", "started_at": 0.0, "finished_at": second / 1000}],
                })
            passed[name] = sla.success
        rows.append({"iterations_ms": iterations, "criteria": criteria, "passed": passed})
    return rows


def write(name, value):
    text = json.dumps(value, separators=(",", ":"))
    (HERE / name).write_text(text.replace("],[", "],\n[") + "\n")


write("scipy.json", {"binomial": binomial(), "student": student()})
write("rally.json", rally())
