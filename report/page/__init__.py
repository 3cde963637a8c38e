"""The report as one HTML file. Enter at :func:`report.page.data.build`, which says what it shows, and :func:`report.page.render.render`,
which makes the file. May import :mod:`report.documents`, :mod:`report.terminal` (usage and gaps) and ``models``."""
