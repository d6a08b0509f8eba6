"""The commands of `keras-transformer`, in the groups of its help.

A command imports TensorFlow when it needs it, so that mistakes, `--help`,
`presets` and models exported for LiteRT are answered at once.
"""

import platform
from importlib.metadata import version

from cyclopts import App, Group

from keras_transformer import __version__
from keras_transformer.cli import plot
from keras_transformer.cli.command_line import make_app
from keras_transformer.cli.demo import demo
from keras_transformer.cli.exporting import export, serve
from keras_transformer.cli.training import (
    average,
    import_,
    prepare,
    presets,
    train,
)
from keras_transformer.cli.translating import evaluate, score, translate
from keras_transformer.support.startup import quiet_tensorflow_import


def print_versions() -> None:
    """Print the versions of the packages, and the devices."""
    # First, because importing TensorFlow takes seconds.
    print(f"keras-transformer {__version__}", flush=True)
    print(f"Python {platform.python_version()} on {platform.platform()}")
    print(f"Keras {version('keras')}")
    try:
        with quiet_tensorflow_import():
            import tensorflow as tf
    except ModuleNotFoundError:
        print("TensorFlow is not installed")
        return
    details = tf.config.experimental.get_device_details
    devices = tf.config.list_physical_devices()
    names = (details(x).get("device_name", x.device_type) for x in devices)
    print(f"TensorFlow {tf.__version__}\nDevices: {', '.join(names)}")


_INSPECT = Group("Inspect", sort_key=4)
_COMMANDS = {
    Group("Train", sort_key=1): (prepare, train, average, import_),
    Group("Use", sort_key=2): (translate, score, evaluate),
    Group("Serve and export", sort_key=3): (serve, export),
    _INSPECT: (presets, demo),
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
    help="Plot the curves of a training, attention, or a search.",
    group=_INSPECT,
    group_commands=Group("Commands", sort_key=1),
)
for place, command in enumerate((plot.curve, plot.attention, plot.trace)):
    plots.command(command, sort_key=place)
app.command(plots)
app.command(print_versions, name="--version")
app.register_install_completion_command()
