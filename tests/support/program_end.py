"""How a program of the tests ends: with an exit code, and without leaving anything when it is told to end early."""

import signal
import sys


def run(main):
    """Ends the program with what main() returns. SIGINT and SIGTERM end it as Ctrl-C does, so that everything
    that was made is removed again, and without a trace of where that was."""
    def stop(number, _frame):
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, lambda *_: None)  # nothing interrupts the removal
        raise SystemExit(128 + number)
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, stop)
    sys.exit(main())
