"""Image classifiers of torchvision as ONNX files, without their weights.

Run by hand, ``python datasets/generators/onnx_exports.py``, in an environment of its own with
``torch==2.13.0 torchvision==0.28.0 onnx==1.23.2 onnxscript==0.7.2``: other versions may name and
fuse ops differently. Running it twice changes nothing.

Each weight becomes a ``ConstantOfShape`` of the same name, shape and type. Kernels and matrices
take means and all else is 1, so that the file as it is computes finite numbers. Constants that are
no weights (shapes, axes, bounds) keep their values.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
from onnx import helper, numpy_helper

if TYPE_CHECKING:
    import torch

FOLDER = Path(__file__).resolve().parents[1] / "onnx"
# name -> extent of the square image, and what its constructor is told
MODELS: dict[str, tuple[int, dict[str, bool]]] = {
    "densenet121": (224, {}),
    "inception_v3": (299, {"aux_logits": False, "init_weights": False}),
    "mobilenet_v2": (224, {}),
    "resnet50": (224, {}),
    "shufflenet_v2_x1_0": (224, {}),
    "squeezenet1_1": (224, {}),
}


def export(name: str) -> onnx.ModelProto:
    """The model at batch 1, with batch norm folded into the convolutions that come before it."""
    import torch

    extent = MODELS[name][0]
    program = torch.onnx.export(
        classifier(name),
        (torch.zeros(1, 3, extent, extent),),
        input_names=["image"],
        output_names=["scores"],
        opset_version=20,
        dynamo=True,
        verbose=False,
    )
    return program.model_proto


def classifier(name: str) -> torch.nn.Module:
    """The model, with weights that all differ: of equal ones, the exporter keeps one only."""
    import torch
    from torchvision import models

    model = models.get_model(name, weights=None, **MODELS[name][1]).eval()
    torch.manual_seed(0)
    for value in model.state_dict().values():
        if value.is_floating_point():
            value.uniform_(0.5, 1.5)
    return model


def without_weights(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """The same model with nodes that make its weights, and no word of where it was exported."""
    shapes: dict[str, onnx.TensorProto] = {}
    fills, kept = [], []
    for tensor in model.graph.initializer:
        extents = list(tensor.dims)
        if tensor.data_type != onnx.TensorProto.FLOAT or math.prod(extents) <= 1:
            kept.append(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
            continue
        shape = "shape_" + "x".join(map(str, extents))
        shapes[shape] = helper.make_tensor(shape, onnx.TensorProto.INT64, [len(extents)], extents)
        fan_in = math.prod(extents[1:])
        value = helper.make_tensor("", tensor.data_type, [1], [1 / fan_in])
        node = f"fill_{tensor.name}"
        fills.append(helper.make_node("ConstantOfShape", [shape], [tensor.name], node, value=value))
    graph = helper.make_graph(
        fills + [plain(node) for node in model.graph.node],
        name,
        [onnx.ValueInfoProto(name=value.name, type=value.type) for value in model.graph.input],
        [onnx.ValueInfoProto(name=value.name, type=value.type) for value in model.graph.output],
        kept + list(shapes.values()),
    )
    return helper.make_model(
        graph,
        producer_name=model.producer_name,
        # Builds for other devices export the same.
        producer_version=model.producer_version.partition("+")[0],
        opset_imports=model.opset_import,
        ir_version=model.ir_version,
    )


def plain(node: onnx.NodeProto) -> onnx.NodeProto:
    """The node without remarks: the exporter's name the files that it traced."""
    bare = helper.make_node(
        node.op_type, node.input, node.output, node.name, domain=node.domain or None
    )
    bare.attribute.extend(node.attribute)
    return bare


def load_torchvision() -> None:
    """Load torchvision, also beside a torch that its compiled detection operators do not fit.

    Classifiers use none of them, but torchvision describes these two when it is imported.
    """
    import torch

    try:
        import torchvision  # noqa: F401
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
        schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", schema)


def main() -> None:
    load_torchvision()
    FOLDER.mkdir(exist_ok=True)
    for name in MODELS:
        model = without_weights(export(name), name)
        onnx.checker.check_model(model, full_check=True)
        (FOLDER / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
