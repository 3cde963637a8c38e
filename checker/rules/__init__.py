"""The scheduler's filters as the checker understands them, one plugin a file.

Enter at the module of the plugin. It may import ``kubestow.checker.violation`` and what the checker may import of ``models``.
"""
