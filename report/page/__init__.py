"""The report as one HTML file: :mod:`report.page.data` says what it shows, :mod:`report.page.render` makes the file."""
