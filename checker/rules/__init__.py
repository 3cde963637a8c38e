"""The scheduler's filters as the checker understands them, one module per plugin.

Enter at the module of the plugin. It may import ``kubestow.checker.violation`` and the parts of ``models`` open to the checker.
"""
