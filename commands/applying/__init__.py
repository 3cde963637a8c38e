"""What ``kubestow apply`` does beside reading its options: the reviewed document, the run, its rounds, and pods that wait behind gates.

Enter at :mod:`kubestow.commands.applying.reviewed`. May import all but the commands themselves.
"""
