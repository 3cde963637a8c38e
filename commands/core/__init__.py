"""What commands and the library (:mod:`kubestow`) share: reading, editing and judging, without a command line.

What is wrong is raised here, and what is odd is returned: nothing is printed, nothing ends the process, and click is not imported.
"""
