#!/usr/bin/env python3
"""Computes bucket owners from the algorithm in docs/multistage.md alone; its output is golden.txt.

Each output line has the back ends with their weights, the owners of a few buckets as indices into these, and an
FNV-1a hash of all owners.
"""

MASK = 2**64 - 1
BUCKETS = 65536
SETS = [
    [("r1", 1)],
    [("r1", 1), ("r2", 1)],
    [("r1", 1), ("r2", 1), ("r3", 1)],
    [("r1", 1), ("r2", 2), ("r3", 3)],
    [("lyon", 10), ("turin", 10), ("delft", 7), ("x", 10000)],
    [(f"r{n}", 1 + n % 4) for n in range(16)],
]


def fnv(values):
    hash_ = 0xCBF29CE484222325
    for value in values:
        hash_ = ((hash_ ^ value) * 0x100000001B3) & MASK
    return hash_


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def log(x):
    """The first 32 fractional bits of log2(x); x is from 1 to 2, with 63 fractional bits."""
    result = 0
    for _ in range(32):
        x = x * x >> 63
        result <<= 1
        if x >> 64:
            result |= 1
            x >>= 1
    return result


LOGARITHMS = [log((4096 + step) << 51) for step in range(4096)] + [1 << 32]


def cost(key, bucket):
    hash_ = mix(key ^ mix(bucket + 1)) | 1
    zeros = 64 - hash_.bit_length()
    mantissa = (hash_ << zeros) & MASK
    step, rest = (mantissa >> 51) - 4096, (mantissa >> 19) & 0xFFFFFFFF
    low, high = LOGARITHMS[step], LOGARITHMS[step + 1]
    return ((zeros + 1) << 32) - (low + ((high - low) * rest >> 32))


def owner(members, bucket):
    best = None
    for place, (name, weight) in enumerate(members):
        key = mix(fnv(name.encode()))
        price = cost(key, bucket)
        # Products are compared, so that nothing is rounded.
        if best is None or (price * best[2], key) < (best[1] * weight, best[3]):
            best = place, price, weight, key
    return best[0]


for members in SETS:
    owners = [owner(members, bucket) for bucket in range(BUCKETS)]
    some = [owners[bucket] for bucket in (0, 1, 2, 3, 255, 256, 32767, 65535)]
    names = " ".join(f"{name}:{weight}" for name, weight in members)
    print(names, "|", *some, "|", f"{fnv(owners):016x}")
