"""The commands of `keras-transformer`, in the groups of its help.

A command imports TensorFlow when it needs it, so that mistakes, `--help`,
`presets` and exports for LiteRT are answered at once.
"""

from cyclopts import App, Group

from keras_transformer.cli import (
    demo,
    exporting,
    plot,
    training,
    translating,
    versions,
)
from keras_transformer.cli.command_line import make_app

_INSPECT = Group("Inspect", sort_key=4)
_COMMANDS = {
    Group("Train", sort_key=1): [
        training.prepare,
        training.train,
        training.average,
        training.import_,
    ],
    Group("Use", sort_key=2): [
        translating.translate,
        translating.score,
        translating.evaluate,
    ],
    Group("Serve and export", sort_key=3): [exporting.serve, exporting.export],
    _INSPECT: [training.presets, demo.demo],
}

app: App = make_app(
    "keras-transformer",
    '"Attention Is All You Need": train, evaluate, translate, export.',
)
for group, commands in _COMMANDS.items():
    for place, command in enumerate(commands):
        app.command(command, group=group, sort_key=place)
plots = App(
    name="plot",
    help="Show a training, attention, a search.",
    group=_INSPECT,
    group_commands=Group("Commands", sort_key=1),
)
for place, command in enumerate((plot.curve, plot.attention, plot.trace)):
    plots.command(command, sort_key=place)
app.command(plots)
app.command(versions.print_versions, name="--version")
app.register_install_completion_command()
