"""What the measuring programs share of a command line: numbers that must be sound."""

import argparse


def positive(convert):
    """For argparse: a number above zero."""
    def parse(text):
        number = convert(text)  # argparse tells of a ValueError
        if not number > 0:
            raise argparse.ArgumentTypeError(f"{text} is not above zero")
        return number
    parse.__name__ = "number"
    return parse
