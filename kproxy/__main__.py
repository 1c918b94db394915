"""`kproxy` and `python -m kproxy`."""

from kproxy.cli import main

if __name__ == "__main__":
    main()
