"""Does a series of samples grow? For the soak test, where what leaks must be told from what swings.

After a warm-up, the median of the first third is compared with the median of the last. That is growth
when it is more than the allowance, and more than the swing of the samples explains; medians, so that a
single spike counts for nothing, however high.
"""

import collections
import math
import statistics

WARM_UP = 0.25  # of the samples: caches fill, pools reach their size
LEAST = 8       # samples in a third, or nothing can be said
SWINGS = 4      # standard errors that a difference of medians must exceed

# What a median may move: a number of units, or a share of what it was, whichever is more.
Allowance = collections.namedtuple("Allowance", "units share", defaults=(0.0,))
Verdict = collections.namedtuple("Verdict", "first last growth allowed grown")


class TooShort(Exception):
    """There are too few samples to judge by."""


def after_warm_up(samples):
    return samples[math.ceil(len(samples) * WARM_UP):]


def error_of_median(samples):
    """The standard error of their median, from their median deviation."""
    middle = statistics.median(samples)
    deviation = statistics.median(abs(sample - middle) for sample in samples)
    return 1.2533 * 1.4826 * deviation / math.sqrt(len(samples))


def judge(samples, allowance):
    """The verdict on a series that should not grow; raises TooShort."""
    kept = after_warm_up(samples)
    third = len(kept) // 3
    if third < LEAST:
        raise TooShort(f"{len(samples)} samples are too few to judge by")
    first, last = kept[:third], kept[-third:]
    before, after = statistics.median(first), statistics.median(last)
    growth = after - before
    allowed = max(allowance.units, allowance.share * before)
    swing = SWINGS * math.hypot(error_of_median(first), error_of_median(last))
    return Verdict(before, after, growth, max(allowed, swing), growth > max(allowed, swing))
