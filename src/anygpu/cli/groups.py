"""Commands with commands of their own; a wrong one names the nearest."""

import click


class Named(click.Group):
    """A group that helps with a misspelt sub-command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] in known or args[0].startswith("-"):
            return super().resolve_command(ctx, args)
        raise click.UsageError(f"There is no command {args[0]!r}.{nearest(args[0], known)}", ctx)


def nearest(word: str, known: list[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, known, n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else f" There are: {', '.join(known)}."
