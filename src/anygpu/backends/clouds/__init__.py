"""VM providers: one file or package per provider. The name of the file is the kind of the backend.

    class Options(VmOptions): ...
    async def connect(options: Options) -> Provider: ...

No other file names a provider: `anygpu backend add --kind <file name>` finds it here. Providers in other packages use
the entry point group `anygpu.backends`.
"""
