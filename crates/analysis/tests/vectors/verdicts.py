"""Makes verdicts.json, with which the verdicts of dyno-analysis are compared.

python3 verdicts.py > verdicts.json (scipy 1.12 or later and ruptures 1.1.9 or later, which bring
numpy)

changes: where the pieces of a series end, the cost of a piece being the sum of its squared
deviations from its mean, each change costing pen and each piece having min_size values or more.
With min_size above 1, the pruning of ruptures may miss the optimum; in each case kept here it does
not, and no other partition comes near the optimum.
sign_flips: the share of the sign assignments of the logs whose mean is at least as far from 0 as
theirs, all assignments counted, theirs too.
quantiles: the order statistics, counted from 0, that bound a quantile at 95 %, null where there is
none.
usl: lambda n / (1 + sigma (n - 1) + kappa n (n - 1)) fitted to x, its parameters not negative; cost
is the sum of the squared residuals of the logarithms.
"""

import itertools
import json
import math
import random

import numpy as np
import ruptures
from scipy import optimize, stats


def change(draw, levels, sigma, min_size, weight):
    values = [round(level + draw.gauss(0, sigma), 4) for level in levels]
    pen = round(weight * math.log(len(values)) * sigma**2, 6)
    search = ruptures.Pelt(model="l2", min_size=min_size, jump=1).fit(np.array(values))
    ends = [int(end) for end in search.predict(pen=pen)]
    return {"values": values, "min_size": min_size, "pen": pen, "ends": ends}


def steps(*pieces):
    return [level for level, length in pieces for _ in range(length)]


def changes(draw):
    cycle = [100 + 4 * math.sin(2 * math.pi * i / 20) for i in range(80)]
    blocks = steps(*[(100, 6), (106, 6)] * 5)
    warm = lambda n, drop, pace: [100 - drop * math.exp(-i / pace) for i in range(n)]
    return [
        change(draw, steps((100, 40)), 1, 2, 4),
        change(draw, steps((100, 120)), 2, 5, 2),
        change(draw, steps((100, 5), (110, 5)), 1, 5, 2),
        change(draw, steps((100, 12), (103, 18)), 1, 3, 2),
        change(draw, steps((5200, 45), (5050, 45)), 80, 2, 3),
        change(draw, steps((100, 15), (108, 10), (97, 20)), 1.5, 3, 3),
        # The middle is shorter than min_size.
        change(draw, steps((100, 14), (130, 2), (100, 14)), 1, 5, 10),
        change(draw, steps((10, 20), (14, 25), (11, 15), (17, 30), (12, 20)), 0.8, 5, 4),
        change(draw, cycle, 1, 5, 6),
        change(draw, blocks, 1, 2, 3),
        change(draw, warm(60, 30, 8), 1, 3, 10),
        change(draw, warm(100, 12, 20), 0.5, 2, 4),
    ]


def sign_flips(logs):
    observed = abs(sum(logs) / len(logs))
    far = 0
    for signs in itertools.product((1, -1), repeat=len(logs)):
        mean = sum(sign * log for sign, log in zip(signs, logs)) / len(logs)
        far += abs(mean) >= observed * (1 - 1e-12)
    p = far / 2 ** len(logs)
    mean = lambda x, axis: np.mean(x, axis=axis)
    test = stats.permutation_test(
        (logs,), mean, permutation_type="samples", n_resamples=np.inf, vectorized=True
    )
    # The distribution is symmetric, so that twice the smaller tail, cut at 1, is the same share.
    assert test.pvalue == p, (test.pvalue, p)
    return {"logs": logs, "p": p}


def flips(draw):
    logs = lambda n, center, spread: [round(draw.gauss(center, spread), 6) for _ in range(n)]
    shapes = [(3, 0.05, 0.01), (5, 0.01, 0.03), (6, 0.04, 0.03)]
    shapes += [(8, 0.0, 0.02), (10, -0.02, 0.03), (12, 0.02, 0.04)]
    drawn = [logs(*shape) for shape in shapes]
    made = [
        [0.0, 0.0, 0.0, 0.0],
        [0.02, 0.02, 0.02, 0.02, 0.02, -0.02, 0.02],
        [0.01, 0.03, -0.02, 0.04, 0.02, 0.05, -0.01, 0.03, 0.02],
        [0.0, 0.031, 0.012, 0.0, 0.044, 0.027, -0.003, 0.019, 0.008, 0.015, 0.022],
    ]
    return [sign_flips(case) for case in drawn + made]


