"""GPUs that systems without dynamic resource allocation share, as devices with consumable capacity.

The entry point is :mod:`.adapter`. All parts of kubestow share this reading. Its results are ordinary
ResourceSlices, a DeviceClass and ResourceClaims.
"""
