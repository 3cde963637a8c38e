"""The texts that a snapshot is read from: files, archives, bundles, and exports of other tools."""
