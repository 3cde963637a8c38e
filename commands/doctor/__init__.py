"""``kubestow doctor``: what is there of what kubestow needs. Enter at :mod:`kubestow.commands.doctor.command`."""
