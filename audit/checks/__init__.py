"""The checks, one topic per module or package. Each declares its codes and yields findings from a view.

Enter at the module of the topic; :mod:`kubestow.audit.catalogue` lists them. Checks may import
``kubestow.audit.view``, ``solver`` and ``models``.
"""
