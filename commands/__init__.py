"""The commands, one a module: options, the call, and what is written.

Enter at the click command that has its module's name (``kubestow.commands.solve.solve``). A command may import everything but ``cli``, at
module level only click, the standard library and :mod:`kubestow.commands.common.options`, so that ``--help`` and completion answer at once.
"""

from typing import Final

VERSION: Final = "0.1.0"
