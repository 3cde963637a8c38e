"""Catalogues of node shapes: their files, prices in millionths, and the Node objects of purchases.

Start at :mod:`kubestow.models.catalogue.catalogue` (``read``) and :mod:`kubestow.models.catalogue.nodes` (purchased nodes). It may import
the parts of ``models`` that ``.importlinter`` lists below it.
"""
