"""Everything that people and programs read: documents, terminal tables, and the HTML page. Enter at the
subpackage for the form that is wanted. May import ``solver`` (types of answers) and ``models``, never ``checker`` or ``commands``."""
