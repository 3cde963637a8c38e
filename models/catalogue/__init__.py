"""Catalogues of nodes that can be had: reading them, their prices in millionths, and the Node objects that they stand for.

Enter at :mod:`kubestow.models.catalogue.catalogue` (``read``) and :mod:`kubestow.models.catalogue.nodes` (what is bought). It may import
the parts of ``models`` below it, which ``.importlinter`` lists.
"""
