"""Reading, editing and checking for both the commands and the library (:mod:`kubestow`), without a command line.

Errors are raised and warnings are returned. Nothing is printed, nothing ends the process, and click is not imported.
"""
