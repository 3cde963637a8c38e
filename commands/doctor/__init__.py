"""``kubestow doctor``: what is there of what kubestow needs. Enter at :mod:`commands.doctor.command`."""
