"""GPUs that systems without dynamic resource allocation share, as devices with consumable capacity. Enter at :mod:`.adapter`.

It is reading, shared by everybody: what comes out are ResourceSlices, a DeviceClass and ResourceClaims like any others.
"""
