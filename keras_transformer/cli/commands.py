"""The commands of `keras-transformer`, in the groups of its help.

A command imports Keras when it needs it, so that mistakes, `--help`,
`presets` and models exported for LiteRT are answered at once.
"""

from cyclopts import App, Group

from keras_transformer import __version__
from keras_transformer.cli import plot
from keras_transformer.cli.command_line import make_app
from keras_transformer.support.errors import MissingPackageError
from keras_transformer.support.startup import start_keras


def print_versions() -> None:
    """Print the versions of the packages, and the devices."""
    import platform
    from importlib.metadata import version

    # First, because importing a backend takes seconds.
    print(f"keras-transformer {__version__}", flush=True)
    print(f"Python {platform.python_version()} on {platform.platform()}")
    print(f"Keras {version('keras')}", flush=True)
    try:
        backend = start_keras()
    except MissingPackageError as error:
        print(error)
        return
    print(f"Backend: {backend} {version(backend)}")
    if backend != "torch":  # for which Keras has no list
        import keras

        print(f"Devices: {', '.join(keras.distribution.list_devices())}")


_TRAIN = Group("Train", sort_key=1)
_USE = Group("Use", sort_key=2)
_EXPORT = Group("Serve and export", sort_key=3)
_INSPECT = Group("Inspect", sort_key=4)
_COMMANDS = {  # MODULE:FUNCTION in this folder, imported when it is called
    "training:prepare": _TRAIN,
    "training:train": _TRAIN,
    "training:average": _TRAIN,
    "training:import_": _TRAIN,
    "translating:translate": _USE,
    "translating:score": _USE,
    "translating:evaluate": _USE,
    "exporting:serve": _EXPORT,
    "exporting:export": _EXPORT,
    "training:presets": _INSPECT,
    "training:demo": _INSPECT,
}

app: App = make_app(
    "keras-transformer",
    '"Attention Is All You Need": train, evaluate, translate, export.',
)
for place, (path, group) in enumerate(_COMMANDS.items()):
    app.command(f"{__package__}.{path}", group=group, sort_key=place)
plots = App(
    name="plot",
    help="Plot the curves of a training, attention, or a search.",
    group=_INSPECT,
    group_commands=Group("Commands", sort_key=1),
)
for place, command in enumerate((plot.curve, plot.attention, plot.trace)):
    plots.command(command, sort_key=place)
app.command(plots)
app.command(print_versions, name="--version")
app.register_install_completion_command()
