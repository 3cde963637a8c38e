"""``python -m kubestow`` is the command ``kubestow``."""

from kubestow.cli import main

main()
