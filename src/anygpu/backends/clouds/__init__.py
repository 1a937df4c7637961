"""VM providers: one file or package per provider. The name of the file is the kind of the backend.

    class Options(VmOptions): ...
    async def connect(options: Options) -> Provider: ...

No other code lists the providers: `anygpu backend add --kind <file name>` finds a provider by its file name.
Providers in other Python packages use the entry point group `anygpu.backends`.
"""
