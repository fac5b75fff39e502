"""What the measuring programs share of a command line: numbers that must be sound, and an end that was asked for."""

import argparse
import signal
import sys


def positive(convert):
    """For argparse: a number above zero."""
    def parse(text):
        number = convert(text)  # argparse tells of a ValueError
        if not number > 0:
            raise argparse.ArgumentTypeError(f"{text} is not above zero")
        return number
    parse.__name__ = "number"
    return parse


def run(main):
    """Ends the program with what main() returns. SIGINT and SIGTERM end it as Ctrl-C does, so that everything
    that was made is removed again, and without a trace of where that was."""
    def stop(number, _frame):
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)  # nothing interrupts the removal
        raise SystemExit(128 + number)
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, stop)
    sys.exit(main())
