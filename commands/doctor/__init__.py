"""``kubestow doctor``: checks of the requirements of kubestow. Start at :mod:`kubestow.commands.doctor.command`."""
