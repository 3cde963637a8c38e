"""Everything that people and programs read: documents, terminal tables, the HTML page and the kubectl script of a plan. Enter at the
subpackage for the form that is wanted. May import ``solver`` (types of answers) and ``models``, never ``checker`` or ``commands``."""
