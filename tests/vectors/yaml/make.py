"""Plain scalars as PyYAML reads them, for the tests of YAML 1.1: python3 make.py > pyyaml.json"""

import json
import random
import sys

import yaml

WRITTEN = """
yes No ON off y n true True tRue 010 08 0o17 0b101 0x1F 0x_1f 1_000 1_0.5_0 -1_000 +12 1e3 1.5e3 1.5e+3 1.5E-3 .5 5. -.5
+.5 00.5 0.5 1:30 1:30:05 -1:30 1:60 1:30.5 0:30 12:30 190:20:30.15 ~ null NULL nUll .inf -.inf .nan -0 +0 0 00 _1 1__0
0_7 0b_1 0x 0b 0b2 1. 1._ ._5 18446744073709551616 0xFFFFFFFFFFFFFFFFFFFF 1.50 2733382000000000049 1.0000000000000000001
1.e+3 1e+3 2001-12-14 1-2 1,000
""".split()
LETTERS = "0123456789_.:+-eExXbo"
MADE = 1_500


def made(draw):
    return "".join(draw.choice(LETTERS) for _ in range(draw.randint(1, 6)))


def read(text):
    """The value, with reals as their digits; dates stay texts."""
    try:
        value = yaml.safe_load("a: " + text)["a"]
    except (yaml.YAMLError, TypeError, KeyError, ValueError):
        return None
    if isinstance(value, float):
        value = {"real": repr(value)}
    elif value is not None and not isinstance(value, (bool, int, str)):
        value = text
    return [text, value]


draw = random.Random(3)
texts = dict.fromkeys(WRITTEN + [made(draw) for _ in range(MADE)])
rows = [row for row in map(read, texts) if row]
json.dump({"pyyaml": yaml.__version__, "rows": rows}, sys.stdout, separators=(",", ":"))
print()
