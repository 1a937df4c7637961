"""One file per provider of machines: its name is the kind, `Options` what it can be told, `connect` what it gives.

    class Options(VmOptions): ...
    async def connect(options: Options) -> Provider: ...

Nothing else needs to know of it: `anygpu backend add --kind <file name>` finds it here, and a package of somebody
else's finds its way in by the entry point group `anygpu.backends`.
"""
