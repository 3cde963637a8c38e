"""The report as one HTML file. Enter at :func:`kubestow.report.page.data.build`, which says what it shows, and
:func:`kubestow.report.page.render.render`, which makes the file. May import :mod:`kubestow.report.documents`,
:mod:`kubestow.report.terminal` (usage and gaps) and ``models``."""
