#!/usr/bin/python3
"""What the bench and the soak test draw conclusions with: the judgement on growth, and the charts."""

import math
import os
import random
import sys
import unittest
import xml.etree.ElementTree as ElementTree

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(ROOT, "tests", "bench"), os.path.join(ROOT, "tests", "support")]

from charts import Axis, Panel, Series, chart, linear_scale, log_scale, number
from trend import LEAST, Allowance, TooShort, judge

SAMPLES = 300
NONE = Allowance(0)


def noise(seed, spread):
    rng = random.Random(seed)
    return [rng.gauss(0, spread) for _ in range(SAMPLES)]


class Growth(unittest.TestCase):
    def expect(self, grown, samples, allowance, what):
        with self.subTest(what):
            verdict = judge(samples, allowance)
            self.assertEqual(verdict.grown, grown, verdict)

    def test_what_grows_is_rejected(self):
        for seed in range(20):
            swing = noise(seed, 1.0)
            for what, samples in {
                    "a leak": [20 + i * 0.02 for i in range(SAMPLES)],
                    "a leak below noise": [20 + i * 0.02 + swing[i] for i in range(SAMPLES)],
                    "by steps": [20 + 2 * (i // 60) + swing[i] / 4 for i in range(SAMPLES)],
                    "below a sawtooth": [20 + i * 0.03 + i % 10 for i in range(SAMPLES)],
                    "late": [20 + max(0, i - 200) * 0.1 + swing[i] for i in range(SAMPLES)],
            }.items():
                self.expect(True, samples, Allowance(1, 0.02), f"{what}, {seed}")

    def test_a_single_unit_is_growth_of_what_must_not_move(self):
        self.expect(True, [21] * 200 + [22] * 100, NONE, "a thread that is not joined")
        self.expect(False, [21] * SAMPLES, NONE, "all of them are")

    def test_what_only_swings_is_accepted(self):
        for seed in range(20):
            swing = noise(seed, 1.0)
            spikes = random.Random(seed).sample(range(SAMPLES), 30)
            for what, samples in {
                    "noise": [20 + each for each in swing],
                    "spikes": [20 + (1000 if i in spikes else 0) for i in range(SAMPLES)],
                    "a sawtooth": [i % 37 for i in range(SAMPLES)],
                    "a wave": [20 + 5 * math.sin(i / 7) + swing[i] for i in range(SAMPLES)],
                    "filling up at first": [20 - 10 * math.exp(-i / 15) for i in range(SAMPLES)],
                    "shrinking": [20 - i * 0.02 for i in range(SAMPLES)],
                    "a spike at the end": [20.0] * (SAMPLES - 5) + [500.0] * 5,
            }.items():
                self.expect(False, samples, Allowance(1, 0.02), f"{what}, {seed}")

    def test_an_allowance_is_units_or_a_share_whichever_is_more(self):
        samples = [100.0] * 150 + [104.0] * 150
        self.expect(True, samples, Allowance(3), "units")
        self.expect(False, samples, Allowance(5), "units")
        self.expect(True, samples, Allowance(1, 0.03), "a share")
        self.expect(False, samples, Allowance(1, 0.05), "a share")

    def test_too_few_samples_are_no_verdict(self):
        for count in range(LEAST * 3):
            with self.assertRaises(TooShort):
                judge([20.0] * count, NONE)
        self.assertFalse(judge([20.0] * (LEAST * 4), NONE).grown)


class Ticks(unittest.TestCase):
    def test_values_lie_between_round_limits(self):
        for values in ([0.02, 0.9], [1, 1], [3, 97], [120, 9300], [0, 0], [-5, 5], [12.9, 12.96]):
            for from_zero in (True, False):
                with self.subTest(values=values, from_zero=from_zero):
                    (low, high), ticks = linear_scale(values, from_zero)
                    self.assertTrue(low <= min(values) and max(values) <= high, (low, high))
                    self.assertTrue(2 <= len(ticks) <= 9, ticks)
        self.assertEqual(linear_scale([3, 97], True), ((0, 100), [0, 20, 40, 60, 80, 100]))

    def test_logarithmic_ticks_are_few(self):
        self.assertEqual(log_scale([30, 4000]), ((20, 5000), [20, 50, 100, 200, 500, 1000, 2000, 5000]))
        self.assertEqual(log_scale([1, 100000]), ((1, 100000), [1, 10, 100, 1000, 10000, 100000]))
        self.assertEqual(log_scale([7, 7])[0], (5, 10))
        self.assertEqual(log_scale([1, 1])[0], (1, 2))
        with self.assertRaises(ValueError):
            log_scale([0, 5])

    def test_labels(self):
        for value, wanted in ((0, "0"), (0.02, "0.02"), (0.5, "0.5"), (1.0, "1"), (2.5, "2.5"),
                              (1500, "1,500"), (100000, "100,000"), (-20.0, "-20")):
            self.assertEqual(number(value), wanted)


class Charts(unittest.TestCase):
    def draw(self, *panels):
        svg = chart('A "title" & <more>', "bench.py --only x < y", panels)
        return svg, ElementTree.fromstring(svg)

    def texts(self, root):
        return ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]

    def test_a_chart_is_whole(self):
        lines = [Series("p50", [(1, 30), (10, 31), (100, 33)]),
                 Series("p99", [(1, 120), (10, 140), (100, 200)], dashed=True)]
        svg, root = self.draw(Panel("searches", Axis("users", log=True), Axis("us", log=True), lines))
        for wanted in ('A "title" & <more>', "searches", "users", "us", "p50", "p99", "1", "10", "100",
                       "bench.py --only x < y"):
            self.assertIn(wanted, self.texts(root))
        self.assertIn("prefers-color-scheme:dark", svg)
        self.assertEqual(svg.count("<circle"), 6)
        self.assertIn("stroke-dasharray", svg)

    def test_everything_lies_on_the_page(self):
        series = [Series(f"a long name of series {i}", [(x, 10 ** i * x) for x in range(1, 40)])
                  for i in range(5)]
        _, root = self.draw(Panel("a", Axis("x"), Axis("y", log=True), series),
                            Panel("b", Axis("x", log=True), Axis("y"), series[:1], height=100))
        width, height = float(root.get("width")), float(root.get("height"))
        for node in root.iter("{http://www.w3.org/2000/svg}text"):
            words = "".join(node.itertext())
            half = len(words) * 13 * 0.58 / 2
            left = {"start": 0, "middle": half, "end": 2 * half}[node.get("text-anchor")]
            if node.get("transform"):
                continue  # turned about its middle, at the left edge
            self.assertGreaterEqual(float(node.get("x")) - left, 0, words)
            self.assertLessEqual(float(node.get("x")) - left + 2 * half, width, words)
            self.assertTrue(0 < float(node.get("y")) < height, words)

    def test_a_line_alone_needs_no_key_and_many_points_no_marks(self):
        _, root = self.draw(Panel("a", Axis("x"), Axis("y"),
                                  [Series("alone", [(x, x) for x in range(50)])]))
        self.assertNotIn("alone", self.texts(root))
        self.assertEqual(list(root.iter("{http://www.w3.org/2000/svg}circle")), [])

    def test_nothing_cannot_be_drawn(self):
        with self.assertRaises(ValueError):
            self.draw(Panel("a", Axis("x"), Axis("y"), [Series("none", [])]))


if __name__ == "__main__":
    unittest.main()
