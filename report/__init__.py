"""All output for people and programs: documents, terminal tables, and the HTML page.

Enter at the subpackage for the desired form. The package may import ``solver`` (types of results) and ``models``,
but not ``checker`` or ``commands``.
"""
