"""The dtype policies of layers with quantized layers inside."""

import re
from typing import Any

import keras

from keras_transformer.fit.keras_overrides import inner_layers


def policy_to_save(layer: keras.layers.Layer) -> Any:
    """Returns the dtype policy from which a layer can be made again.

    If layers inside are quantized, it is a `DTypePolicyMap`, in which each of
    them finds its policy by its path, as in `policy_of`.
    """
    names: dict[str, list[str]] = {}  # by policy
    for part in inner_layers(layer):
        if part.quantization_mode is not None:
            name = part.path.removeprefix(f"{layer.path}/")
            names.setdefault(policy_of(part).name, []).append(re.escape(name))
    if not names:
        return layer.dtype_policy
    # `.*/`: the layer may be made inside a different one. One pattern for all
    # names, because each call of a layer tries every pattern several times.
    start = rf"^(.*/)?{re.escape(layer.name)}"
    get = keras.dtype_policies.get
    policies = {f"{start}/({'|'.join(names[x])})$": get(x) for x in names}
    return keras.dtype_policies.DTypePolicyMap(policy_of(layer).name, policies)


def policy_of(layer: keras.layers.Layer, inside: str = "") -> Any:
    """Returns the policy of a layer, or of a new one inside: "/" and its name.

    Keras does not save a `Dense` again that has a map instead of a policy.
    """
    policy = layer.dtype_policy
    is_map = isinstance(policy, keras.dtype_policies.DTypePolicyMap)
    return policy[f"{layer.path}{inside}"] if is_map else policy