def quantile(n, q):
    interval = stats.quantile_test(range(n), q=0, p=q).confidence_interval(0.95)
    bounds = (interval.low, interval.high)
    low, high = (None if math.isnan(bound) else int(bound) for bound in bounds)
    return {"n": n, "q": q, "low": low, "high": high}


def quantiles():
    asked = [(50, 0.5), (51, 0.5), (50, 0.9), (50, 0.99), (400, 0.99), (1000, 0.9)]
    asked += [(1000, 0.999), (10000, 0.999), (20001, 0.5), (200000, 0.999)]
    return [quantile(*ask) for ask in asked]


def usl(n, x):
    """The best of the fits with either, both or neither of sigma and kappa held at 0.

    Each fit begins at several starts. The best lambda for a sigma and a kappa is the geometric
    mean of what the levels give.
    """
    n = np.array(n, dtype=float)
    terms = np.array([n - 1, n * (n - 1)])
    each = lambda shares: np.log(x) - np.log(n) + np.log1p(shares @ terms)
    best = None
    for free in ([], [0], [1], [0, 1]):

        def whole(some):
            shares = np.zeros(2)
            shares[free] = some
            return shares

        def residuals(some):
            logs = each(whole(some))
            return logs - logs.mean()

        def slopes(some):
            slope = (terms[free] / (1 + whole(some) @ terms)).T
            return slope - slope.mean(axis=0)

        fits = [whole([])] if not free else []
        for start in ((1e-4, 1e-6), (0.01, 1e-4), (0.1, 1e-3), (0.5, 0.05)) if free else ():
            tight = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15, "x_scale": "jac"}
            some = optimize.least_squares(
                residuals,
                np.array(start)[free],
                slopes,
                bounds=(0, np.inf),
                max_nfev=10000,
                **tight,
            ).x
            # A fit that ends at a bound is one of those that hold a share at 0, but for rounding.
            if some.min() > 1e-12:
                fits.append(whole(some))
        for shares in fits:
            logs = each(shares)
            cost = float(((logs - logs.mean()) ** 2).sum())
            if best is None or cost < best["cost"]:
                sigma, kappa = (float(share) for share in shares)
                rate = math.exp(logs.mean())
                best = {"lambda": rate, "sigma": sigma, "kappa": kappa, "cost": cost}
    return best


def scaling(draw, n, truth, noise):
    rate, sigma, kappa = truth
    exact = [rate * m / (1 + sigma * (m - 1) + kappa * m * (m - 1)) for m in n]
    x = [round(value * math.exp(draw.gauss(0, noise)), 3) for value in exact]
    return {"n": n, "x": x, **usl(n, x)}


def scalings(draw):
    doubling = [2**i for i in range(10)]
    return [
        scaling(draw, doubling[:9], (1000, 0.02, 0.0001), 0.02),
        scaling(draw, doubling[:10], (1000, 0.02, 0.0001), 0.05),
        scaling(draw, doubling[:8], (5000, 0.1, 0), 0.01),
        scaling(draw, doubling[:9], (5000, 0.1, 0), 0.03),
        scaling(draw, doubling[:7], (200, 0, 0), 0.02),
        scaling(draw, doubling[:6], (200, 0, 0), 0.05),
        scaling(draw, doubling[:9], (900, 0.005, 0.002), 0.03),
        scaling(draw, [2, 3, 5, 8, 12, 20, 40], (900, 0, 0.002), 0.01),
    ]


def main():
    draw = random.Random(1)
    cases = {
        "changes": changes(draw),
        "sign_flips": flips(draw),
        "quantiles": quantiles(),
        "usl": scalings(draw),
    }
    print(json.dumps(cases, indent=1, allow_nan=False))


if __name__ == "__main__":
    main()
