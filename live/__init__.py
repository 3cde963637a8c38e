"""Whatever talks to a cluster: today the capture of a snapshot by way of kubectl, which only ever reads.

Enter at :func:`live.capture.capture`. May import ``models``, and nothing of searching, checking or rendering.
"""
