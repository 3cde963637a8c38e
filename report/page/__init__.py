"""The report as one HTML file.

Enter at :func:`kubestow.report.page.data.build`, which builds the data, and
:func:`kubestow.report.page.render.render`, which writes the file. The package may import
:mod:`kubestow.report.documents`, :mod:`kubestow.report.terminal` (usage and gaps) and ``models``.
"""
