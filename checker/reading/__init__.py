"""The statements of pods and nodes, read from the raw objects: requests, selectors, tolerations, terms and gangs. No rule is judged here.

Every module of the checker may import it. It imports the parts of ``models`` open to the checker.
"""
