"""``python -m trainless`` is the command line."""

from trainless.cli import main

main()
