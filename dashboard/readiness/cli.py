"""`pairing readiness`: the last findings of the workers."""

from dashboard.command_line.subcommands import NOT_WELL, Answer, Options, Subcommands, add_subcommand
from dashboard.readiness import summary
from dashboard.readiness.score import READY


def add(commands: Subcommands) -> None:
    """Declare it."""
    readiness = add_subcommand(commands, "readiness", "whether failover would work, and how to correct problems", run)
    readiness.add_argument("pair", nargs="?", help="only entities of this pair")
    readiness.add_argument("--least", type=int, default=READY, help=f"minimum score to be ready (default: {READY})")
    readiness.add_argument("--exit-code", action="store_true", help=f"exit with {NOT_WELL} if an entity is below it")


def run(options: Options) -> Answer:
    """The output of `manage.py readiness`."""
    reported = summary.summary(options["pair"], options["least"])
    return Answer(
        reported, summary.lines(reported), NOT_WELL if options["exit_code"] and not reported["is_ready"] else 0
    )
