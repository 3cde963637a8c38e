"""The checks, one subject a module or package: each declares its codes and yields findings from a view.

Enter at the module of the subject; :mod:`kubestow.audit.catalogue` lists them. They may import ``kubestow.audit.view``, ``solver`` and
``models``.
"""
