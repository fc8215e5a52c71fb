"""Makes estimates.json, with which the estimates of dyno-analysis are compared.

python3 estimates.py > estimates.json (scipy 1.11 or later)
"""

import json
import math
import random

from scipy import stats


def estimate(of, a, b):
    x, y = [math.log(v) for v in a], [math.log(v) for v in b]
    test = stats.ttest_rel(y, x) if of == "pairs" else stats.ttest_ind(y, x, equal_var=False)
    interval = test.confidence_interval(0.95)
    ratio = math.exp(sum(y) / len(y) - sum(x) / len(x))
    low, high = math.exp(interval.low), math.exp(interval.high)
    p = float(test.pvalue)
    return {"of": of, "a": a, "b": b, "ratio": ratio, "low": low, "high": high, "p": p}


def holm(ps):
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    adjusted, least = [0.0] * len(ps), 0.0
    for rank, i in enumerate(order):
        least = min(1.0, max(least, ps[i] * (len(ps) - rank)))
        adjusted[i] = least
    return {"p": ps, "adjusted": adjusted}


def main():
    draw = random.Random(1)
    values = lambda n, median, spread: [median * math.exp(draw.gauss(0, spread)) for _ in range(n)]
    cases = []
    for n in (5, 6, 9, 20):
        for change, spread in ((1.0, 0.03), (1.05, 0.03), (2.0, 0.4)):
            cases.append(estimate("pairs", values(n, 100, spread), values(n, 100 * change, spread)))
            few, more = values(n, 100, spread), values(n + 2, 100 * change, 2 * spread)
            cases.append(estimate("two", few, more))
    ps = [[0.01, 0.04, 0.03, 0.005], [0.5, 0.9], [0.04], [0.02, 0.02, 0.02]]
    print(json.dumps({"cases": cases, "holm": [holm(p) for p in ps]}, indent=1))


if __name__ == "__main__":
    main()
