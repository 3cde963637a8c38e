"""The commands: one module each, with its options, the call of the engine, and its output.

Start at the click command that has its module's name (``kubestow.commands.solve.solve``). A command may import
everything except ``cli``. At module level it imports only click, the standard library and :mod:`kubestow.commands.common.options`, so that
``--help`` and completion stay fast.
"""

from typing import Final

VERSION: Final = "0.1.0"
