"""`kproxy` and `python -m kproxy`."""

import sys


def main() -> None:
    """Run the console script."""
    try:
        from kproxy.cli import main as run_command  # not above: it takes a while, and Ctrl-C may come meanwhile

        run_command()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
