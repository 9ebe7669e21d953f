#!/usr/bin/env python3
"""Makes paired.json: what SciPy says of Student's t, Wilcoxon's signed ranks, binomials and order statistics. Ranks
of percentiles are counted out in whole numbers.

pip install scipy==1.17.1 && tests/vectors/statistics/make.py
"""

import fractions
import itertools
import json
import pathlib
import random

import numpy
from scipy import stats

random.seed(20261122)
alphas = [0.0005, 0.001, 0.00125, 0.0016666666666666668, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.45, 0.8, 0.99]
student = [
    [alpha, df, float(stats.t.isf(alpha, df))]
    for alpha in alphas
    for df in [*range(1, 61), 79, 99, 199, 999, 10_000, 2.5, 7.25]
]


def signed(differences):
    """Exact by counting all signs where ranks are tied, as SciPy's own tables need untied ranks."""
    values = numpy.array([d for d in differences if d != 0])
    ranks = stats.rankdata(abs(values))
    positive = float(ranks[values > 0].sum())
    tied = len(set(abs(values))) < len(values)
    if len(values) > 60:
        p = [stats.wilcoxon(values, alternative=a, method="asymptotic", correction=False).pvalue for a in ("greater", "less")]
    elif not tied:
        p = [stats.wilcoxon(values, alternative=a, method="exact").pvalue for a in ("greater", "less")]
    else:
        sums = numpy.array([(ranks * signs).sum() for signs in itertools.product((0, 1), repeat=len(values))])
        p = [float((sums >= positive - 1e-9).mean()), float((sums <= positive + 1e-9).mean())]
        if len(values) <= 12:
            # SciPy's own permutation test agrees where it can be asked for all permutations.
            method = stats.PermutationMethod(n_resamples=2 ** len(values))
            theirs = [stats.wilcoxon(values, alternative=a, method=method).pvalue for a in ("greater", "less")]
            assert numpy.allclose(p, theirs), (values, p, theirs)
    return [list(differences), positive, float(p[0]), float(p[1])]


cases = []
for n in [*range(1, 31), 40, 50, 60]:
    for shift in (-0.5, 0.0, 0.2, 1.0):
        for _ in range(8):
            cases.append([round(random.gauss(shift, 1.0), 4) or 0.1 for _ in range(n)])
cases = [c for c in cases if len({abs(x) for x in c}) == len(c)]
for n in range(1, 15):  # ties and zeros
    for _ in range(40):
        case = [random.randint(-4, 5) / 4 for _ in range(n)]
        if any(case):
            cases.append(case)
for n in (61, 75, 120):  # the normal distribution, with ties
    for _ in range(10):
        cases.append([random.randint(-20, 24) / 8 or 0.125 for _ in range(n)])
signed_rank = [signed(case) for case in cases]

binomial = []
for n in [1, 2, 5, 10, 59, 100, 299, 1000, 2995, 50_000, 1_000_000]:
    for q in [0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999]:
        for k in sorted({0, 1, int(n * q) - 3, int(n * q), int(n * q) + 2, n - 1}):
            if 0 <= k < n:
                binomial.append([k, n, q, float(stats.binom.cdf(k, n, q))])


def order(n, q, alpha):
    cdf = stats.binom.cdf(numpy.arange(-1, n), n, q)  # of rank - 1, for ranks 0 to n
    low = max((r for r in range(1, n + 1) if cdf[r] <= alpha), default=None)
    high = min((r for r in range(1, n + 1) if 1 - cdf[r] <= alpha), default=None)
    return [n, q, alpha, low, high]


orders = [
    order(n, q, alpha)
    for n in [1, 2, 5, 6, 10, 20, 58, 59, 60, 100, 298, 299, 400, 1000, 2000, 2994, 2995, 3000, 20_000, 1_000_000]
    for q in [0.1, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999]
    for alpha in [0.005, 0.025, 0.05]
]

ranks = [
    [n, float(percent), max(1, -(-fractions.Fraction(percent) * n // 100))]
    for n in [1, 2, 3, 7, 10, 59, 100, 299, 1000, 2000, 2995, 3000, 10_000, 999_999, 10**6, 10**9 + 7, 2**53]
    for percent in ["0.001", "0.1", "1", "5", "10", "25", "33.3", "50", "75", "90", "95", "97.5", "99", "99.5", "99.9", "99.95", "99.99", "99.999", "99.9999", "100"]
]

path = pathlib.Path(__file__).with_name("paired.json")
rows = {"student": student, "signed_rank": signed_rank, "binomial": binomial, "order": orders, "ranks": ranks}
lines = [f'"{name}":[\n' + ",\n".join(json.dumps(row, separators=(",", ":"), default=int) for row in table) + "\n]" for name, table in rows.items()]
path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
print({name: len(table) for name, table in rows.items()})
